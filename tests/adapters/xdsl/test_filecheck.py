"""xDSL's own filecheck tests that run exactly one pipeline, through `apass opt`."""

import json
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
from xdsl.utils.arg_spec import ParameterListType, parse_pipeline

from apass.passes.registry import pass_options
from tests.helpers.amounts import some
from tests.helpers.command_line import apass
from tests.helpers.kept_files import kept

SAMPLES: Final = Path(__file__).parent / "samples"

FLAGS: Final = {
    "--split-input-file": ("--split-input-file",),
    "--verify-diagnostics": ("--verify-diagnostics",),
    "--parsing-diagnostics": ("--verify-diagnostics",),
    "--allow-unregistered-dialect": ("--config", "xdsl.allow_unregistered_dialect=true"),
    "--print-op-generic": ("--config", "xdsl.print_generic=true"),
    "2>&1": (),
}
"""Options of `xdsl-opt`, and those of `apass opt`."""


@dataclass(frozen=True)
class Case:
    """A file with one command."""

    path: Path
    arguments: Sequence[str]
    """The arguments of `apass opt`."""
    check: Sequence[str] | None
    """The arguments of `filecheck`; None if only the status counts."""


def cases_in(folder: Path) -> Iterator[Case]:
    """Iterate over the files whose only command runs passes, for `filecheck`."""
    for path in sorted(folder.rglob("*.mlir")):
        runs = re.findall(r"RUN:\s*(.*)", path.read_text())
        # A test below such a folder needs the program mlir-opt.
        if len(runs) != 1 or "$XDSL" in runs[0] or "with-mlir" in path.parts:
            continue
        first, *rest = runs[0].split("|")
        words = shlex.split(first.replace("%p", str(path.parent)))
        if words[:1] != ["xdsl-opt"] or "-t" in words or not {"-p", "--passes"} & {*words} or len(rest) > 1:
            continue
        check = [word for word in shlex.split(rest[0])[1:] if word != "%s"] if rest else None
        yield Case(path, list(arguments_of(path, words[1:])), check)


def arguments_of(path: Path, words: Sequence[str]) -> Iterator[str]:
    """Translate the arguments of `xdsl-opt`."""
    yield from ("opt", str(path), "-o", "-", "--quiet")
    remaining = iter(words)
    for word in remaining:
        if word in ("-p", "--passes"):
            yield from ("-p", pipeline_of(next(remaining)))
        elif word != "%s":
            yield from FLAGS[word]


def pipeline_of(text: str) -> str:
    """Translate a pipeline of xDSL."""
    parts: list[str] = []
    for spec in parse_pipeline(text):
        types = {key: str(option.annotation) for key, option in pass_options(f"xdsl.{spec.name}").items()}
        options = spec.normalize_parameter_names().parameters.items()
        listed = ",".join(f"{key}={value_of(value, types[key])}" for key, value in options)
        parts.append(f"xdsl.{spec.name}" + (f"{{{listed}}}" if listed else ""))
    return ",".join(parts)


def value_of(values: ParameterListType, tp: str) -> str:
    """Return the text of an option."""
    if not values:
        return "true"
    return json.dumps(list(values)) if "tuple" in tp else json.dumps(values[0])


def failure_of(case: Case) -> str:
    """Run a test, and return why it fails; empty if it does not."""
    result = apass(*case.arguments)
    if result.exit_code:
        return f"exit status {result.exit_code}: {result.stderr}"
    if case.check is None:
        return ""
    options = parse_argv_options(["filecheck", str(case.path), *case.check])
    # Passes print to standard error, because standard output is that of the module.
    output, errors = FInput("output", result.stderr + result.stdout), StringIO()
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
    assert len(cases) >= 170
    failures = {case.path.name: failure for case in some(cases) if (failure := failure_of(case))}
    assert failures == {}
