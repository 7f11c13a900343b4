"""`--record` and `--replay-answers`, with an HTTP service that ends in between."""

import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from apass.external.answers.format import ANSWERS_FILE
from tests.helpers.command_line import run_in as run

pytestmark = [pytest.mark.process, pytest.mark.network, pytest.mark.slow]

PASSES = """
import os
import anyio
import apass
from apass.external.http import HttpService

class Advise(apass.FunctionPass, opt_level=1, name="my.Advise"):
    "Asks a service, and believes it."

    async def open(self, ctx):
        headers = {"Authorization": "Bearer top-secret"}
        async with HttpService(os.environ["SERVICE"], headers=headers) as service:
            yield service, anyio.Event()

    async def transform_function(self, func, mod, ctx):
        service, is_advised = ctx.opened(self.open)
        if len(func.params) == 3 and len(mod.functions) > 1:
            # The wrong answer cancels the other body, which must have its answer.
            await is_advised.wait()
        advice = await service.ask({"size": len(func.params), "api_token": "top-secret"})
        is_advised.set()
        if advice["cost"] < 0:
            raise ValueError(f"cost must not be negative, got {advice['cost']}")
        return func

"""

PROGRAM = """#[version = "0.0.5"]
def @main(%x: float32) -> float32 {
  add(%x, 1f)
}
def @wide(%a: float32, %b: float32, %c: float32) -> float32 {
  add(%a, add(%b, %c))
}
"""
FAILURE = "ValueError: cost must not be negative, got -1"


class _Handler(BaseHTTPRequestHandler):
    """Answers with a wrong cost to one question."""

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        cost = -1 if question["size"] == 3 else question["size"]
        body = json.dumps({"cost": cost}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Print nothing."""


@pytest.fixture
def server() -> Generator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "passes.py").write_text(PASSES)
    (tmp_path / "model.relay").write_text(PROGRAM)
    return tmp_path


def test_failure_is_replayed_without_the_service(server: ThreadingHTTPServer, folder: Path) -> None:
    load, pipeline = ("--load", "passes.py"), ("-p", "InferType,my.Advise")
    service = f"http://user:top-secret@127.0.0.1:{server.server_port}/?token=top-secret"
    opt = (*load, "opt", "model.relay", "-o", "out.relay", *pipeline)
    status, output, _ = run(folder, *opt, "--record", "answers", "--reproducer", "failed", SERVICE=service)
    assert (status, FAILURE in output) == (1, True), output
    recorded = (folder / "answers" / ANSWERS_FILE).read_text()
    assert "top-secret" not in recorded
    assert sorted(json.loads(line)["answer"]["cost"] for line in recorded.splitlines()[1:]) == [-1, 1]

    server.shutdown()
    server.server_close()
    status, output, _ = run(folder, *opt, SERVICE=service)
    assert (status, "ConnectError" in output) == (1, True), output
    status, output, _ = run(folder, *opt, "--replay-answers", "answers", SERVICE=service)
    assert (status, FAILURE in output) == (1, True), output

    (reproducer,) = (folder / "failed" / "model.relay").iterdir()
    assert "top-secret" not in (reproducer / ANSWERS_FILE).read_text()
    status, output, _ = run(folder, *load, "replay", str(reproducer), SERVICE=service)
    assert (status, output.splitlines()[-1]) == (
        1,
        "pass my.Advise at 0:sequential/1:my.Advise on model.relay: fails the same way",
    )
    status, output, errors = run(folder, *load, "reduce", str(reproducer), SERVICE=service)
    assert status == 0, errors
    reduced = Path(output.splitlines()[-1].rpartition(" ")[2])
    status, output, _ = run(folder, *load, "replay", str(folder / reduced), SERVICE=service)
    assert (status, "fails the same way" in output) == (1, True)
    text = (folder / reduced / "module.relay").read_text()
    assert ("@wide" in text, "@main" in text) == (True, False)


def test_unknown_question_names_what_to_do(server: ThreadingHTTPServer, folder: Path) -> None:
    service = f"http://127.0.0.1:{server.server_port}/"
    good = PROGRAM.replace(", %c: float32", "").replace(", %c", "").replace("add(%b)", "%b")
    (folder / "model.relay").write_text(good)
    opt = ("--load", "passes.py", "opt", "model.relay", "-o", "out.relay", "-p", "my.Advise")
    status, _, errors = run(folder, *opt, "--record", "answers", SERVICE=service)
    assert status == 0, errors
    (folder / "model.relay").write_text(PROGRAM.replace(", %c: float32", ", %c: float32, %d: float32"))
    status, output, _ = run(folder, *opt, "--replay-answers", "answers", SERVICE=service)
    assert (status, "has no answer to the question to service" in output) == (1, True), output
    arguments = ("--replay-answers", "answers", "--record", "answers", "--unknown-answers", "ask")
    status, _, errors = run(folder, *opt, *arguments, SERVICE=service)
    assert status == 0, errors
    server.shutdown()
    server.server_close()
    status, _, errors = run(folder, *opt, "--replay-answers", "answers", SERVICE=service)
    assert status == 0, errors
    status, _, errors = run(folder, *opt, "--record", "answers", SERVICE=service)
    expected = (
        "answers/answers.jsonl exists; choose another folder, or remove it. To add to it, replay its answers as well"
    )
    assert (status, errors.splitlines()) == (2, [f"apass: {expected}"])
    status, _, errors = run(folder, *opt, "--replay-answers", "missing", SERVICE=service)
    assert (status, "cannot read the recorded answers in missing" in errors) == (2, True), errors
