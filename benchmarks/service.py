"""Load on the HTTP service, beside an endpoint that is written by hand.

    python -m benchmarks.service [--rounds 3]

Servers and load generator are processes of their own, and use the loopback interface. 200 clients submit small ONNX
models, all of which are different. Both servers run the same six passes of onnx_ir. The peer is `service_peer.py`:
FastAPI, `run_in_threadpool`, nothing stored. Ours has two worker processes, and records no report.

There are two sets of models, with the same bounds. **Operators** are onnx's tests of single operators: their passes
take less time than a request, so that the rows show what a job itself costs. **Networks** are the image classifiers of
its test data with at most 20,000 bytes, which have 38 to 105 nodes.

Times are those of uvicorn on asyncio. They depend on the number of processors: here, servers, workers and clients share
them.
"""

import asyncio
import json
import pickle
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import onnx
import psutil

from apass.adapters.onnx import ADAPTER
from benchmarks.area import Benchmark, main
from benchmarks.measure import record, record_rounds, session
from benchmarks.service_load import SUBMIT, Connection, HTTPError, Load, Report, distinct, expect, percentile
from benchmarks.service_peer import PASSES

TEST_DATA: Final = Path(onnx.__file__).parent / "backend" / "test" / "data"

PIPELINE: Final = ",".join(f"onnx.{name}" for name in PASSES)

WORKERS: Final = 2

CLIENTS: Final = 200

PEER: Final = "FastAPI by hand"

MODELS: Final = 5_000
"""Models of a load."""

KEPT: Final = 200
"""Results of both servers that are compared."""

SMALL: Final = 10_000
"""Bytes of the largest operator in the quick list."""

LARGEST_NETWORK: Final = 20_000
"""Bytes of the largest network. Its weights are computed by nodes."""

BOUNDS: Final = {"SQLite": 1.0, "memory": 0.67}
"""The limits for the time of a model, as a ratio to that of the peer."""

LAG: Final = 0.05
"""The limit for the 99th percentile of the delays of the event loop, in seconds."""

FLAT: Final = 100.0
"""The limit for the growth of memory with each job, in bytes. A job that is not removed takes several thousand."""

STREAM_BYTES: Final = 65_536.0
"""The limit for the memory of an open stream of events with its connection."""

LONGEST: Final = 600.0
"""Seconds after which a load has failed."""


def corpus(path: Path, *, quick: bool = False) -> Path:
    """Write a pickled list of single operators.

    The quick list is that of files, which need not be created first.
    """
    if quick:
        files = [file.read_bytes() for file in sorted(TEST_DATA.rglob("*.onnx"))]
        models = [data for data in files if len(data) <= SMALL]
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The import computes the outputs of all cases, which takes several seconds.
            cases: Any = import_module("onnx.backend.test.case.node").collect_testcases(None)
            models = [case.model.SerializeToString() for case in cases if case.model is not None]
    path.write_bytes(pickle.dumps(models))
    return path


@dataclass(slots=True)
class Usage:
    """What a server has used so far."""

    processor: float
    """Processor seconds of the server."""
    workers: float
    """Processor seconds of its workers."""
    memory: int
    """Resident bytes of the server."""
    files: int
    """Open files and sockets of the server."""


class Server:
    """A server in another process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._info = psutil.Process(process.pid)
        self._port: int | None = None
        self._first = 0

    @property
    def port(self) -> int:
        """The port, which is known when the server has started."""
        if self._port is None:
            self._port = int(self._read())
        return self._port

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with the status {self._process.wait()}")
        return line

    def command(self, line: str) -> dict[str, Any]:
        """Send a command, and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._read())
        return answer

    def usage(self) -> Usage:
        """Return what the server has used so far."""
        own, children = self._info.cpu_times(), [child.cpu_times() for child in self._info.children(recursive=True)]
        workers = sum(times.user + times.system for times in children)
        return Usage(own.user + own.system, workers, self._info.memory_info().rss, self._info.num_fds())

    def load(self, models: Path, flow: str, count: int, *, clients: int = CLIENTS, keep: Path | None = None) -> Report:
        """Let clients submit so many new models.

        Raises:
            RuntimeError: if a client got an error, or lost a model.

        """
        kept = 0 if keep is None else min(KEPT, count)
        load = Load(
            port=self.port,
            models=str(models),
            flow=flow,
            clients=clients,
            count=count,
            first=self._first,
            keep=None if keep is None else str(keep),
            kept=kept,
        )
        self._first += count
        command = [sys.executable, "-m", "benchmarks.service_load", json.dumps(asdict(load))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
        if done.returncode:
            raise RuntimeError(f"the load generator ended with the status {done.returncode}: {done.stderr[-2000:]}")
        report = Report.from_json(done.stdout)
        if report.errors or len(report.completion) != count:
            raise RuntimeError(f"{len(report.completion)} of {count} models were optimized; errors: {report.errors}")
        return report


@contextmanager
def server(**options: Any) -> Generator[Server]:
    """Start a server with `service_server.Options`; stop it at the end."""
    command = [sys.executable, "-m", "benchmarks.service_server", json.dumps(options)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
    finally:
        process.kill()
        process.wait()


def networks(path: Path) -> Path:
    """Write a pickled list of small networks."""
    files = [file.read_bytes() for file in sorted(TEST_DATA.rglob("light_*.onnx"))]
    path.write_bytes(pickle.dumps([data for data in files if len(data) <= LARGEST_NETWORK]))
    return path


def check_equal(ours: Path, other: Path) -> None:
    """Raise ValueError unless both servers have returned equal models."""
    for number, (our, peer) in enumerate(
        zip(*(pickle.loads(path.read_bytes()) for path in (ours, other)), strict=True)
    ):
        # The servers encode the data of tensors differently.
        if not ADAPTER.equal(ADAPTER.loads(our), ADAPTER.loads(peer)):
            raise ValueError(f"the servers have returned different results for model {number}")


def throughput(rounds: int) -> None:
    """Compare the time for a model with that of the peer, with SQLite and in memory."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        servers = {
            "peer": stack.enter_context(server(pipeline=None)),
            "SQLite": stack.enter_context(server(pipeline=PIPELINE, store=str(folder / "jobs.db"), workers=WORKERS)),
            "memory": stack.enter_context(server(pipeline=PIPELINE, workers=WORKERS)),
        }
        models = {"operator": corpus(folder / "operators", quick=session().quick)}
        if not session().quick:
            models["network"] = networks(folder / "networks")
        for what, path in models.items():
            compare(what, servers, path, rounds)
        # The peer has no such jobs. From here on, the servers get models with different numbers.
        for what, path in () if session().quick else models.items():
            for kind in BOUNDS:
                record_jobs(servers[kind], path, MODELS, f"{what}, {kind}")


def compare(what: str, servers: Mapping[str, Server], models: Path, rounds: int) -> None:
    """Let all servers optimize the same models, and record the times."""
    count = 200 if session().quick else MODELS
    for kind, each in servers.items():
        # The first models start the workers. The results of the first are compared.
        each.load(models, "peer" if kind == "peer" else "call", KEPT, keep=models.with_name(kind))
    for kind in BOUNDS:
        check_equal(models.with_name(kind), models.with_name("peer"))
    reports: dict[str, list[Report]] = {kind: [] for kind in servers}
    delays: dict[str, list[float]] = {kind: [] for kind in servers}
    costs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in servers}
    for index in range(rounds):
        for kind, each in sorted(servers.items(), reverse=bool(index % 2)):
            each.command("begin")
            before = each.usage()
            reports[kind].append(each.load(models, "peer" if kind == "peer" else "call", count))
            after = each.usage()
            delays[kind].append(percentile(each.command("end")["delays"], 99))
            costs[kind].append((after.processor - before.processor, after.workers - before.workers))
    for kind, bound in BOUNDS.items():
        ours, other = ([each.seconds / count for each in reports[name]] for name in (kind, "peer"))
        record_rounds(f"a model of {count}, 200 clients, {what}, {kind}", ours, other, bound, PEER)
    for kind in BOUNDS:
        lag = statistics.median(delays[kind])
        record(f"delay of the event loop, 99th percentile, {what}, {kind}", lag, LAG, 1.0, "limit")
    record(f"delay of the event loop, 99th percentile, {what}, peer", statistics.median(delays["peer"]))
    for kind in servers:
        own, workers = (statistics.median(column) / count for column in zip(*costs[kind], strict=True))
        record(f"processor time, {what}, {kind}, server", own)
        if kind != "peer":
            record(f"processor time, {what}, {kind}, workers", workers)
    for kind in servers:
        record_percentiles(f"result of one request, {what}, {kind}", [each.completion for each in reports[kind]])


def record_jobs(each: Server, models: Path, count: int, kind: str) -> None:
    """Record the times of clients that use three requests for a job."""
    report = each.load(models, "jobs", count)
    record(f"a model in three requests, {kind}", report.seconds / count)
    record_percentiles(f"acceptance of a job, {kind}", [report.acceptance])
    record_percentiles(f"completion of a job, {kind}", [report.completion])
    record(f"requests a second, {kind}", report.requests / report.seconds, unit="1/s")


def record_percentiles(name: str, rounds: Sequence[Sequence[float]]) -> None:
    """Record the median and the 99th percentile of the rounds."""
    for percent in (50, 99):
        value = statistics.median(percentile(values, percent) for values in rounds)
        record(f"{name}, {'median' if percent == 50 else '99th percentile'}", value)


def memory(rounds: int) -> None:
    """Record the growth of memory over 50,000 jobs that expire after 5 s."""
    step, steps = (500, 6) if session().quick else (5_000, 10)
    with tempfile.TemporaryDirectory() as name:
        models = corpus(Path(name) / "models", quick=session().quick)
        options: dict[str, Any] = {"pipeline": PIPELINE, "workers": WORKERS, "max_age": 5.0}
        with server(**options, store=str(Path(name) / "jobs.db")) as each:
            sizes: list[float] = []
            for _ in range(steps):
                each.load(models, "call", step)
                each.command("end")  # collects garbage
                sizes.append(each.usage().memory)
    # The caches fill up in the first jobs.
    settled = sizes[len(sizes) // 5 :]
    slope = statistics.linear_regression([step * index for index in range(len(settled))], settled).slope
    record(f"growth of memory with each of {step * steps} jobs", max(0.0, slope), FLAT, 1.0, "limit", unit="bytes")
    record("memory of the server", settled[-1] / 2**20, unit="MiB")


def streams(rounds: int) -> None:
    """Record the memory of 1,000 open streams of events, and what is left of them."""
    count = 200 if session().quick else 1_000
    with tempfile.TemporaryDirectory() as name, server(pipeline=PIPELINE, running=count) as each:
        models = pickle.loads(corpus(Path(name) / "models", quick=True).read_bytes())
        asyncio.run(_streams(each, models, min(10, count)))  # fills the caches
        asyncio.run(_streams(each, models, count, is_recorded=True))


async def _streams(each: Server, models: Sequence[bytes], count: int, *, is_recorded: bool = False) -> None:
    """Open a stream for each of so many jobs, and let the jobs end."""
    first = await Connection.open(each.port)
    tasks, files = each.command("end")["tasks"], each.usage().files
    paths: list[str] = []
    for number in range(count):
        body = distinct(models[number % len(models)], count + number)
        job = json.loads(expect(202, await first.request("POST", f"{SUBMIT}&pipeline=gate", body)))
        paths.append(f"/v1/jobs/{job['id']}/events")
    before = each.usage().memory
    start = perf_counter()
    followers = [_Follower(await Connection.open(each.port)) for _ in paths]
    async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as group:
        for follower, path in zip(followers, paths, strict=True):
            group.create_task(follower.follow(path))
        for follower in followers:
            await follower.has_started.wait()
        opened, used = perf_counter() - start, each.usage().memory - before
        start = perf_counter()
        each.command("open")
    ended = perf_counter() - start
    kinds = {tuple(follower.kinds) for follower in followers}
    if len(kinds) != 1:
        raise RuntimeError(f"the streams of equal jobs have different events: {kinds}")
    for follower in followers:
        follower.connection.close()
    left, attempts = 1, 0
    while left > 0 and attempts < 50:
        await asyncio.sleep(0.1)
        left, attempts = each.usage().files - files + each.command("end")["tasks"] - tasks, attempts + 1
    first.close()
    if is_recorded:
        record(f"{count} streams of events, memory of each", used / count, STREAM_BYTES, 1.0, "limit", unit="bytes")
        record(f"{count} streams of events, opened", opened)
        record(f"{count} streams of events, the last of {len(kinds.pop())} events arrived", ended)
        record(f"{count} streams of events, files and tasks left", max(0.0, left), 1.0, 0.0, "limit", unit="left")


class _Follower:
    """A client that reads a stream of events."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.kinds: list[str] = []
        """The kinds of the events."""
        self.has_started = asyncio.Event()
        """Set when the event arrives that a pass has started."""

    async def follow(self, path: str) -> None:
        """Read the stream to its end.

        Raises:
            HTTPError: if the stream cannot be opened, or the last event is not the end of the job.

        """
        self.connection.send("GET", path)
        status, _ = await self.connection.head()
        text = b""
        async for chunk in self.connection.chunks():
            text += chunk
            if b"event: started" in text:
                self.has_started.set()
        if status != 200 or b'"state":"done"' not in text.replace(b'": "', b'":"'):
            raise HTTPError(f"{path} has the status {status}, and ends with {text[-300:].decode(errors='replace')}")
        self.kinds = [line[7:] for line in text.decode().splitlines() if line.startswith("event: ")]


BENCHMARKS = (
    Benchmark(throughput, rounds=3, quick=True),
    Benchmark(memory, rounds=1),
    Benchmark(streams, rounds=1, quick=True),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
