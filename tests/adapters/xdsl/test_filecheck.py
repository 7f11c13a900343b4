"""xDSL's own filecheck tests with one command, as `apass xdsl-opt` runs them."""

import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser, pattern_for_opts

from tests.helpers.amounts import some
from tests.helpers.command_line import apass
from tests.helpers.kept_files import kept

SAMPLES: Final = Path(__file__).parent / "samples"


SUBSTITUTIONS: Final = {
    "XDSL_ROUNDTRIP": "xdsl-opt %s --print-op-generic --split-input-file | xdsl-opt --split-input-file | filecheck %s",
    "XDSL_GENERIC_ROUNDTRIP": "xdsl-opt %s --print-op-generic --split-input-file | filecheck %s "
    "--check-prefix=CHECK-GENERIC",
}
"""What xDSL's configuration of lit defines."""


@dataclass(frozen=True)
class Case:
    """A command of a file."""

    path: Path
    commands: Sequence[Sequence[str]]
    """The command lines of `xdsl-opt`, each of which reads what the one before prints."""
    check: Sequence[str] | None
    """The arguments of `filecheck`; None if only the status counts."""
    fails: bool
    """Whether the last command must fail."""
    merges_errors: bool
    """Whether `filecheck` reads the errors as well."""


def cases_in(folder: Path) -> Iterator[Case]:
    """Iterate over the commands of xDSL's tests that need no other program."""
    for path in sorted(folder.rglob("*.mlir")):
        text = path.read_text()
        # A test below such a folder, or with such a line, needs programs of MLIR. xDSL keeps resources for the process.
        if (
            "with-mlir" not in path.parts
            and "REQUIRES" not in text
            and "dense_resource" not in text
            and "{-#" not in text
            and "mlir-opt" not in text.replace("xdsl-opt", "")
        ):
            for line in re.findall(r"RUN:\s*(.*)", re.sub(r"\\\n\s*//\s*RUN:", "", text)):
                yield from _case(path, line.strip())


def _case(path: Path, line: str) -> Iterator[Case]:
    line = SUBSTITUTIONS.get(line, line).replace("%p", str(path.parent)).replace("%S", str(path.parent))
    stages = [shlex.split(stage.replace("%s", str(path))) for stage in line.split("|")]
    check = stages.pop()[1:] if stages[-1][:1] == ["filecheck"] else None
    fails = stages[0][:1] == ["not"]
    commands = [stage[1:] if stage[:1] == ["not"] else stage for stage in stages]
    if all(words[:1] == ["xdsl-opt"] and not {">", "<", "&&", "%t", "diff"} & {*words} for words in commands):
        merges = "2>&1" in commands[-1]
        plain = [[word for word in words[1:] if word != "2>&1"] for words in commands]
        yield Case(path, plain, None if check is None else [word for word in check if word != str(path)], fails, merges)


def failure_of(case: Case) -> str:
    """Run a test, and return why it fails; empty if it does not."""
    printed = errors_printed = ""
    for words in case.commands:
        result = apass("xdsl-opt", *words, stdin=printed.encode())
        if bool(result.exit_code) != case.fails and (case.fails or case.check is None or not case.merges_errors):
            return f"exit status {result.exit_code}: {result.stderr}"
        printed, errors_printed = result.stdout, result.stderr
    if case.check is None:
        return ""
    options = parse_argv_options(["filecheck", str(case.path), *case.check])
    output, errors = FInput("output", (errors_printed if case.merges_errors else "") + printed), StringIO()
    with case.path.open() as file, redirect_stderr(errors):
        status = Matcher(options, output, Parser(options, file, *pattern_for_opts(options))).run()
    return errors.getvalue() or f"filecheck returned {status}" if status else ""


@pytest.fixture(scope="module")
def filecheck_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with xDSL's tests, from its source distribution."""
    folder = tmp_path_factory.mktemp("xdsl")

    def download() -> bytes:
        release = f"xdsl=={version('xdsl')}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "xdsl", release]
        done = subprocess.run([*command, "--dest", str(folder)], capture_output=True, text=True, check=False)
        archives = list(folder.glob("*.tar.gz"))
        if not archives:
            pytest.skip(f"the source distribution of {release} is not available: {done.stderr[-200:]}")
        return archives[0].read_bytes()

    with tarfile.open(fileobj=BytesIO(kept(f"xdsl-{version('xdsl')}.tar.gz", download))) as archive:
        members = [member for member in archive if "/tests/filecheck/" in member.name]
        # The filter is the default from Python 3.14, and unknown before Python 3.11.4.
        known: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, members, **known)
    (tests,) = folder.glob("*/tests/filecheck")
    return tests


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.mlir")), ids=lambda path: path.stem)
def test_sample_passes(path: Path) -> None:
    (case,) = [case for case in cases_in(SAMPLES) if case.path == path]
    assert failure_of(case) == ""


def test_failed_check_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.mlir").write_text(
        (SAMPLES / "canonicalize.mlir").read_text().replace("CHECK-NEXT: ", "CHECK: no ")
    )
    (case,) = cases_in(tmp_path)
    assert "Couldn't match" in failure_of(case)


@pytest.mark.network
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore", "always::FutureWarning")
def test_tests_of_xdsl_pass(filecheck_tests: Path) -> None:
    cases = list(cases_in(filecheck_tests))
    assert len(cases) >= 470
    failures = {(case.path.name, *case.commands[0]): failure for case in some(cases) if (failure := failure_of(case))}
    assert failures == {}
