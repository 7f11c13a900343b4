"""`examples/redis_worker.py`: workers and a real Redis, also if a worker dies."""

import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
from anyio import to_thread
from coredis import Redis

from apass.adapters.onnx import ADAPTER, count_nodes
from examples.redis_worker import GROUP, MODELS, entries_of
from tests.helpers.redis_server import RedisServer, needs_redis, running_redis
from tests.helpers.repository import ROOT

pytestmark = [needs_redis, pytest.mark.network, pytest.mark.process, pytest.mark.slow]

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
agraph (float[3] x) => (float[3] y) {
    a = Identity(x)
    b = Identity(a)
    y = Relu(b)
}
"""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Return a running server."""
    with running_redis() as running:
        yield running


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """Return the paths of six models, of which the last is damaged."""
    paths = [tmp_path / f"m{index}.onnx" for index in range(6)]
    for path in paths[:-1]:
        path.write_bytes(ADAPTER.dumps(ir.from_onnx_text(MODEL)))
    paths[-1].write_bytes(b"no model")
    return paths


def command(server: RedisServer, *arguments: str, backend: str = "asyncio") -> list[str]:
    """Return the command of the example."""
    return [sys.executable, "examples/redis_worker.py", "--backend", backend, *arguments, "--url", server.url]


def start_worker(stack: ExitStack, server: RedisServer, backend: str, *options: str) -> "subprocess.Popen[str]":
    """Start a worker, which is killed at the end of the block."""
    worker = subprocess.Popen(command(server, "work", *options, backend=backend), cwd=ROOT, text=True)
    stack.callback(worker.wait)
    stack.callback(worker.kill)
    return worker


def test_models_are_optimized_and_failures_reported(
    server: RedisServer, models: list[Path], tmp_path: Path, backend: str
) -> None:
    with ExitStack() as stack:
        for _ in range(2):
            start_worker(stack, server, backend)
        sending = command(server, "send", *map(str, models), "-o", str(tmp_path / "out"), backend=backend)
        done = subprocess.run(sending, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    results = [ADAPTER.loads((tmp_path / "out" / path.name).read_bytes()) for path in models[:-1]]
    assert [count_nodes(mod) for mod in results] == [1] * 5
    assert "m5.onnx: AdapterError" in done.stderr
    assert not (tmp_path / "out" / "m5.onnx").exists()


@pytest.mark.anyio
async def test_model_of_dead_worker_is_taken_over(server: RedisServer, models: list[Path]) -> None:
    async with Redis.from_url(server.url, decode_responses=False) as client:
        await client.xgroup_create(MODELS, GROUP, identifier="0", mkstream=True)
        for path in models[:2]:
            fields: Any = {b"name": path.name.encode(), b"model": path.read_bytes(), b"reply": b"answers"}
            await client.xadd(MODELS, fields)
        # This consumer takes one model, and never acknowledges it.
        await client.xreadgroup(GROUP, "dead", {MODELS: b">"}, count=1)
        with ExitStack() as stack:
            start_worker(stack, server, "asyncio", "--takeover", "0.2")
            # A slow worker may take its own model over, and answer twice: senders ignore the second answer.
            answers: dict[bytes, dict[bytes, bytes]] = {}
            last = b"0-0"
            while len(answers) < 2:
                for identifier, answer in entries_of(await client.xread({b"answers": last}, block=10_000)):
                    last = identifier
                    answers[answer[b"name"]] = answer
        assert sorted(answers) == [b"m0.onnx", b"m1.onnx"]
        assert all(b"model" in answer for answer in answers.values())


def sending(server: RedisServer, *arguments: object, backend: str = "asyncio") -> "subprocess.Popen[str]":
    """Start to send models."""
    words = command(server, "send", *map(str, arguments), backend=backend)
    return subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.anyio
async def test_second_answer_for_a_model_is_ignored(server: RedisServer, models: list[Path], tmp_path: Path) -> None:
    with sending(server, *models[:2], "-o", tmp_path / "out") as process:
        async with Redis.from_url(server.url, decode_responses=False) as client:
            entries: list[Any] = []
            while len(entries) < 2:
                reply = await client.xread({MODELS: b"0-0"}, block=1_000)
                entries = entries_of(reply)
            # The worker of the first one died before it had acknowledged its answer.
            for _, fields in (entries[0], entries[0], entries[1]):
                answer: Any = {b"name": fields[b"name"], b"model": b"result"}
                await client.xadd(fields[b"reply"], answer)
        out, err = await to_thread.run_sync(process.communicate)
    assert (process.returncode, err) == (0, "")
    assert [line.partition(":")[0] for line in out.splitlines()] == ["m0.onnx", "m1.onnx"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["m0.onnx", "m1.onnx"]


def test_equal_and_missing_names_are_not_sent(server: RedisServer, models: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other" / "m0.onnx"
    other.parent.mkdir()
    other.write_bytes(models[0].read_bytes())
    for path, message in (
        (other, "2 models are named m0.onnx, and their results would be; send them one by one"),
        (tmp_path / "none.onnx", f"there is no file {tmp_path / 'none.onnx'}"),
    ):
        with sending(server, models[0], path, "-o", tmp_path / "out") as process:
            _, err = process.communicate()
        assert (process.returncode, err.splitlines()[-1]) == (2, f"redis_worker.py: error: {message}")
    assert not (tmp_path / "out").exists()


@pytest.mark.anyio
async def test_worker_reports_that_redis_has_gone(
    server: RedisServer, models: list[Path], anyio_backend_name: str
) -> None:
    with working(server, anyio_backend_name) as worker:
        async with Redis.from_url(server.url, decode_responses=False) as client:
            fields: Any = {b"name": b"m.onnx", b"model": models[0].read_bytes(), b"reply": b"answers"}
            await client.xadd(MODELS, fields)
            while not await client.xread({b"answers": b"0-0"}, block=1_000):
                pass
        server.kill()
        _, err = await to_thread.run_sync(worker.communicate)
    assert (worker.returncode, str(server.port) in err) == (1, True)
    assert [line.partition(" ")[0] for line in err.splitlines()] == ["redis_worker.py:"] * err.count("\n")


@contextmanager
def working(server: RedisServer, backend: str) -> Generator["subprocess.Popen[str]"]:
    """Run a worker, whose error output is read."""
    words = command(server, "work", backend=backend)
    with subprocess.Popen(words, cwd=ROOT, text=True, stderr=subprocess.PIPE) as worker:
        try:
            yield worker
        finally:
            worker.kill()


@pytest.mark.parametrize("url", ["foo", "http://host", "redis://"])
def test_other_url_is_misuse(url: str) -> None:
    words = [sys.executable, "examples/redis_worker.py", "work", "--url", url]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert done.stderr.splitlines()[-1].endswith(f"expected a URL such as redis://127.0.0.1:6379/0, got '{url}'")
