"""The servers that `service.py` measures, each in a process of its own.

    python -m benchmarks.service_server OPTIONS

`OPTIONS` is a JSON object with the fields of `Options`. The server prints its port, and then one line of JSON for each
line of its standard input:

- `begin`: start to measure the delays of the event loop;
- `end`: collect garbage, and return the delays since `begin`, and the number of tasks;
- `open`: let jobs of the pipeline `gate` go on;
- `stop`: stop the server. The end of the input does the same.
"""

import gc
import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import Any, Final, Literal

import anyio
import uvicorn
from anyio.to_thread import run_sync

from apass import Pass, PassContext, module_pass
from apass.executors import ProcessExecutor
from apass.service import JobsUnavailableError, Limits, Optimizer, create_app

BEAT: Final = 0.005
"""Seconds that the task sleeps that measures the delays of the event loop."""

BACKLOG: Final = 2048
"""Connections that may wait to be accepted: all clients connect at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which server it is."""

    pipeline: str | None
    """The pipeline of the server of apass; None for the peer."""
    store: str | None = None
    """The path or the URL of the store; None for memory."""
    workers: int = 0
    """The number of worker processes; 0 for the event loop, or the workers of Dask."""
    dask: str | None = None
    """The address of a Dask scheduler; None for none."""
    running: int | None = None
    """How many jobs run at once; None for the default."""
    max_age: float | None = None
    """The age at which jobs are removed, which is then looked for each second; None for no removal."""


class Server:
    """The state of the process."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        """How much later than it wanted the task has woken up, in seconds."""
        self.gate = anyio.Event()
        """Set by `open`."""
        self.is_measuring = False
        """Whether delays are measured."""

    async def beat(self) -> None:
        """Measure the delays of the event loop."""
        while self.is_measuring:
            start = perf_counter()
            await anyio.sleep(BEAT)
            self.delays.append(perf_counter() - start - BEAT)

    async def command(self, line: str, group: anyio.abc.TaskGroup) -> dict[str, Any]:
        """Do what a line of the input says, and return the answer."""
        if line == "begin":
            self.delays, self.is_measuring = [], True
            group.start_soon(self.beat)
        elif line == "end":
            self.is_measuring = False
            gc.collect()
            return {"delays": self.delays, "tasks": len(anyio.get_running_tasks())}
        elif line == "open":
            self.gate.set()
            self.gate = anyio.Event()
        return {}


async def serve(options: Options) -> None:
    """Serve until the input ends."""
    state, listener = Server(), socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    # As `apass serve` does. Else an answer in two parts takes 40 ms; asyncio sets it only if the protocol is named.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    async with _application(options, state) as app, anyio.create_task_group() as group:
        # The peer has a lifespan; the optimizer of ours is open already.
        lifespan: Literal["on", "off"] = "on" if options.pipeline is None else "off"
        config = uvicorn.Config(app, log_level="warning", access_log=False, backlog=BACKLOG, lifespan=lifespan)
        server = uvicorn.Server(config)
        group.start_soon(server.serve, [listener])
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await anyio.sleep(0.01)
        # As `apass serve` does.
        gc.collect()
        gc.freeze()
        print(listener.getsockname()[1], flush=True)
        while (line := (await run_sync(sys.stdin.readline)).strip()) not in ("", "stop"):
            print(json.dumps(await state.command(line, group)), flush=True)
        state.is_measuring = False
        server.should_exit = True


@asynccontextmanager
async def _application(options: Options, state: Server) -> AsyncGenerator[Any]:
    if options.pipeline is None:
        # FastAPI and the libraries of the peer must not count as memory of the other servers.
        yield import_module("benchmarks.service_peer").app
        return

    @module_pass(opt_level=0)
    async def Gate(mod: Any, ctx: PassContext) -> Any:
        await state.gate.wait()
        return mod

    executor = ProcessExecutor(workers=options.workers) if options.workers else options.dask
    limits = Limits(queued=None, running=options.running, max_age=options.max_age)
    pipelines: dict[str, Pass[Any] | str] = {"default": options.pipeline}
    if executor is None:
        # Workers could not wait for the gate.
        pipelines["gate"] = Gate
    optimizer = Optimizer(pipelines, store=options.store, executor=executor, limits=limits)
    async with optimizer, anyio.create_task_group() as group:
        if options.max_age is not None:
            group.start_soon(_expire, optimizer)
        yield create_app(optimizer)
        group.cancel_scope.cancel()


async def _expire(optimizer: Optimizer) -> None:
    """Remove old jobs each second: the optimizer itself does it once in a minute."""
    while True:
        await anyio.sleep(1)
        with suppress(JobsUnavailableError):
            await optimizer.store.expire(optimizer.limits.max_age, optimizer.limits.stored_bytes)


if __name__ == "__main__":
    anyio.run(serve, Options(**json.loads(sys.argv[1])))
