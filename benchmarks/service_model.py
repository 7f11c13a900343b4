"""A model of the cost of the service: measured costs, a simulation, and capacity.

    python -m benchmarks.service_model [--only service_model.capacity]

- `predictions` measures the costs of a job with one worker and 100 clients. A simulation of discrete events predicts
  the throughput and the latency of 200 clients with one and two workers. Both are then measured.
- `capacity` measures the costs of storage, and of models of three sizes. It derives how many models a second one, ten
  and a thousand machines take, and which part limits them.

Costs are processor seconds, because other work on the machine changes them the least. With the URL of a PostgreSQL
database in the environment variable APASS_BENCHMARK_POSTGRES, the costs of that store are measured too.
"""

import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from importlib import import_module
from itertools import count as numbers
from pathlib import Path
from time import process_time
from typing import Any, Final

import psutil

from apass.executors.batching import batch_size
from apass.pipelines.parser import parse_pipeline
from apass.service import JobOptions
from apass.service.runners import BATCH_SECONDS, MOST_JOBS
from apass.service.work import Work, run_work
from benchmarks.area import Benchmark, main
from benchmarks.measure import record
from benchmarks.service import CLIENTS, PIPELINE, TEST_DATA, Server, corpus, server
from benchmarks.service_load import percentile

POSTGRES: Final = os.environ.get("APASS_BENCHMARK_POSTGRES")
"""The URL of a PostgreSQL database that may be filled with jobs."""

HALF: Final = 100
"""Clients of the load by which costs are measured. With fewer, fewer jobs share a batch and a transaction."""

ERROR: Final = 20.0
"""The limit for the error of a prediction, in per cent."""

PROCESSORS: Final = 8
"""Assumption: processors of a machine."""

NETWORK: Final = 125e6
"""Assumption: bytes a second of the network of a machine in each direction, 1 Gbit/s."""

SCHEDULER: Final = 2_000.0
"""Assumption: tasks a second of a Dask scheduler; its documentation states 0.2 to 1 ms of overhead for a task."""

SIZES: Final = {"small": "", "middle": "light_squeezenet", "large": "light_densenet121"}
"""Folders of onnx's test data with models of these sizes. Small ones are those of `service.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a job costs, in processor seconds unless stated otherwise."""

    client: float
    """The load generator."""
    accept: float
    """The server, until the job is queued and the request is answered, without storage."""
    schedule: float
    """The server, for dispatch, events, the result and its answer, without storage."""
    store: float
    """The server, for storage; 0 in memory."""
    commit: float
    """Seconds for which a job waits for a transaction; 0 in memory. Jobs that wait at once share one."""
    work: float
    """A worker: reading, passes, writing, and messages."""
    database: float = 0.0
    """The database server."""

    @property
    def loop(self) -> float:
        """The whole server."""
        return self.accept + self.schedule + self.store


class Simulation:
    """A closed system: each client submits a model, and waits for its result.

    The processes of the load generator, the server and the workers share the processors equally. Each process does one
    thing at a time: the interpreter runs one thread.

    Parameters:
        costs: the costs of a job.
        clients: the number of clients.
        workers: the number of worker processes.
        processors: how many processors are available, which may be a fraction.

    """

    def __init__(self, costs: Costs, *, clients: int, workers: int, processors: float) -> None:
        self._costs = costs
        self._clients = clients
        self._processors = processors
        self._client, self._server = _Process(), _Process()
        self._workers = [_Process() for _ in range(workers)]
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = numbers()
        self._now = 0.0
        self._mean = costs.work
        self._queue: deque[float] = deque()
        """When each job in the queue was submitted."""
        self._batches: deque[list[float]] = deque()
        """Batches that no worker has begun."""
        self._open_batches = 0
        self._uncommitted: list[Callable[[], None]] = []
        self._is_committing = False
        self.latencies: list[float] = []
        """Seconds from each submission to its result."""

    def run(self, count: int) -> float:
        """Return the seconds for so many models."""
        for _ in range(min(self._clients, count)):
            self._submit()
        self._left = count - min(self._clients, count)
        while len(self.latencies) < count:
            self._step()
        return self._now

    def _step(self) -> None:
        """Advance to the next end of a piece of work, or the next timer."""
        busy = [process for process in (self._client, self._server, *self._workers) if process.work]
        rate = min(1.0, self._processors / len(busy)) if busy else 0.0
        first = min(busy, key=lambda process: process.work[0][0]) if busy else None
        work = float("inf") if first is None else first.work[0][0] / rate
        timer = self._timers[0][0] - self._now if self._timers else float("inf")
        step = min(work, timer)
        self._now += step
        for process in busy:
            process.work[0] = (process.work[0][0] - step * rate, process.work[0][1])
        if first is not None and work <= timer:
            first.work.popleft()[1]()
        else:
            heappop(self._timers)[2]()

    def _submit(self) -> None:
        self._client.add(self._costs.client / 2, lambda: self._accept(self._now))

    def _accept(self, start: float) -> None:
        def enqueue() -> None:
            self._queue.append(start)
            self._dispatch()

        self._server.add(self._costs.accept + self._costs.store / 3, partial(self._commit, enqueue))

    def _commit(self, then: Callable[[], None]) -> None:
        """Continue when a transaction that begins now or later is over."""
        if not self._costs.commit:
            then()
            return
        self._uncommitted.append(then)
        if not self._is_committing:
            self._begin_commit()

    def _begin_commit(self) -> None:
        group, self._uncommitted = self._uncommitted, []
        self._is_committing = bool(group)
        if not group:
            return

        def end() -> None:
            for then in group:
                then()
            self._begin_commit()

        heappush(self._timers, (self._now + self._costs.commit, next(self._numbers), end))

    def _dispatch(self) -> None:
        # The dispatcher prepares one batch more than there are workers, as long as jobs are short.
        while self._queue and self._open_batches < len(self._workers) + 1:
            size = min(MOST_JOBS, batch_size(len(self._queue), self._mean, len(self._workers), BATCH_SECONDS))
            batch = [self._queue.popleft() for _ in range(min(size, len(self._queue)))]
            self._open_batches += 1
            cost = len(batch) * (self._costs.schedule + self._costs.store) / 3
            self._server.add(cost, partial(self._commit, partial(self._send, batch)))

    def _send(self, batch: list[float]) -> None:
        self._batches.append(batch)
        for worker in self._workers:
            if not worker.work:
                self._work(worker)

    def _work(self, worker: "_Process") -> None:
        if not self._batches:
            return
        batch, start = self._batches.popleft(), self._now

        def end() -> None:
            self._mean += ((self._now - start) / len(batch) - self._mean) / 8
            self._open_batches -= 1
            cost = len(batch) * (self._costs.schedule + self._costs.store) / 3
            self._server.add(cost, partial(self._commit, partial(self._answer, batch)))
            self._work(worker)
            self._dispatch()

        worker.add(len(batch) * self._costs.work, end)

    def _answer(self, batch: list[float]) -> None:
        for start in batch:
            receive = partial(self._client.add, self._costs.client / 2, partial(self._receive, start))
            self._server.add(self._costs.schedule / 3, receive)

    def _receive(self, start: float) -> None:
        self.latencies.append(self._now - start)
        if self._left:
            self._left -= 1
            self._submit()


@dataclass(slots=True, eq=False)
class _Process:
    """A process with the work that it has to do, in order."""

    work: deque[tuple[float, Callable[[], None]]] = field(default_factory=deque[tuple[float, Callable[[], None]]])
    """Processor seconds of each piece, and what follows."""

    def add(self, seconds: float, then: Callable[[], None]) -> None:
        """Add a piece of work."""
        self.work.append((seconds, then))


SPIN: Final = "from time import *\nend = perf_counter() + 0.5\nwhile perf_counter() < end: pass\nprint(process_time())"


def available_processors() -> float:
    """Return how many processors other programs leave to busy processes here."""
    programs = [
        subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) for _ in range(os.cpu_count() or 1)
    ]
    return sum(float(program.communicate()[0]) for program in programs) / 0.5


def database_seconds(url: str) -> float:
    """Return the processor seconds of a PostgreSQL server on this machine."""
    psycopg: Any = import_module("psycopg")
    with psycopg.connect(url) as connection:
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
        main_process = psutil.Process(pid).parent()
    if main_process is None:
        raise RuntimeError("the PostgreSQL server of APASS_BENCHMARK_POSTGRES must run on this machine")
    times = main_process.cpu_times()
    # Those of connections that have ended count as children of the main process.
    total = times.user + times.system + times.children_user + times.children_system
    for process in main_process.children():
        with suppress(psutil.NoSuchProcess):
            total += process.cpu_times().user + process.cpu_times().system
    return total


@dataclass(frozen=True, slots=True)
class _Measured:
    """What one store costs for a job."""

    client: float
    accept: float
    """The server until it has answered, storage included."""
    total: float
    """The server, storage included."""
    work: float
    wait: float
    """Seconds from a request to its answer, if there is a single client."""
    database: float
    """PostgreSQL."""


def measure_store(models: Path, store: str | None) -> _Measured:
    """Measure the costs of a job with one worker and 100 clients."""
    count = 1_500
    with server(pipeline=PIPELINE, store=store, workers=1) as each:
        each.load(models, "call", count // 2, clients=HALF)
        url = store if store is not None and "://" in store else None
        before, database = each.usage(), 0.0 if url is None else database_seconds(url)
        report = each.load(models, "call", count, clients=HALF)
        after = each.usage()
        database = 0.0 if url is None else database_seconds(url) - database
    total, work = after.processor - before.processor, after.workers - before.workers
    with server(pipeline=PIPELINE, store=None if store is None else _other(store), running=1) as each:
        each.load(models, "submit", count // 2, clients=HALF)
        before = each.usage()
        each.load(models, "submit", count, clients=HALF)
        accept = each.usage().processor - before.processor
        wait = percentile(each.load(models, "submit", 100, clients=1).completion, 50)
        each.command("open")
    return _Measured(report.processor / count, accept / count, total / count, work / count, wait, database / count)


def _other(store: str) -> str:
    """Return another file of SQLite for jobs that do not end.

    A database is shared by all servers.
    """
    return store if "://" in store else f"{store}.waiting"


def costs_of(memory: _Measured, store: _Measured) -> Costs:
    """Return the costs of a job, given those in memory and with a store."""
    return Costs(
        client=memory.client,
        accept=memory.accept,
        schedule=memory.total - memory.accept,
        store=max(0.0, store.total - memory.total),
        commit=max(0.0, store.wait - memory.wait),
        work=memory.work,
        database=0.0 if store is memory else store.database,
    )


def predictions(rounds: int) -> None:
    """Compare the predictions of the simulation with measurements."""
    count = 3_000
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        models = corpus(Path(name) / "models")
        measured = {"memory": measure_store(models, None), "SQLite": measure_store(models, f"{name}/costs.db")}
        for store in measured:
            costs = costs_of(measured["memory"], measured[store])
            show(store, costs)
            for workers in (1, 2):
                path = None if store == "memory" else f"{name}/jobs{workers}.db"
                each = stack.enter_context(server(pipeline=PIPELINE, store=path, workers=workers))
                compare(f"{store}, {workers} worker{'s' * (workers > 1)}", each, models, costs, workers, count, rounds)


def compare(name: str, each: Server, models: Path, costs: Costs, workers: int, count: int, rounds: int) -> None:
    """Record the predicted and the measured throughput and latency of 200 clients."""
    each.load(models, "call", count // 2)
    errors: dict[str, list[float]] = {"seconds": [], "median latency": []}
    for _ in range(rounds):
        processors = available_processors()
        report = each.load(models, "call", count)
        # Half of the time, other work may have begun or ended.
        processors = (processors + available_processors()) / 2
        simulation = Simulation(costs, clients=CLIENTS, workers=workers, processors=processors)
        seconds = simulation.run(count)
        latencies = statistics.median(simulation.latencies), statistics.median(report.completion)
        errors["seconds"].append(100 * abs(seconds / report.seconds - 1))
        errors["median latency"].append(100 * abs(latencies[0] / latencies[1] - 1))
        record(
            f"{name}, models a second, predicted", count / seconds, count / report.seconds, None, "measured", unit="1/s"
        )
        record(f"{name}, median latency, predicted", *latencies, None, "measured")
    for kind, values in errors.items():
        record(f"{name}, error of the predicted {kind}", statistics.median(values), ERROR, 1.0, "limit", unit="%")


def show(store: str, costs: Costs) -> None:
    """Record the costs of a job."""
    record(f"cost of a job, {store}: acceptance", costs.accept)
    record(f"cost of a job, {store}: scheduling and result", costs.schedule)
    if costs.store:
        record(f"cost of a job, {store}: storage in the server", costs.store)
        record(f"cost of a job, {store}: wait for a transaction", costs.commit)
    if costs.database:
        record(f"cost of a job, {store}: database", costs.database)
    record(f"cost of a job, {store}: worker, a small model", costs.work)


def model_of(size: str, models: Path) -> Sequence[bytes]:
    """Return the models of a size."""
    if not SIZES[size]:
        found: Sequence[bytes] = pickle.loads(models.read_bytes())
        return found
    # Weights are computed by nodes of these models.
    (path,) = TEST_DATA.rglob(f"{SIZES[size]}*.onnx")
    return [path.read_bytes()]


async def work_seconds(models: Sequence[bytes], pipeline: str) -> float:
    """Return the mean processor seconds of a worker for a model."""

    def ignore(kind: str, at: float, data: Mapping[str, Any]) -> None: ...

    passes, options = parse_pipeline(pipeline), JobOptions(report=False)
    rounds: list[float] = []
    for _ in range(4):
        start = process_time()
        for model in models:
            work = Work("0", "model", ".onnx", ".onnx", model, passes, options, None, None, in_worker=True)
            result = await run_work(work, ignore)
            if result.failure is not None:
                raise RuntimeError(f"{result.failure.kind}: {result.failure.message}")
        rounds.append((process_time() - start) / len(models))
    return min(rounds[1:])


def parts_of(costs: Costs, work: float, size: float, machines: int, *, shared: bool) -> dict[str, float]:
    """Return how many models a second each part of a deployment takes.

    Parameters:
        costs: the costs of a job.
        work: those of a worker.
        size: bytes of a model.
        machines: how many machines have a server and workers.
        shared: whether they share a PostgreSQL database on a machine of its own, and a Dask scheduler.

    """
    batch = max(1, min(MOST_JOBS, int(BATCH_SECONDS / work)))
    parts = {
        "loops of the servers": machines / costs.loop,
        "workers": machines * (PROCESSORS - 1) / work,
        "network of the servers": machines * NETWORK / size,
    }
    if shared:
        parts |= {
            "PostgreSQL": PROCESSORS / costs.database,
            # A model is written once, and a result is written and read.
            "network of the database": NETWORK / (2 * size),
            "scheduler of Dask": SCHEDULER * batch,
        }
    return parts


async def capacity(rounds: int) -> None:
    """Derive how many models a second machines take, and what limits them."""
    with tempfile.TemporaryDirectory() as name:
        models = corpus(Path(name) / "models")
        memory, sqlite = measure_store(models, None), measure_store(models, f"{name}/costs.db")
        stores = {"SQLite": costs_of(memory, sqlite)}
        if POSTGRES is not None:
            stores["PostgreSQL"] = costs_of(memory, measure_store(models, POSTGRES))
        for store, costs in stores.items():
            show(store, costs)
        small = model_of("small", models)
        messages = memory.work - await work_seconds(small, PIPELINE)
        for size in SIZES:
            examples = small if size == "small" else model_of(size, models)
            mean_size = statistics.fmean(map(len, examples))
            for pipeline in (PIPELINE, "onnx.Default"):
                label = f"{size} models of {mean_size:,.0f} bytes, {'six passes' if pipeline == PIPELINE else pipeline}"
                work = await work_seconds(examples, pipeline) + max(0.0, messages)
                record(f"{label}: worker", work)
                for machines in (1, 10, 1000):
                    if machines > 1 and POSTGRES is None:
                        continue
                    costs = stores["PostgreSQL" if machines > 1 else "SQLite"]
                    parts = parts_of(costs, work, mean_size, machines, shared=machines > 1)
                    limit = min(parts, key=lambda part: parts[part])
                    record(
                        f"{label}: {machines} machine{'s' * (machines > 1)}, limit: {limit}", parts[limit], unit="1/s"
                    )


BENCHMARKS = (
    Benchmark(predictions, rounds=3),
    Benchmark(capacity, rounds=1),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
