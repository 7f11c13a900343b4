"""The program `mlir-opt`: where it is, how it runs, and what it reports."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from apass.concurrency.processes.command import complete_process
from apass.errors import AdapterError, HelperError, MissingExtraError

__all__ = [
    "BYTECODE",
    "LOCAL_SCOPE",
    "TIME_LIMIT",
    "Answer",
    "Message",
    "Request",
    "extra_arguments",
    "failure",
    "find_mlir_opt",
    "find_tool",
    "messages",
    "run_now",
    "run_request",
]

BYTECODE: Final = b"ML\xefR"
"""The first bytes of MLIR bytecode."""

VARIABLE: Final = "APASS_MLIR_OPT"
"""The environment variable that names the program."""

ARGUMENTS: Final = "APASS_MLIR_ARGS"
"""The environment variable with further arguments of each run."""

TIME_LIMIT: Final = 600.0
"""Seconds that one run may take by default."""

LOCAL_SCOPE: Final = "--mlir-print-local-scope"
"""The argument that prints maps and types where they are used, so that the text of a function needs no other.

The metadata of a file are not printed then.
"""

_FOLDERS: Final = "/usr/lib", "/usr/local/lib", "/opt"
"""Folders with installations such as `llvm-22/bin`, which are not on the PATH."""

_LAST_LINES: Final = 5
"""How many lines of output a message about a crash contains."""

_FRAMES: Final = 4
"""How many functions of the stack a message about a crash contains."""

_FRAME: Final = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ (?P<function>.+)$", re.MULTILINE)

_DIAGNOSTIC: Final = re.compile(
    r"^(?P<file><stdin>|<unknown>|[^\s:][^:\n]*):(?P<line>\d+)(?::(?P<column>\d+))?: "
    r"(?P<severity>error|warning|remark|note): (?P<text>.*)$"
)
_LOCATED_ELSEWHERE: Final = re.compile(r"^loc\(.*\): (?P<severity>error|warning|remark|note): (?P<text>.*)$")


@dataclass(frozen=True, slots=True)
class Request:
    """One run of `mlir-opt`."""

    program: Path
    """The program."""
    arguments: tuple[str, ...]
    """Its arguments."""
    data: bytes
    """The module, as text or as bytecode."""
    time_limit: float = TIME_LIMIT
    """Seconds, after which the process is killed."""
    text_after: str = ""
    """The pass after which the text of the module is returned too, beside its bytecode; empty for the text alone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a run of `mlir-opt`."""

    data: bytes
    """The resulting module; empty if the run failed."""
    status: int
    """The exit status; negative for a signal."""
    printed: str
    """What the program printed to standard output and standard error."""
    text: str = ""
    """The text of the module after the last pass named `Request.text_after`."""


@dataclass(frozen=True, slots=True)
class Message:
    """A diagnostic of `mlir-opt`."""

    severity: str
    """`error`, `warning`, `remark` or `note`."""
    text: str
    """The message."""
    line: int | None
    """The line of the module, from 1; None if it is unknown."""
    column: int | None
    """The column of the line, from 1."""


def find_mlir_opt() -> Path:
    """Return the path of `mlir-opt`.

    It is the program that the environment variable `APASS_MLIR_OPT` names, else `mlir-opt` on the PATH, else the
    newest of the versioned programs, such as `mlir-opt-22` or `/usr/lib/llvm-22/bin/mlir-opt`.

    Raises:
        MissingExtraError: if there is none; the message says how to get one.

    """
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise MissingExtraError(f"{VARIABLE} names {named!r}, which is not a program; set it to that of mlir-opt")
        return Path(found)
    found = shutil.which("mlir-opt")
    if found is not None:
        return Path(found)
    candidates = sorted(_versioned_programs(), reverse=True)
    if not candidates:
        raise MissingExtraError(
            f"the passes mlir.* need the program mlir-opt, which was not found; install it (apt install mlir-22-tools, "
            f"brew install llvm, or conda install -c conda-forge mlir), or set {VARIABLE} to its path"
        )
    return candidates[0][1]


def _versioned_programs() -> Iterator[tuple[int, Path]]:
    """Iterate over programs that have a version in their name or folder."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield from _executables(Path(folder or "."), "mlir-opt-*", lambda path: path.name.removeprefix("mlir-opt-"))
    for folder in _FOLDERS:
        yield from _executables(Path(folder), "llvm-*/bin/mlir-opt", lambda path: path.parts[-3].removeprefix("llvm-"))


def _executables(folder: Path, pattern: str, version_of: Callable[[Path], str]) -> Iterator[tuple[int, Path]]:
    for path in folder.glob(pattern):
        version = version_of(path)
        if version.isdecimal() and os.access(path, os.X_OK):
            yield int(version), path


def find_tool(mlir_opt: Path, name: str) -> Path | None:
    """Return another program of the installation that `mlir-opt` belongs to, or None."""
    for folder in dict.fromkeys([mlir_opt.parent, mlir_opt.resolve().parent]):
        for path in (folder / mlir_opt.name.replace("mlir-opt", name), folder / name):
            if path.name.startswith(name) and os.access(path, os.X_OK):
                return path
    return None


def extra_arguments() -> list[str]:
    """Return the arguments in the environment variable `APASS_MLIR_ARGS`.

    They apply to each run, for example `--allow-unregistered-dialect`.
    """
    return shlex.split(os.environ.get(ARGUMENTS, ""))


async def run_request(request: Request) -> Answer:
    """Run `mlir-opt` on a module in a process group of its own.

    The process is killed if the call is cancelled, or if the time limit expires.

    Raises:
        HelperError: if the time limit expired.
        AdapterError: if the program cannot be started, or writes no module.

    """
    # Some passes print to standard output, so the module needs a file of its own.
    with TemporaryDirectory(prefix="apass-mlir-") as folder:
        output = Path(folder, "output.mlir")
        with anyio.move_on_after(request.time_limit):
            try:
                process = await complete_process(_command(request, output), request.data)
            except OSError as error:
                raise _cannot_start(request.program, error) from error
            return replace(_answer(output, process), text=_text_after(output) if request.text_after else "")
    raise _took_too_long(request)


def run_now(request: Request) -> Answer:
    """Run `mlir-opt` on a module, and wait for it without an event loop.

    Raises:
        HelperError: if the time limit expired.
        AdapterError: if the program cannot be started, or writes no module.

    """
    with TemporaryDirectory(prefix="apass-mlir-") as folder:
        output = Path(folder, "output.mlir")
        try:
            process = subprocess.run(
                _command(request, output),
                input=request.data,
                capture_output=True,
                timeout=request.time_limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _took_too_long(request) from None
        except OSError as error:
            raise _cannot_start(request.program, error) from error
        return _answer(output, process)


def _command(request: Request, output: Path) -> list[str]:
    both = (
        ("--emit-bytecode", f"--mlir-print-ir-after={request.text_after}", f"--mlir-print-ir-tree-dir={output.parent}")
        if request.text_after
        else ()
    )
    return [str(request.program), *extra_arguments(), *request.arguments, *both, "-", "-o", str(output)]


def _text_after(output: Path) -> str:
    """Return the last text in the tree of files beside the output."""
    # The names of the files begin with the number of the pass, such as `builtin_module_no-symbol-name/12_cse.mlir`.
    files = sorted(output.parent.glob("*/*.mlir"), key=lambda path: int(path.name.partition("_")[0]))
    # The first line names the pass, and an empty line follows.
    return files[-1].read_text("utf-8").partition("\n")[2].removesuffix("\n") if files else ""


def _answer(output: Path, process: "subprocess.CompletedProcess[bytes]") -> Answer:
    printed = (process.stdout + process.stderr).decode(errors="backslashreplace")
    if process.returncode:
        return Answer(b"", process.returncode, printed)
    try:
        return Answer(output.read_bytes(), 0, printed)
    except FileNotFoundError:
        name = Path(process.args[0]).name
        raise AdapterError(
            f"{name} ended with exit status 0, but wrote no module; is it the program mlir-opt?"
        ) from None


def _cannot_start(program: Path, error: OSError) -> AdapterError:
    return AdapterError(f"{program} cannot be started: {error.strerror or error}; set {VARIABLE} to mlir-opt")


def _took_too_long(request: Request) -> HelperError:
    return HelperError(f"{request.program.name} took longer than its time limit, {request.time_limit:g} s")


def messages(printed: str) -> tuple[list[Message], str]:
    """Return the diagnostics in what `mlir-opt` printed, and the other text.

    The source lines that follow a diagnostic are left out.
    """
    found: list[Message] = []
    others: list[str] = []
    lines = iter(printed.splitlines())
    pending = 0
    for line in lines:
        match = _DIAGNOSTIC.match(line) or _LOCATED_ELSEWHERE.match(line)
        if match is not None:
            groups = match.groupdict()
            row = int(groups.get("line") or 0) or None
            column = int(groups.get("column") or 0) or None
            found.append(Message(groups["severity"] or "", groups["text"] or "", row, column))
            # A line of the source and a line with a caret follow.
            pending = 2 if row else 0
        elif pending:
            pending -= 1
        else:
            others.append(line)
    return found, "\n".join(others).strip()


def failure(answer: Answer, request: Request, source: str) -> AdapterError | HelperError:
    """Return the error for a run that failed.

    Parameters:
        answer: the outcome.
        request: the run.
        source: the name of the module's file; empty if the text has no file.

    """
    program = request.program.name
    if answer.status < 0 or answer.status > 128:
        signal = -answer.status if answer.status < 0 else answer.status - 128
        summary = "".join(f"\n  {line}" for line in _crash_summary(answer.printed))
        return HelperError(f"{program} crashed ({_signal_name(signal)}){summary}")
    found, others = messages(answer.printed)
    errors = [message for message in found if message.severity == "error"] or found[:1]
    if not errors:
        return AdapterError(f"{program} failed with exit status {answer.status}: {others or 'it printed nothing'}")
    first = errors[0]
    text = f"{program}: {first.text}"
    if first.line is not None:
        # The lines of a module in bytecode are those of a text before it.
        lines = [] if request.data.startswith(BYTECODE) else request.data.decode(errors="replace").splitlines()
        place = f"{source or '<module>'}:{first.line}" + (f":{first.column}" if first.column else "")
        text += f"\n  at {place}"
        if first.line <= len(lines):
            text += f"\n  {lines[first.line - 1].strip()}"
    notes = [message.text for message in found if message.severity == "note"][:3]
    return AdapterError("\n".join([text, *(f"  note: {note}" for note in notes)]))


def _crash_summary(printed: str) -> list[str]:
    """Return what `mlir-opt` printed before the stack dump, and its first functions."""
    before, _, dump = printed.partition("Stack dump:")
    reasons = [line for line in before.splitlines() if line.strip() and not line.startswith("PLEASE submit")]
    # Addresses differ from run to run; without them, the messages of equal crashes are equal.
    frames = [match["function"] for match in _FRAME.finditer(dump) if "::" in match["function"]]
    own = [frame for frame in frames if not frame.startswith("llvm::sys::")]
    return [*reasons[-_LAST_LINES:], *(f"in {frame.partition('(')[0]}" for frame in own[:_FRAMES])]


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"exit status {number + 128}"
