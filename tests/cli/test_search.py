"""`apass search`: results, studies, failures, the page, Ctrl-C."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import run_in as run
from tests.helpers.folders import files
from tests.helpers.repository import ROOT
from tests.helpers.warm_processes import WarmProcess

pytestmark = [pytest.mark.process, pytest.mark.slow]

PASSES = """
import os, sys, time
import anyio, apass

@apass.register_pass("my.Add")
def add(n: int = 1):
    return apass.module_pass(lambda mod, ctx: {**mod, "f": mod["f"] + n}, opt_level=0, name="Add")

@apass.register_pass("my.Fail")
@apass.module_pass(opt_level=0)
async def Fail(mod, ctx):
    raise RuntimeError("no license")

@apass.register_pass("my.Crash")
@apass.module_pass(opt_level=0)
def Crash(mod, ctx):
    os.abort()

@apass.register_pass("my.Hang")
@apass.module_pass(opt_level=0)
def Hang(mod, ctx):
    while True:
        time.sleep(0.01)

@apass.register_pass("my.Large")
@apass.module_pass(opt_level=0)
def Large(mod, ctx):
    data = bytearray(600 << 20)
    time.sleep(3)
    return mod

@apass.register_pass("my.Wait")
@apass.module_pass(opt_level=0)
async def Wait(mod, ctx):
    print("waiting", flush=True)
    await anyio.sleep_forever()

apass.register_callable("my.value", lambda mod: mod["f"])
"""


def prepare(folder: Path, **models: int) -> None:
    (folder / "passes.py").write_text(PASSES)
    for name, value in models.items():
        (folder / f"{name}.json").write_text(json.dumps({"f": value}))


def search(folder: Path, *arguments: str) -> tuple[int, str, str]:
    return run(folder, "search", "--load", "passes.py", "--objective", "my.value", *arguments)


def results_of(output: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the trials and the result in lines of JSON."""
    *trials, result = map(json.loads, output.splitlines())
    return [line["trial"] for line in trials], result["result"]


def test_best_models_and_pipelines_are_written(tmp_path: Path) -> None:
    prepare(tmp_path, a=9, b=5)
    space = "?{0..3}(my.Add{n=-2}|my.Add{n=1})"
    status, output, errors = search(tmp_path, "a.json", "b.json", "-s", space, "-n", "28", "-o", "best", "--ablate")
    assert (status, errors) == (0, "")
    best = "my.Add{n=-2},my.Add{n=-2},my.Add{n=-2}"
    effect = "    +2 without my.Add{n=-2}\n"
    assert output.startswith(f"a.json: my.value 9 -> 3 (-66.7%), 14 candidates\n  {best}\n{effect * 3}")
    assert re.fullmatch(
        r"28 candidates \(\d+ equal\), \d+% of pass runs saved, [\d.]+ s", output.splitlines()[-1].partition("; ")[2]
    )
    assert (tmp_path / "best" / "a.txt").read_text() == f"# my.value 9 -> 3 (-66.7%)\n{best}\n"
    for name, value in (("a", 3), ("b", -1)):
        arguments = ("opt", f"{name}.json", "-p", f"@best/{name}.txt", "-o", f"{name}.opt.json")
        assert run(tmp_path, "--load", "passes.py", *arguments)[0] == 0
        texts = [(tmp_path / path).read_text() for path in (f"best/{name}.json", f"{name}.opt.json")]
        assert texts[0] == texts[1]
        assert json.loads(texts[0]) == {"f": value}


def test_study_continues(tmp_path: Path) -> None:
    prepare(tmp_path, a=9)
    arguments = (
        "a.json",
        "-s",
        "?{1..6}(my.Add{n=-2}|my.Add{n=1})",
        "--journal",
        "study.db",
        "--output-format",
        "json",
    )
    first, one = results_of(search(tmp_path, *arguments, "-n", "10")[1])
    second, other = results_of(search(tmp_path, *arguments, "-n", "25")[1])
    assert (len(first), len(second), one["resumed"], other["resumed"]) == (10, 15, 0, 10)
    assert not {trial["pipeline"] for trial in first} & {trial["pipeline"] for trial in second}
    status, output, errors = search(tmp_path, "a.json", "-s", "?(my.Add|my.Fail)", "--journal", "study.db")
    assert (status, output) == (2, "")
    assert errors.startswith("apass: the study 'study.db' belongs to another search: space ")


def test_failed_candidates_are_counted(tmp_path: Path) -> None:
    prepare(tmp_path, a=9)
    space = "?(my.Add{n=-1}|my.Fail|my.Fail,my.Add)"
    status, output, errors = search(tmp_path, "a.json", "-s", space, "--reproducer", "failed")
    assert status == 0
    assert output.startswith("a.json: my.value 9 -> 8 (-11.1%), 3 candidates\n  my.Add{n=-1}\n")
    folder = re.fullmatch(
        r"apass: 2 candidates failed, as my\.Fail(?:,my\.Add)?: RuntimeError: no license; reproducer: (\S+)\n", errors
    )
    assert folder is not None, errors
    status, output, _ = run(tmp_path, "replay", folder[1], "--load", "passes.py")
    assert "RuntimeError: no license" in output
    assert search(tmp_path, "a.json", "-s", "?(my.Fail|my.Fail,my.Fail)")[0] == 1


def test_crash_hang_and_memory_fail_one_candidate(tmp_path: Path) -> None:
    prepare(tmp_path, a=9)
    space = "?(my.Add{n=-1}|my.Crash|my.Hang|my.Large|my.Add{n=-3})"
    limits = ("--executor", "process", "--timeout", "4", "--worker-memory", "400MiB", "-j", "2")
    status, output, _ = search(tmp_path, "a.json", "-s", space, *limits, "--output-format", "json")
    assert status == 0
    trials, result = results_of(output)
    reasons = {trial["pipeline"]: trial["reason"] for trial in trials}
    assert {name for name, reason in reasons.items() if reason is None} == {"my.Add{n=-1}", "my.Add{n=-3}"}
    assert "WorkerLostError" in reasons["my.Crash"]
    assert "PassTimeoutError" in reasons["my.Hang"]
    assert "out of memory" in reasons["my.Large"]
    assert result["modules"][0]["pipeline"] == "my.Add{n=-3}"


def test_page_shows_the_search(tmp_path: Path) -> None:
    prepare(tmp_path, a=9)
    space = "?{1..3}(my.Add{n=-2}|my.Add{n=1}|my.Fail)"
    status, _, errors = search(
        tmp_path, "a.json", "-s", space, "-n", "30", "--report", "out/page.html", "--objective", "nodes"
    )
    assert status == 0, errors
    page = (tmp_path / "out" / "page.html").read_text()
    assert [
        title
        for title in ("Passes that matter", "Tree of beginnings", "Trials", "Changes of the module")
        if title not in page
    ] == []
    assert page.count("<svg") == 1
    assert "RuntimeError: no license" in page
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)


@pytest.mark.both_loops
def test_interrupt_writes_the_best_so_far(tmp_path: Path, backend: str) -> None:
    prepare(tmp_path, a=9)
    space = "?(my.Add{n=-1}|my.Add{n=-1},my.Add{n=-1},my.Wait|my.Add{n=-1},my.Wait)"
    arguments = ("a.json", "-s", space, "-j", "3", "-o", "best", "--timeout", "600", "--objective", "my.value")
    command = ("search", "--load", "passes.py", *arguments, "--backend", backend, "--journal", "study.db")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with WarmProcess("from apass.__main__ import main; main()", command, environ=environ, folder=tmp_path) as running:
        for _ in range(2):
            assert running.stdout.readline() == "waiting\n"
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=300)
    assert running.returncode == 130
    assert output.startswith("a.json: my.value 9 -> 8 (-11.1%), 1 candidate\n  my.Add{n=-1}\n")
    assert output.endswith("; interrupted\n")
    assert errors == "apass: interrupted; all files written so far are complete\n"
    assert json.loads((tmp_path / "best" / "a.json").read_text()) == {"f": 8}


def test_errors_of_misuse(tmp_path: Path) -> None:
    prepare(tmp_path, a=9)
    space = ("-s", "?(my.Add|my.Fail)")
    rows: list[tuple[tuple[str, ...], str]] = [
        (("a.json",), "--space is missing"),
        (
            ("a.json", "-s", "my.Add"),
            "'my.Add' is neither the name of a space nor a pipeline with holes, as '?(A|B)'; named are ",
        ),
        (("a.json", "-s", "my.Add,my.Fail"), "the space 'my.Add,my.Fail' has no choices"),
        (("a.json", "-s", "@missing.txt"), "cannot read the pipeline @missing.txt"),
        (("b.json", *space), "no such file or directory: 'b.json'"),
        (("a.json", *space, "--baseline", "my.Fail"), "the baseline my.Fail has no value to compare with"),
        (("a.json", *space, "--strategy", "magic"), "no strategy is named 'magic'"),
        (("a.json", *space, "--constraint", "nodes<3"), "--constraint must be NAME<=VALUE"),
        (("a.json", *space, "--worker-memory", "1GiB"), "--worker-memory needs --executor process"),
        (("a.json", *space, "--seconds", "0"), "--seconds must be a positive number of seconds"),
        (("a.json", *space, "-o", "a.json"), "-o needs a folder for several results, got the file a.json"),
        (("a.json", *space, "--journal", "passes.py"), "is not the study of a search"),
        (
            ("a.json", *space, "--objective", "speed"),
            "'speed' is neither an objective nor a function given to register_callable",
        ),
    ]
    for arguments, message in rows:
        status, output, errors = search(tmp_path, *arguments)
        assert (status, output) == (2, ""), arguments
        assert errors.startswith("apass: "), errors
        assert message in errors, errors
    assert files(tmp_path) == ["a.json", "passes.py"]
