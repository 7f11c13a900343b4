"""Worker processes that read and write model files."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.command_line import apass, process, script, write_model
from tests.helpers.folders import files

pytestmark = pytest.mark.process

NAMES = ("a.onnx", "b.onnx", "bad.onnx", "c.onnx", "d.onnx", "e.onnx")
TWO_CORES = "import apass.cli.commands.opt as opt; opt.usable_cores = lambda: 2"
PASSES = "import tests.helpers.file_passes"


def models(folder: Path, count: int = 0) -> Path:
    """Write models, and return their folder."""
    for name in [f"m{index:03}.onnx" for index in range(count)] or NAMES:
        write_model(folder / name, identities=0 if name.endswith("0.onnx") else 2)
    return folder


def table(output: str) -> list[str]:
    """Return the rows without their seconds."""
    return [re.sub(r" +\d+\.\d+ +", " ", line).strip() for line in output.splitlines()]


@pytest.mark.slow
def test_all_cores_write_the_files_of_one_loop(tmp_path: Path, backend: str) -> None:
    source, options = models(tmp_path / "in", 70), ("--backend", backend)
    one = process("opt", source, "-o", tmp_path / "one", "--executor", "inline", *options)
    all_cores = process("opt", source, "-o", tmp_path / "all", *options, body=TWO_CORES)
    workers = process("opt", source, "-o", tmp_path / "workers", "--executor", "process", *options)
    assert [(status, err) for status, _, err in (one, all_cores, workers)] == [(0, "")] * 3
    assert table(all_cores[1]) == table(workers[1]) == table(one[1])
    names = files(tmp_path / "one")
    assert (len(names), files(tmp_path / "all"), files(tmp_path / "workers")) == (70, names, names)
    for name in names:
        expected = (tmp_path / "one" / name).read_bytes()
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "workers" / name).read_bytes() == expected


@pytest.mark.slow
def test_many_models_use_worker_by_default(tmp_path: Path) -> None:
    environment = (
        "import os\n"
        "os.environ['COMMAND_PROCESS'] = str(os.getpid())\n"
        f"os.environ['WORKER_FLAG'] = {str(tmp_path / 'flag')!r}"
    )
    options = ("-p", "WaitForWorker", "--deadline", 250)
    arguments = ("opt", models(tmp_path / "in", 64), "-o", tmp_path / "out", *options)
    status, out, _ = process(*arguments, body=f"{environment}\n{TWO_CORES}\n{PASSES}")
    assert (status, out.splitlines()[-1].split(",")[0]) == (0, "64 of 64 models written")


@pytest.mark.slow
def test_lost_worker_fails_its_file_only(tmp_path: Path) -> None:
    arguments = ("opt", models(tmp_path / "in"), "-o", tmp_path / "out", "--executor", "process")
    status, out, err = process(*arguments, "-p", "onnx.IdentityElimination,DieOnBad", body=PASSES)
    assert "the end is near\n" in err
    message = "WorkerLostError: the passes lost two workers in succession: the worker process died"
    where = "in pass 'sequential > DieOnBad', module 'bad.onnx'"
    assert (status, f"failed bad.onnx: {where}\n    {message}" in out) == (1, True), out
    assert files(tmp_path / "out") == [name for name in NAMES if name != "bad.onnx"]


@pytest.mark.slow
def test_failed_file_keeps_error_and_notes(tmp_path: Path) -> None:
    arguments = ("opt", models(tmp_path / "in"), "-o", tmp_path / "out", "-p", "onnx.IdentityElimination,FailOnBad")
    status, out, err = process(*arguments, "--executor", "process", body=PASSES)
    assert (status, err) == (1, out[out.index("failed bad.onnx") : out.rindex("\n", 0, -1) + 1])
    assert sorted(re.findall(r"saw (\S+)", out)) == sorted(NAMES)
    expected = process(*arguments, body=PASSES)[1]
    assert out[out.index("failed bad.onnx") :] == expected[expected.index("failed bad.onnx") :]


@pytest.mark.slow
def test_output_of_passes_goes_to_standard_error(tmp_path: Path) -> None:
    options = ("-o", tmp_path / "out", "-p", "PrintTwice", "--executor", "process")
    status, out, err = process(
        "opt", models(tmp_path / "in"), *options, "--output-format", "json", "--jobs", 2, body=PASSES
    )
    assert (status, [json.loads(line)["outcome"] for line in out.splitlines()]) == (0, ["unchanged"] * len(NAMES))
    lines = sorted(line for line in err.splitlines() if line.startswith(NAMES))
    assert lines == [f"{name}: {text}" for name in NAMES for text in ("err", "out")]
    assert process("opt", tmp_path / "in" / "a.onnx", *options, body=PASSES)[2] == "out\nerr\n"


@pytest.mark.slow
@pytest.mark.parametrize("option", [(), ("--timing",), ("--timeout", 300)])
def test_cache_is_used(tmp_path: Path, option: tuple[object, ...]) -> None:
    cache = ("--cache", tmp_path / "results.db")
    arguments = ("opt", models(tmp_path / "in"), "-o", tmp_path / "out", "--executor", "process", *cache, *option)
    assert process(*arguments)[0] == 0
    stored = apass("cache", "info", *cache).stdout
    assert re.search(r"\b[1-9]\d* results", stored), stored
    assert process(*arguments)[0] == 0
    assert apass("cache", "info", *cache).stdout == stored


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--journal", "run.journal"), ("--in-place",)])
def test_one_process_replaces_models_and_keeps_journals(tmp_path: Path, option: tuple[str, ...]) -> None:
    arguments = ("opt", models(tmp_path / "in"), *option, "-p", "onnx.IdentityElimination,DieOnBad")
    status, out, _ = process(
        *arguments, "--executor", "process", body=f"import os\nos.chdir({str(tmp_path)!r})\n{PASSES}"
    )
    # The passes of each model run in a worker of their own batch: the pipeline is named, not the work on files.
    assert (status, "WorkerLostError: pass 'DieOnBad' lost two workers" in out) == (1, True), out


@pytest.mark.slow
def test_pass_of_the_program_runs_here(tmp_path: Path) -> None:
    local = (
        "from apass.passes.decorators import module_pass\n"
        "from apass.passes.registry import register_pass\n"
        "register_pass(module_pass(lambda mod, ctx: mod, opt_level=0, name='Local'))"
    )
    arguments = ("opt", models(tmp_path / "in", 70), "-o", tmp_path / "out", "-p", "Local")
    status, out, err = process(*arguments, body=f"{TWO_CORES}\n{local}")
    assert (status, err, out.splitlines()[-1].split(",")[0]) == (0, "", "70 of 70 models written")
    status, out, err = process(*arguments, "--executor", "process", body=local)
    assert (status, "importing __main__ in a worker did not register it" in out) == (1, True), (out, err)


@pytest.mark.slow
def test_interrupt_leaves_no_temporary_files(tmp_path: Path, backend: str) -> None:
    arguments = ("opt", models(tmp_path / "in"), "-o", tmp_path / "out", "-p", "onnx.IdentityElimination,HoldBad")
    with script(PASSES, (*arguments, "--executor", "process", "--backend", backend)) as running:
        while not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir()):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (130, "apass: interrupted; all files written so far are complete\n")
    assert out.splitlines()[-1].endswith("not done")
    assert set(files(tmp_path / "out")) <= set(NAMES) - {"bad.onnx"}


def test_interrupt_while_workers_start_is_one_line(tmp_path: Path, backend: str) -> None:
    interrupt = (
        "import os, signal\n"
        "import apass.cli.file_workers as workers\n"
        "start = workers.run_in_worker\n"
        "async def run_in_worker(*args, **options):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return await start(*args, **options)\n"
        "workers.run_in_worker = run_in_worker"
    )
    arguments = ("opt", models(tmp_path / "in"), "-o", tmp_path / "out", "--backend", backend)
    status, _, err = process(*arguments, "--executor", "process", body=interrupt)
    assert (status, err) == (130, "apass: interrupted; all files written so far are complete\n")


@pytest.mark.slow
def test_closed_streams_do_not_disturb_workers(tmp_path: Path) -> None:
    arguments = ["opt", models(tmp_path / "in"), "-o", tmp_path / "out", "--executor", "process"]
    command = shlex.join(map(str, [sys.executable, "-m", "apass", *arguments]))
    assert subprocess.run(f"exec {command} >&- 2>&- <&-", shell=True, check=False).returncode == 0
    assert files(tmp_path / "out") == list(NAMES)


@pytest.mark.slow
def test_closed_pipe_ends_without_traceback(tmp_path: Path) -> None:
    arguments = ["opt", models(tmp_path / "in"), "-o", tmp_path / "out", "--executor", "process"]
    command = [sys.executable, "-m", "apass", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert "Traceback" not in running.stderr.read()


@pytest.mark.slow
def test_unguarded_program_fails_with_advice(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from apass.cli import main\nmain()\n")
    arguments = ["opt", models(tmp_path / "in"), "-o", tmp_path / "out", "--executor", "process"]
    command = [sys.executable, str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, "guard the code of the program's main file" in done.stdout) == (1, True), done
