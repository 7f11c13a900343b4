"""`apass submit`: models that a server optimizes."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.helpers.command_line import PROGRAM, apass, nodes_of, program, write_model
from tests.helpers.folders import files
from tests.helpers.servers import ServerProcess, command, server_process

pytestmark = pytest.mark.process

PASSES = """
import os
import anyio
import apass

@apass.register_pass("test.Gate")
@apass.module_pass(opt_level=0, name="test.Gate")
async def gate(mod, ctx):
    while not os.path.exists(os.path.join(os.path.dirname(__file__), "open")):
        await anyio.sleep(0.01)
    return mod

@apass.register_pass("test.Fail")
@apass.module_pass(opt_level=0, name="test.Fail")
def fail(mod, ctx):
    ctx.diag_ctx.warning("look \\x1b[31mhere")
    raise ValueError("no \\x1b[31m")

@apass.register_pass("test.Warn")
@apass.module_pass(opt_level=0, name="test.Warn")
def warn(mod, ctx):
    ctx.diag_ctx.warning("look \\x1b[31mhere")
    return mod
"""
"""Registers passes that wait, fail and warn."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the passes."""
    folder = tmp_path_factory.mktemp("passes")
    (folder / "submit_passes.py").write_text(PASSES)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Generator[ServerProcess]:
    """Run a server for all tests of the module."""
    options = ("--executor", "inline", "--memory", "--load", folder / "submit_passes.py", "--drain", "100ms")
    with server_process(*options, "--allow", "onnx.*", "--allow", "test.*") as server:
        yield server


@pytest.fixture(autouse=True)
def environment(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the server, and make the tables wide."""
    monkeypatch.setenv("APASS_SERVER", server.url)
    monkeypatch.setenv("COLUMNS", "200")


def test_folder_is_optimized_as_by_opt(tmp_path: Path, backend: str) -> None:
    for index in range(3):
        write_model(tmp_path / "in" / f"m{index}.onnx", identities=index)
    program(tmp_path / "in" / "p.relay")
    result = apass("submit", tmp_path / "in", "-o", tmp_path / "out", "--backend", backend)
    assert (result.exit_code, result.stderr) == (0, "")
    local = apass("opt", tmp_path / "in", "-o", tmp_path / "local")
    assert local.exit_code == 0
    assert files(tmp_path / "out") == files(tmp_path / "local") == ["m0.onnx", "m1.onnx", "m2.onnx", "p.relay"]
    for name in files(tmp_path / "out"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    assert result.stdout.splitlines()[-1] == local.stdout.splitlines()[-1]
    assert result.stdout.splitlines()[-1].startswith("4 of 4 models written, ")
    assert "ok unchanged, copied" in result.stdout


def test_failures_leave_the_other_models(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    (tmp_path / "b.onnx").write_bytes(b"no model")
    result = apass("submit", tmp_path, "-o", tmp_path / "out")
    assert (result.exit_code, files(tmp_path / "out")) == (1, ["a.onnx"])
    assert "failed b.onnx: AdapterError: " in result.stdout
    assert result.stdout.splitlines()[-1] == "1 of 2 models written, 4 nodes before, 2 after, 1 failed"


def test_failure_of_a_pass_names_it(tmp_path: Path) -> None:
    result = apass("submit", write_model(tmp_path / "m.onnx"), "-p", "test.Fail", "-o", tmp_path / "out.onnx")
    assert (result.exit_code, files(tmp_path)) == (1, ["m.onnx"])
    assert "failed m.onnx: in pass 'sequential > test.Fail', module 'm.onnx'\n" in result.stdout
    assert r"ValueError: no \x1b[31m" in result.stdout
    assert "\x1b" not in result.stdout


def test_warnings_are_shown(tmp_path: Path) -> None:
    result = apass("submit", write_model(tmp_path / "m.onnx"), "-p", "test.Warn", "-o", tmp_path / "out.onnx")
    assert result.exit_code == 0
    assert ("warning: look ␛[31mhere" in result.stdout, "\x1b" in result.stdout) == (True, False)


def test_result_replaces_the_model(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    assert apass("submit", model, "--in-place").exit_code == 0
    assert (files(tmp_path), nodes_of(model)) == (["m.onnx"], ["Relu", "Neg"])
    before = model.stat().st_ino
    result = apass("submit", model, "--in-place")
    assert (result.exit_code, "ok unchanged" in result.stdout, model.stat().st_ino) == (0, True, before)


@pytest.mark.slow
def test_model_that_changes_meanwhile_is_not_replaced(tmp_path: Path, folder: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    (folder / "open").unlink(missing_ok=True)
    pipeline = "test.Gate,onnx.IdentityElimination"
    with command(["submit", model, "--in-place", "-p", pipeline, "--server", os.environ["APASS_SERVER"]]) as running:
        wait_for_job("running", "m.onnx", pipeline)
        write_model(model, identities=5)
        changed = model.read_bytes()
        (folder / "open").touch()
        out, err = running.communicate(timeout=60)
    assert (running.returncode, model.read_bytes()) == (1, changed)
    assert f"{model} has changed since it was sent, and was left as it is" in out
    assert "`apass jobs result ID -o FILE` writes a result" in err


def test_model_is_read_from_standard_input(tmp_path: Path) -> None:
    data = write_model(tmp_path / "m.onnx").read_bytes()
    result = apass("submit", "-", "--from", "onnx", stdin=data)
    assert (result.exit_code, result.stderr.splitlines()[-1][:23]) == (0, "1 of 1 models written, ")
    (tmp_path / "out.onnx").write_bytes(result.stdout_bytes)
    assert nodes_of(tmp_path / "out.onnx") == ["Relu", "Neg"]


def test_lines_of_json_have_the_ids_of_jobs(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    (tmp_path / "b.onnx").write_bytes(b"no model")
    result = apass("submit", tmp_path, "-o", tmp_path / "out", "--output-format", "json")
    lines = {line["model"]: line for line in map(json.loads, result.stdout.splitlines())}
    assert (lines["a.onnx"]["outcome"], lines["a.onnx"]["nodes"]) == ("changed", {"before": 4, "after": 2})
    assert (lines["b.onnx"]["outcome"], lines["b.onnx"]["error"]["type"]) == ("failed", "AdapterError")
    assert apass("jobs", "show", lines["a.onnx"]["job"]).exit_code == 0
    assert apass("jobs", "show", lines["b.onnx"]["job"]).exit_code == 1


def test_ids_are_printed_without_waiting(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("submit", model, "--no-wait")
    assert (result.exit_code, files(tmp_path)) == (0, ["m.onnx"])
    job_id, name = result.stdout.split()
    assert name == "m.onnx"
    assert apass("jobs", "result", job_id, "-o", tmp_path / "out.onnx").exit_code == 0
    assert nodes_of(tmp_path / "out.onnx") == ["Relu", "Neg"]
    lines = apass("submit", model, "--no-wait", "--output-format", "json").stdout
    assert json.loads(lines)["model"] == "m.onnx"


def test_format_of_the_result_is_converted(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    write_model(model, identities=0)
    result = apass("submit", model, "--to", "relay", "-o", tmp_path / "out", "--quiet")
    local = apass("opt", model, "--to", "relay", "-o", tmp_path / "local", "--quiet")
    assert (result.exit_code, files(tmp_path / "out")) == (local.exit_code, files(tmp_path / "local"))


def wait_for_job(state: str, name: str, pipeline: str) -> str:
    """Wait for a job in a state, and return its id."""
    end = monotonic() + 60
    while True:
        result = apass("jobs", "--state", state, "--text", name, "--output-format", "json")
        for line in map(json.loads, result.stdout.splitlines()):
            if line["pipeline"] == pipeline:
                return str(line["id"])
        assert monotonic() < end, result.stderr
        sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_the_jobs_running(tmp_path: Path, folder: Path, backend: str, number: int) -> None:
    (folder / "open").unlink(missing_ok=True)
    name = f"{backend}{int(number)}.onnx"
    # A model that an earlier job has had would be done at once.
    model = write_model(tmp_path / name, identities=10 + 2 * int(number) + len(backend))
    options = ["-p", "test.Gate", "-o", tmp_path / "out.onnx", "--backend", backend]
    with command(
        ["submit", model, *options, "--server", os.environ["APASS_SERVER"]], stdin=subprocess.DEVNULL
    ) as running:
        job_id = wait_for_job("running", name, "test.Gate")
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert err.splitlines() == [
        "apass: the server goes on with these jobs; `apass jobs result ID -o FILE` writes a result:",
        f"  {job_id}  {name}",
        "apass: interrupted; all files written so far are complete",
    ]
    assert out.splitlines()[-1] == "0 of 1 models written, 0 nodes before, 0 after, 1 not done"
    assert files(tmp_path) == [name]
    (folder / "open").touch()
    assert apass("jobs", "show", job_id, "--wait").exit_code == 0


@pytest.mark.slow
def test_interrupt_cancels_the_jobs_on_request(tmp_path: Path, folder: Path) -> None:
    (folder / "open").unlink(missing_ok=True)
    model = write_model(tmp_path / "cancelled.onnx", identities=7)
    options = ["-p", "test.Gate", "--cancel-on-interrupt", "--server", os.environ["APASS_SERVER"]]
    with command(["submit", model, *options]) as running:
        job_id = wait_for_job("running", "cancelled.onnx", "test.Gate")
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err.splitlines()[0]) == (130, "apass: 1 job cancelled")
    assert "state:      cancelled" in apass("jobs", "show", job_id).stdout


@dataclass
class Terminal:
    """A terminal on which `apass submit` runs."""

    process: subprocess.Popen[str]
    file: int
    shown: bytes = b""

    def wait_for(self, text: str) -> None:
        """Return when the terminal has shown a text."""
        while text.encode() not in self.shown:
            self.shown += os.read(self.file, 1000)

    def interrupt(self) -> None:
        """Send SIGINT once the command has a job, and wait for its question."""
        # The server may have the job before the command knows its id.
        self.wait_for("1 optimizing")
        # The signal is sent by hand, so that the terminal need not be the controlling one.
        self.process.send_signal(signal.SIGINT)
        self.wait_for("Cancel?")

    def answer(self, text: str) -> None:
        """Enter a line."""
        os.write(self.file, f"{text}\n".encode())


@contextmanager
def terminal(model: Path) -> Generator[Terminal]:
    """Submit a model, whose job waits for the gate, on a terminal."""
    outer, inner = pty.openpty()
    options = ["-p", "test.Gate", "--server", os.environ["APASS_SERVER"]]
    with command(["submit", model, *options], stdin=inner, stderr=inner) as process:
        os.close(inner)
        try:
            yield Terminal(process, outer)
        finally:
            os.close(outer)


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "state"), [("y", "cancelled"), ("n", "running")])
def test_interrupt_asks_on_a_terminal(tmp_path: Path, folder: Path, answer: str, state: str) -> None:
    (folder / "open").unlink(missing_ok=True)
    name = f"asked-{answer}.onnx"
    with terminal(write_model(tmp_path / name, identities=8)) as user:
        job_id = wait_for_job("running", name, "test.Gate")
        user.interrupt()
        user.answer(answer)
        assert user.process.wait(timeout=60) == 130
    assert f"state:      {state}" in apass("jobs", "show", job_id).stdout
    (folder / "open").touch()


@pytest.mark.slow
def test_job_that_ended_before_the_answer_is_named(tmp_path: Path, folder: Path) -> None:
    (folder / "open").unlink(missing_ok=True)
    with terminal(write_model(tmp_path / "early.onnx", identities=9)) as user:
        job_id = wait_for_job("running", "early.onnx", "test.Gate")
        user.interrupt()
        (folder / "open").touch()
        assert "state:      done" in apass("jobs", "show", job_id, "--wait").stdout
        user.answer("y")
        user.wait_for(job_id)
        user.process.wait(timeout=60)
    assert b"0 jobs cancelled" in user.shown
    assert b"these jobs had ended before; `apass jobs result ID -o FILE`" in user.shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--server", "ftp://host"], "'ftp://host' is not the URL of a server"),
        (["--server", "http://127.0.0.1:1", "--retry-for", "0.1"], "start it with `apass serve`, or name another"),
        (["--token", "a b"], "the token must consist of printable ASCII characters"),
        (["--no-wait", "-o", "x"], "--no-wait writes no results, so that -o cannot be used with it"),
        (["--in-place", "-o", "x"], "--in-place and -o cannot be used together"),
        (["--deadline", "soon"], "--deadline must be a duration"),
        (["--config", "a"], "--config must be KEY=VALUE, got 'a'"),
        (["-p", "@missing"], "cannot read the pipeline @missing"),
        (["--backend", "curio"], "--backend must be asyncio or trio, got 'curio'"),
    ],
)
def test_misuse_is_one_line(options: list[str], message: str, tmp_path: Path) -> None:
    result = apass("submit", write_model(tmp_path / "m.onnx"), *options)
    assert (result.exit_code, result.stdout, files(tmp_path)) == (2, "", ["m.onnx"])
    assert message in result.stderr


def test_model_without_suffix_is_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx").rename(tmp_path / "m")
    result = apass("submit", model, "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout, files(tmp_path)) == (2, "", ["m"])
    assert result.stderr.startswith(f"apass: model file {model} has no suffix, by which the server knows its format; ")


@pytest.mark.parametrize("options", [["-p", "onnx.Simplfy"], ["-p", "onnx.Simplify", "--config", "no.such=1"]])
def test_pipeline_is_rejected_as_by_opt(options: list[str], tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        write_model(tmp_path / name)
    local = apass("opt", tmp_path, "-o", tmp_path / "out", *options)
    for more in (["-o", str(tmp_path / "out")], ["--no-wait"]):
        result = apass("submit", tmp_path, *options, *more)
        assert (result.exit_code, result.stdout, files(tmp_path)) == (local.exit_code, "", ["a.onnx", "b.onnx"])
        assert result.stderr.count("apass: ") == 1
        if "onnx.Simplfy" in options:
            assert "did you mean 'onnx.Simplify'?" in local.stderr
            assert result.stderr.endswith("did you mean 'onnx.Simplify'?\n")
    assert apass("jobs", "--text", "Simplfy").stdout == ""


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    name = "m\x1b[31m[bold]x\n.onnx"
    result = apass("submit", write_model(tmp_path / name), "-o", tmp_path / "out")
    assert result.exit_code == 0
    for text in (result.stdout, apass("jobs", "--limit", 1).stdout, apass("jobs", "--limit", 1).stderr):
        assert "\x1b" not in text
    assert r"m\x1b[31m[bold]x\n.onnx" in result.stdout


def test_program_of_relay_is_optimized(tmp_path: Path) -> None:
    source = program(tmp_path / "p.relay")
    assert apass("submit", source, "-o", tmp_path / "out.relay").exit_code == 0
    assert (tmp_path / "out.relay").read_text() != PROGRAM
