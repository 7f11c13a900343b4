"""The peer of `service.py`: an endpoint by hand, with FastAPI and onnx_ir.

This is what applications do without apass: an endpoint that reads the model, runs passes of onnx_ir in a thread of the
pool, and responds with the result. Nothing is stored, and a client that loses its connection has lost its result.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import onnx
import onnx_ir
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from onnx_ir.passes import common

__all__ = ["PASSES", "app", "optimize"]

PASSES: Final = (
    "DeduplicateInitializers",
    "CommonSubexpressionElimination",
    "TopologicalSort",
    "RemoveUnusedNodes",
    "RemoveUnusedFunctions",
    "RemoveUnusedOpsets",
)
"""Passes of onnx_ir, which apass has too, with the prefix `onnx.`.

Both return equal models. `IdentityElimination` is not among them: apass keeps nodes that onnx_ir removes at the
cost of new names for outputs of subgraphs.
"""

_PIPELINE: Final = onnx_ir.passes.Sequential(*(getattr(common, f"{name}Pass")() for name in PASSES))


@asynccontextmanager
async def _lifespan(_app: FastAPI) -> AsyncGenerator[None]:
    # Messages about single initializers would take longer than the passes.
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    yield


app = FastAPI(lifespan=_lifespan)


def optimize(data: bytes) -> bytes:
    """Return the optimized model."""
    model = onnx_ir.from_proto(onnx.ModelProto.FromString(data))
    result = _PIPELINE(model).model
    return onnx_ir.to_proto(result).SerializeToString()


@app.post("/optimize")
async def optimize_model(request: Request) -> Response:
    """Respond with the optimized model."""
    data = await request.body()
    result = await run_in_threadpool(optimize, data)
    return Response(result, media_type="application/octet-stream")
