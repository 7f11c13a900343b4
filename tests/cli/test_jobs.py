"""`apass jobs`: the jobs of a server, in the shell."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.helpers.command_line import apass, nodes_of, write_model
from tests.helpers.folders import files
from tests.helpers.servers import ServerProcess, server_process

pytestmark = pytest.mark.process

PASSES = """
import anyio
import apass

@apass.register_pass("test.Fail")
@apass.module_pass(opt_level=0, name="test.Fail")
def fail(mod, ctx):
    raise ValueError("no \\x1b[31m")

@apass.register_pass("test.Hold")
@apass.module_pass(opt_level=0, name="test.Hold")
async def hold(mod, ctx):
    await anyio.sleep_forever()
"""
"""Registers passes that fail, and that never end."""


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the passes."""
    path = tmp_path_factory.mktemp("passes") / "jobs_passes.py"
    path.write_text(PASSES)
    return path


@pytest.fixture(scope="module")
def server(passes: Path) -> Generator[ServerProcess]:
    """Run a server for all tests of the module."""
    options = ("--executor", "inline", "--memory", "--load", passes, "--drain", "100ms", "--allow", "test.*")
    with server_process(*options, "-p", "hold=test.Hold") as server:
        yield server


@pytest.fixture(autouse=True)
def environment(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the server, and make the tables wide."""
    monkeypatch.setenv("APASS_SERVER", server.url)
    monkeypatch.setenv("COLUMNS", "300")


def submit(path: Path, pipeline: str = "default", identities: int = 2) -> str:
    """Submit a model, and return the id of the job."""
    result = apass("submit", write_model(path, identities=identities), "--no-wait", "-p", pipeline)
    assert result.exit_code == 0, result.stderr
    return result.stdout.split()[0]


@pytest.mark.slow
def test_jobs_are_listed_latest_first(tmp_path: Path, backend: str) -> None:
    first, second = submit(tmp_path / f"{backend}.onnx"), submit(tmp_path / f"{backend}2.onnx", "test.Fail")
    for job_id in (first, second):
        apass("jobs", "show", job_id, "--wait")
    result = apass("jobs", "--text", f"{backend}", "--backend", backend)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines() if ".onnx" in line]
    assert [row[:3] for row in rows] == [
        [second, "failed", f"{backend}2.onnx"],
        [first, "done", f"{backend}.onnx"],
    ]
    assert rows[0][-3:] == ["ValueError", "in", "test.Fail"]
    lines = apass("jobs", "list", "--text", backend, "--state", "failed", "--output-format", "json").stdout
    assert [json.loads(line)["id"] for line in lines.splitlines()] == [second]


def test_list_is_limited(tmp_path: Path) -> None:
    ids = [submit(tmp_path / f"limited{index}.onnx") for index in range(3)]
    result = apass("jobs", "--text", "limited", "--limit", 2)
    assert [line.split()[0] for line in result.stdout.splitlines() if ".onnx" in line] == ids[:0:-1]
    assert result.stderr == "apass: there are more than 2 jobs; --limit lists more, --state and --text fewer\n"
    none = apass("jobs", "--text", "no such name")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "apass: there are no such jobs\n")


def test_beginning_of_an_id_is_enough(tmp_path: Path) -> None:
    job_id = submit(tmp_path / "shown.onnx", identities=3)
    result = apass("jobs", "show", job_id[:20], "--wait")
    assert result.exit_code == 0
    lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    values = {name: text.strip() for name, text in lines.items()}
    assert (values["id"], values["state"], values["outcome"]) == (job_id, "done", "5 -> 2 nodes")
    assert (values["model"], values["changed by"]) == (".onnx, 136 bytes", "onnx.IdentityElimination")
    assert json.loads(apass("jobs", "show", job_id, "--output-format", "json").stdout)["id"] == job_id
    # Ids begin with the time, whose first digits change once a year.
    submit(tmp_path / "other.onnx")
    ambiguous = apass("jobs", "show", job_id[:2])
    assert (ambiguous.exit_code, f"ids begin with '{job_id[:2]}'" in ambiguous.stderr) == (2, True)


def test_failed_job_is_shown_with_its_error(tmp_path: Path) -> None:
    job_id = submit(tmp_path / "f.onnx", "test.Fail")
    result = apass("jobs", "show", job_id, "--wait")
    assert (result.exit_code, "\x1b" in result.stdout) == (1, False)
    assert r"ValueError: no \x1b[31m" in result.stdout
    got = apass("jobs", "result", job_id, "-o", tmp_path / "out.onnx")
    assert (got.exit_code, got.stdout, files(tmp_path)) == (1, "", ["f.onnx"])
    assert got.stderr.startswith(f"failed f.onnx (job {job_id}): in pass 'sequential > test.Fail', module 'f.onnx'\n")
    assert r"ValueError: no \x1b[31m" in got.stderr


@pytest.mark.slow
def test_reproducer_of_a_failed_job_is_replayed(tmp_path: Path, passes: Path) -> None:
    job_id = submit(tmp_path / "m.onnx", "test.Fail")
    apass("jobs", "show", job_id, "--wait")
    result = apass("jobs", "reproducer", job_id, "-o", tmp_path / "failure")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{tmp_path / 'failure'}\n", "")
    # In a process of its own: what is loaded stays loaded.
    command = [sys.executable, "-m", "apass", "replay", str(tmp_path / "failure"), "--load", str(passes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "fails the same way" in done.stdout) == (1, True), done.stderr
    job_id = submit(tmp_path / "m.onnx")
    apass("jobs", "show", job_id, "--wait")
    result = apass("jobs", "reproducer", job_id, "-o", tmp_path / "none")
    assert (result.exit_code, "is done; a reproducer repeats the failure of a job" in result.stderr) == (2, True)


@pytest.mark.parametrize("output", ["out.onnx", "-"])
def test_job_without_result_has_own_status(tmp_path: Path, output: str) -> None:
    job_id = submit(tmp_path / "none.onnx", "hold")
    assert apass("jobs", "cancel", job_id).exit_code == 0
    target = output if output == "-" else tmp_path / output
    result = apass("jobs", "result", job_id, "-o", target)
    assert (result.exit_code, result.stdout, files(tmp_path)) == (1, "", ["none.onnx"])
    assert result.stderr == f"apass: job {job_id} was cancelled, and has no result\n"
    report = apass("jobs", "report", job_id, "-o", target)
    assert (report.exit_code, report.stdout, files(tmp_path)) == (1, "", ["none.onnx"])
    assert report.stderr.startswith(f"apass: job {job_id} has no report; ")


def test_ended_jobs_are_removed(tmp_path: Path) -> None:
    ended, held = submit(tmp_path / "ended.onnx"), submit(tmp_path / "held.onnx", "hold", identities=9)
    assert apass("jobs", "show", ended, "--wait").exit_code == 0
    result = apass("jobs", "remove", held, ended)
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [f"{held}  held.onnx has not ended; cancel it first", f"{ended}  ended.onnx is removed"],
    )
    assert apass("jobs", "show", ended).exit_code == 2
    assert apass("jobs", "cancel", held).exit_code == 0
    assert apass("jobs", "remove", held).exit_code == 0
    assert apass("jobs", "show", held).exit_code == 2


def test_result_and_report_are_written(tmp_path: Path) -> None:
    job_id = submit(tmp_path / "m.onnx")
    assert apass("jobs", "result", job_id, "-o", tmp_path / "out.onnx").exit_code == 0
    assert nodes_of(tmp_path / "out.onnx") == ["Relu", "Neg"]
    assert apass("jobs", "result", job_id, "-o", "-").stdout_bytes == (tmp_path / "out.onnx").read_bytes()
    assert apass("jobs", "report", job_id, "-o", tmp_path / "new" / "report.html").exit_code == 0
    assert "onnx.IdentityElimination" in (tmp_path / "new" / "report.html").read_text()
    assert apass("jobs", "report", job_id, "-o", "-").stdout == (tmp_path / "new" / "report.html").read_text()


def test_unwritable_output_is_one_line(tmp_path: Path) -> None:
    job_id = submit(tmp_path / "m.onnx")
    result = apass("jobs", "result", job_id, "-o", tmp_path / "m.onnx" / "out.onnx")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


def test_cancelled_job_ends(tmp_path: Path) -> None:
    job_id = submit(tmp_path / "held.onnx", "hold")
    result = apass("jobs", "cancel", job_id)
    assert (result.exit_code, result.stdout) == (0, f"{job_id}  held.onnx is cancelled\n")
    again = apass("jobs", "cancel", job_id)
    assert (again.exit_code, again.stdout) == (1, f"{job_id}  held.onnx is cancelled already\n")
    shown = apass("jobs", "show", job_id)
    assert (shown.exit_code, "cancelled" in shown.stdout) == (1, True)


def test_job_is_repeated(tmp_path: Path) -> None:
    job_id = submit(tmp_path / "again.onnx", "test.Fail")
    result = apass("jobs", "retry", job_id)
    new_id, name = result.stdout.split()
    assert (result.exit_code, name, new_id != job_id) == (0, "again.onnx", True)
    assert apass("jobs", "show", new_id, "--wait").exit_code == 1


def test_events_are_printed_until_the_end(tmp_path: Path) -> None:
    job_id = submit(tmp_path / "e.onnx", identities=4)
    result = apass("jobs", "events", job_id)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].split()[1:] == ["state", "queued"]
    assert lines[-1].split()[1:3] == ["state", "done"]
    assert any(line.split()[1:] == ["started", "onnx.Simplify"] for line in lines)
    events = [
        json.loads(line) for line in apass("jobs", "events", job_id, "--output-format", "json").stdout.split("\n")[:-1]
    ]
    rest = apass("jobs", "events", job_id, "--output-format", "json", "--after", events[3]["id"]).stdout
    assert [json.loads(line) for line in rest.splitlines()] == events[4:]


def test_texts_of_models_are_not_printed(tmp_path: Path, server: ServerProcess) -> None:
    model = write_model(tmp_path / "t.onnx", identities=6)
    params = {"suffix": "onnx", "texts": "true", "wait": "30"}
    job_id = httpx.post(f"{server.url}/v1/jobs", params=params, content=model.read_bytes()).json()["id"]
    lines = apass("jobs", "events", job_id).stdout.splitlines()
    texts = [line.split(maxsplit=2)[2] for line in lines if line.split()[1] == "text"]
    assert [text.split(",")[0] for text in texts[:2]] == ["number 0", "number 1"]
    assert max(map(len, lines)) < 120
    assert not any("text=" in line or "data=" in line for line in lines)
    events = map(json.loads, apass("jobs", "events", job_id, "--output-format", "json").stdout.splitlines())
    assert all("data" in event for event in events if event["kind"] == "text")


@pytest.mark.parametrize("command", ["show", "result", "report", "cancel", "retry", "remove", "events"])
def test_unknown_job_is_one_line(command: str, tmp_path: Path) -> None:
    options = ["-o", str(tmp_path / "out")] if command in ("result", "report") else []
    result = apass("jobs", command, "0" * 32, *options)
    message = f"apass: there is no job '{'0' * 32}'; it may have expired\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_absent_server_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_SERVER", "http://127.0.0.1:1")
    result = apass("jobs", "--retry-for", "0.1")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("apass: the server http://127.0.0.1:1 cannot be reached")
    assert result.stderr.endswith("; start it with `apass serve`, or name another with --server\n")


def test_help_lists_the_commands() -> None:
    result = apass("jobs", "--help")
    assert result.exit_code == 0
    for name in ("list", "show", "result", "report", "cancel", "retry", "remove", "events"):
        assert f" {name} " in result.stdout
    unknown = apass("jobs", "cancle", "x")
    assert (unknown.exit_code, "cancel" in unknown.stderr) == (2, True)
