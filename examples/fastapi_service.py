"""A FastAPI application with an endpoint, a page, and apass below `/apass`.

    pip install "apass[serve,onnx]" fastapi
    python examples/fastapi_service.py --port 8000
    curl --data-binary @model.onnx 'http://127.0.0.1:8000/optimize?name=model.onnx' -o smaller.onnx

The optimizer lives as long as the application: its lifespan enters and leaves it. `/optimize` is an endpoint of the
application itself. It answers with the optimized model, or with the reason why there is none. If the client leaves, its
job is cancelled. `/` is a page with the totals, and `/apass/` is the live page of all jobs.
"""

import argparse
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from typing import Final

import anyio
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse

from apass.executors import ProcessExecutor
from apass.service import JobQuery, Limits, Optimizer, QueueFullError, ServiceError, create_app

MODEL_BYTES: Final = 2**26
"""The largest model."""


def make_app(*, workers: int = 2, store: Path | None = None) -> FastAPI:
    """Return the application.

    Parameters:
        workers: the number of worker processes, in which models are read and optimized.
        store: the file of the jobs; None keeps them in memory.

    """
    optimizer = Optimizer(
        {"default": "onnx.Default", "cleanup": "onnx.IdentityElimination,onnx.RemoveUnusedNodes"},
        limits=Limits(queued=1_000, model_bytes=MODEL_BYTES, deadline=120.0),
        store=store,
        executor=ProcessExecutor(workers, memory=2**33),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with optimizer:
            yield

    app = FastAPI(title="Smaller models", lifespan=lifespan)

    @app.post("/optimize")
    async def optimize(request: Request, name: str = "model.onnx", pipeline: str = "default") -> Response:
        """Return the optimized model."""
        model = bytearray()
        async for chunk in request.stream():
            model += chunk
            if len(model) > MODEL_BYTES:
                raise HTTPException(413, f"a model has at most {MODEL_BYTES} bytes here")
        try:
            job = await optimizer.submit(bytes(model), kind=Path(name).suffix, name=name, pipeline=pipeline, wait=False)
            while not job.record.ended:
                with anyio.move_on_after(0.5):
                    await job.wait()
                if await request.is_disconnected():
                    await job.cancel()
            result = await job.result()
        except QueueFullError as error:
            raise HTTPException(429, str(error), {"Retry-After": f"{error.retry_after:.0f}"}) from None
        except ServiceError as error:
            # The notes of a failed job name the pass and the function.
            raise HTTPException(error.status, [str(error), *getattr(error, "__notes__", ())]) from None
        return Response(result, media_type="application/octet-stream", headers={"X-Job": job.id})

    @app.get("/", response_class=HTMLResponse)
    async def page() -> str:
        """Return a page with the totals."""
        jobs = (await optimizer.list(JobQuery(tenant="", limit=200))).jobs
        states = Counter(str(job.state) for job in jobs)
        rows = "".join(f"<li>{escape(state)}: {count}</li>" for state, count in sorted(states.items()))
        return f"<!doctype html><title>Smaller models</title><h1>Jobs</h1><ul>{rows or '<li>none</li>'}</ul>"

    app.mount("/apass", create_app(optimizer))
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the application with uvicorn; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000, help="0 chooses a free port")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", type=Path)
    options = parser.parse_args(arguments)
    uvicorn.run(make_app(workers=options.workers, store=options.store), port=options.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
