"""The capacity of the service, simulated from measured costs.

    python -m benchmarks.service_model [--only service_model.capacity]

- `predictions` measures the costs of a job with one worker and 100 clients. The simulation predicts the throughput and
  the latency of 200 clients with two workers, which are then measured.
- `capacity` measures the costs of models of three sizes, and simulates one machine and clusters.

There are two deployments. **One machine** keeps jobs in SQLite, and runs them in worker processes. A **cluster** keeps
them in PostgreSQL, and runs them in workers of Dask. It needs the URL of a PostgreSQL database on this machine in the
environment variable APASS_BENCHMARK_POSTGRES, and is left out otherwise.

Costs are processor seconds, because other work on the machine changes them the least.
"""

import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from importlib import import_module
from itertools import count as numbers
from pathlib import Path
from time import sleep
from typing import Any, Final

import psutil

from apass.executors.batching import batch_size
from apass.service.runners import BATCH_SECONDS, MOST_JOBS
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

WORKERS: Final = {"one machine": (7,), "cluster": (16, 64, 256)}
"""The workers of the simulated deployments. One of the 8 processors of a machine runs the server."""

SLOW: Final = 2.0
"""Assumption: seconds of a worker for a model whose passes call a compiler."""

SIZES: Final = {"small": ("", 1_500), "middle": ("light_squeezenet", 1_000), "large": ("light_densenet121", 200)}
"""Folders of onnx's test data with models of these sizes, and how many are measured.

Small ones are those of `service.py`. Weights are computed by nodes of the others.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a job costs, in processor seconds unless stated otherwise."""

    client: float
    """The load generator."""
    accept: float
    """The server, until it has answered."""
    schedule: float
    """The server, from then on: dispatch, events, the result and its answer."""
    commit: float = 0.0
    """Seconds of a transaction besides the work of the database. Jobs that wait at once share one."""
    database: float = 0.0
    """PostgreSQL. A server has one connection that writes."""
    task: float = 0.0
    """Dask's scheduler, for a task, which is a batch of jobs."""
    work: float
    """A worker."""


class Simulation:
    """A closed system: each client submits a model, and waits for its result.

    Each process does one thing at a time. Processes that are busy at once share the processors equally.

    Parameters:
        costs: the costs of a job.
        clients: the number of clients.
        workers: the number of workers.
        processors: how many processors are available, which may be a fraction.

    """

    def __init__(self, costs: Costs, *, clients: int, workers: int, processors: float = float("inf")) -> None:
        self._costs = costs
        self._clients = clients
        self._processors = processors
        self.parts: Final = {name: _Process() for name in ("clients", "server", "database", "scheduler")}
        """The processes besides the workers."""
        self._workers = [_Process() for _ in range(workers)]
        self._idle = list(self._workers)
        # Busy processes advance at the same speed. Their ends are therefore ordered by a clock of that speed.
        self._ends: list[tuple[float, int, _Process]] = []
        self._work = 0.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._now = 0.0
        self._numbers = numbers()
        self._mean = costs.work
        self._queue: deque[float] = deque()
        """When each job in the queue was submitted."""
        self._tasks: deque[list[float]] = deque()
        """Batches that no worker has begun."""
        self._open = 0
        self._uncommitted: list[tuple[int, Callable[[], None]]] = []
        self._is_committing = False
        self.latencies: list[float] = []
        """Seconds from each submission to its result."""

    def run(self, count: int) -> float:
        """Return the seconds for so many models."""
        self._left = count - min(self._clients, count)
        for _ in range(min(self._clients, count)):
            self._submit()
        while len(self.latencies) < count:
            self._step()
        return self._now

    def busiest(self) -> str:
        """Return the part that was busy for most of the time."""
        busy = {name: process.busy for name, process in self.parts.items() if name != "clients"}
        busy["workers"] = statistics.fmean(worker.busy for worker in self._workers)
        return max(busy, key=lambda name: busy[name])

    def _step(self) -> None:
        """Advance to the next end of a piece of work, or the next timer."""
        rate = min(1.0, self._processors / max(1, len(self._ends)))
        work = (self._ends[0][0] - self._work) / rate if self._ends else float("inf")
        timer = self._timers[0][0] - self._now if self._timers else float("inf")
        self._now += min(work, timer)
        self._work += min(work, timer) * rate
        if work > timer:
            heappop(self._timers)[2]()
            return
        process = heappop(self._ends)[2]
        seconds, then = process.pieces.popleft()
        process.busy += seconds
        if process.pieces:
            self._begin(process)
        then()

    def _begin(self, process: "_Process") -> None:
        heappush(self._ends, (self._work + process.pieces[0][0], next(self._numbers), process))

    def _add(self, process: "_Process", seconds: float, then: Callable[[], None]) -> None:
        """Let a process do a piece of work after those that it has."""
        process.pieces.append((seconds, then))
        if len(process.pieces) == 1:
            self._begin(process)

    def _submit(self) -> None:
        self._add(self.parts["clients"], self._costs.client / 2, lambda: self._accept(self._now))

    def _accept(self, start: float) -> None:
        def enqueue() -> None:
            self._queue.append(start)
            self._dispatch()

        self._add(self.parts["server"], self._costs.accept, partial(self._commit, 1, enqueue))

    def _commit(self, jobs: int, then: Callable[[], None]) -> None:
        """Continue when a transaction that begins now or later is over."""
        self._uncommitted.append((jobs, then))
        if not self._is_committing:
            self._begin_commit()

    def _begin_commit(self) -> None:
        group, self._uncommitted = self._uncommitted, []
        self._is_committing = bool(group)
        if not group:
            return

        def end() -> None:
            for _, then in group:
                then()
            self._begin_commit()

        def flush() -> None:
            heappush(self._timers, (self._now + self._costs.commit, next(self._numbers), end))

        # A job is stored when it is accepted, when it begins, and when it ends.
        self._add(self.parts["database"], sum(jobs for jobs, _ in group) * self._costs.database / 3, flush)

    def _dispatch(self) -> None:
        # The dispatcher prepares one batch more than there are workers, as long as jobs are short.
        while self._queue and self._open < len(self._workers) + 1:
            size = min(MOST_JOBS, batch_size(len(self._queue), self._mean, len(self._workers), BATCH_SECONDS))
            batch = [self._queue.popleft() for _ in range(min(size, len(self._queue)))]
            self._open += 1
            send = partial(self._add, self.parts["scheduler"], self._costs.task, partial(self._send, batch))
            then = partial(self._commit, len(batch), send)
            self._add(self.parts["server"], len(batch) * self._costs.schedule / 3, then)

    def _send(self, batch: list[float]) -> None:
        self._tasks.append(batch)
        if self._idle:
            self._run_next(self._idle.pop())

    def _run_next(self, worker: "_Process") -> None:
        if not self._tasks:
            self._idle.append(worker)
            return
        batch, start = self._tasks.popleft(), self._now

        def end() -> None:
            self._mean += ((self._now - start) / len(batch) - self._mean) / 8
            self._open -= 1
            then = partial(self._commit, len(batch), partial(self._answer, batch))
            self._add(self.parts["server"], len(batch) * self._costs.schedule / 3, then)
            self._run_next(worker)
            self._dispatch()

        self._add(worker, len(batch) * self._costs.work, end)

    def _answer(self, batch: list[float]) -> None:
        for start in batch:
            receive = partial(self._add, self.parts["clients"], self._costs.client / 2, partial(self._receive, start))
            self._add(self.parts["server"], self._costs.schedule / 3, receive)

    def _receive(self, start: float) -> None:
        self.latencies.append(self._now - start)
        if self._left:
            self._left -= 1
            self._submit()


@dataclass(slots=True, eq=False)
class _Process:
    """A process with the work that it has to do, in order."""

    pieces: deque[tuple[float, Callable[[], None]]] = field(default_factory=deque[tuple[float, Callable[[], None]]])
    """Processor seconds of each piece, and what follows."""
    busy: float = 0.0
    """Processor seconds of the pieces that it has done."""


SPIN: Final = "from time import *\nend = perf_counter() + 0.5\nwhile perf_counter() < end: pass\nprint(process_time())"


def available_processors() -> float:
    """Return how many processors other programs leave to busy processes here."""
    programs = [
        subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) for _ in range(os.cpu_count() or 1)
    ]
    return sum(float(program.communicate()[0]) for program in programs) / 0.5


def _seconds(process: psutil.Process, *, with_children: bool = False) -> float:
    times = process.cpu_times()
    if not with_children:
        return times.user + times.system
    # Those of connections that have ended count as children of the main process.
    total = times.user + times.system + times.children_user + times.children_system
    for child in process.children():
        with suppress(psutil.NoSuchProcess):
            total += _seconds(child)
    return total


Usage = Callable[[], Sequence[float]]
"""Returns the processor seconds of server, workers, scheduler and database so far."""


@contextmanager
def empty_store(kind: str, folder: Path) -> Generator[tuple[str, psutil.Process | None]]:
    """Yield an empty store, and the main process of its database."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        if kind == "one machine":
            yield f"{name}/jobs.db", None
            return
        assert POSTGRES is not None, "clusters are left out without it"
        psycopg: Any = import_module("psycopg")
        schema = Path(name).name
        with psycopg.connect(POSTGRES, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"')
            (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
            try:
                yield f"{POSTGRES}?options=-csearch_path%3D{schema}", psutil.Process(pid).parent()
            finally:
                connection.execute(f'DROP SCHEMA "{schema}" CASCADE')


@contextmanager
def deployed(kind: str, folder: Path, workers: int) -> Generator[tuple[Server, Usage]]:
    """Run a server with workers and an empty store."""
    with ExitStack() as stack:
        store, database = stack.enter_context(empty_store(kind, folder))
        if database is None:
            alone = stack.enter_context(server(pipeline=PIPELINE, store=store, workers=workers))
            yield alone, lambda: (alone.usage().processor, alone.usage().workers, 0.0, 0.0)
            return
        address, scheduler, dask_workers = stack.enter_context(dask_cluster(folder, workers))
        each = stack.enter_context(server(pipeline=PIPELINE, store=store, dask=address, running=workers))

        def usage() -> Sequence[float]:
            others = sum(map(_seconds, dask_workers)), _seconds(scheduler), _seconds(database, with_children=True)
            return each.usage().processor, *others

        yield each, usage


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Generator[tuple[str, psutil.Process, Sequence[psutil.Process]]]:
    """Run a scheduler and workers of Dask; yield the address and the processes."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        file = Path(name, "scheduler.json")
        options = {
            "scheduler": ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)],
            "worker": ["--scheduler-file", str(file), "--nthreads", "1", "--no-nanny"],
        }
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for kind in ("scheduler", *["worker"] * workers):
                command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options[kind], "--no-dashboard"]
                processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[1]))
                while not file.exists():
                    sleep(0.05)
            address = json.loads(file.read_text())["address"].replace("tcp://", "dask://")
            yield address, psutil.Process(processes[0].pid), [psutil.Process(each.pid) for each in processes[1:]]
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


def measure(kind: str, models: Path, count: int, folder: Path) -> Costs:
    """Measure the costs of a job with one worker and 100 clients."""
    with deployed(kind, folder, 1) as (each, usage):
        each.load(models, "call", count // 2, clients=HALF)
        before = usage()
        report = each.load(models, "call", count, clients=HALF)
        used = [(after - start) / count for start, after in zip(before, usage(), strict=True)]
    total, work, scheduler, database = used
    with empty_store(kind, folder) as (store, _), server(pipeline=PIPELINE, store=store, running=1) as waiting:
        waiting.load(models, "submit", count // 2, clients=HALF)
        start = waiting.usage().processor
        waiting.load(models, "submit", count, clients=HALF)
        accept = (waiting.usage().processor - start) / count
        wait = percentile(waiting.load(models, "submit", 50, clients=1).completion, 50)
    jobs_of_task = min(MOST_JOBS, max(1, int(BATCH_SECONDS / work)))
    return Costs(
        client=report.processor / count,
        accept=accept,
        schedule=total - accept,
        commit=max(0.0, wait - accept - database / 3 - report.processor / count),
        database=database,
        task=scheduler * jobs_of_task,
        work=work,
    )


def write_models(size: str, folder: Path) -> tuple[Path, float]:
    """Write a pickled list of models of a size; return their mean number of bytes too."""
    name, _ = SIZES[size]
    path = folder / size
    if not name:
        corpus(path)
    else:
        (file,) = TEST_DATA.rglob(f"{name}*.onnx")
        path.write_bytes(pickle.dumps([file.read_bytes()]))
    return path, statistics.fmean(map(len, pickle.loads(path.read_bytes())))


def deployments() -> Sequence[str]:
    """Return the deployments that can be measured."""
    return [kind for kind in WORKERS if kind != "cluster" or POSTGRES is not None]


def predictions(rounds: int) -> None:
    """Compare the predictions of the simulation with measurements."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models, _ = write_models("small", folder)
        for kind in deployments():
            costs = measure(kind, models, 1_500, folder)
            with deployed(kind, folder, 2) as (each, _):
                compare(f"{kind}, 2 workers", each, models, costs, rounds)


def compare(name: str, each: Server, models: Path, costs: Costs, rounds: int) -> None:
    """Record the predicted and the measured throughput and latency of 200 clients."""
    count = 3_000
    each.load(models, "call", count // 2)
    errors: dict[str, list[float]] = {"seconds": [], "median latency": []}
    for _ in range(rounds):
        processors = available_processors()
        report = each.load(models, "call", count)
        # Half of the time, other work may have begun or ended.
        processors = (processors + available_processors()) / 2
        simulation = Simulation(costs, clients=CLIENTS, workers=2, processors=processors)
        seconds = simulation.run(count)
        latencies = statistics.median(simulation.latencies), statistics.median(report.completion)
        errors["seconds"].append(100 * abs(seconds / report.seconds - 1))
        errors["median latency"].append(100 * abs(latencies[0] / latencies[1] - 1))
        speeds = count / seconds, count / report.seconds
        record(f"{name}, models a second, predicted", *speeds, None, "measured", unit="1/s")
        record(f"{name}, median latency, predicted", *latencies, None, "measured")
    for what, values in errors.items():
        record(f"{name}, error of the predicted {what}", statistics.median(values), ERROR, 1.0, "limit", unit="%")


def capacity(rounds: int) -> None:
    """Simulate how many models a second one machine and clusters take."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size, (_, count) in SIZES.items():
            models, size_bytes = write_models(size, folder)
            for kind in deployments():
                label = f"{size} models of {size_bytes:,.0f} bytes"
                costs = measure(kind, models, count, folder)
                for part in ("accept", "schedule", "commit", "database", "task", "work"):
                    record(f"cost, {label}, {kind}: {part}", getattr(costs, part))
                for workers in WORKERS[kind]:
                    simulate(f"{label}, {kind}", costs, workers)
                    if size == "large":
                        simulate(f"{label} with passes of {SLOW:g} s, {kind}", replace(costs, work=SLOW), workers)


def simulate(label: str, costs: Costs, workers: int) -> None:
    """Record the throughput of a saturated server, and the part that limits it."""
    # Clients that cost nothing, and are enough for full batches.
    clients = 2 * workers * min(MOST_JOBS, max(2, int(BATCH_SECONDS / costs.work)))
    simulation = Simulation(replace(costs, client=0.0), clients=clients, workers=workers)
    count = max(3_000, 10 * clients)
    speed = count / simulation.run(count)
    record(f"{label}, {workers} workers: {simulation.busiest()}", speed, unit="1/s")


BENCHMARKS = (
    Benchmark(predictions, rounds=3),
    Benchmark(capacity, rounds=1),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
