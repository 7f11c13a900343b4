"""The programs of LLVM and MLIR: where they are, how they run, what they print."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from apass.concurrency.processes.command import complete_process
from apass.concurrency.run_locals import RunLocal
from apass.errors import AdapterError, HelperError, MissingExtraError

__all__ = [
    "BINARY",
    "MLIR_OPT",
    "OPT",
    "RUN_FLAGS",
    "TIME_LIMIT",
    "Answer",
    "Message",
    "Request",
    "Tool",
    "failure",
    "messages",
    "run_now",
    "run_request",
]

BINARY: Final = (b"ML\xefR", b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
"""The first bytes of MLIR bytecode and of LLVM bitcode, the latter plain or in a wrapper."""

TIME_LIMIT: Final = 600.0
"""Seconds that one run may take by default."""

_SECONDS: Final = 60.0
"""Time limit of each run that lists passes."""

RUN_FLAGS: Final[RunLocal[tuple[str, ...] | None]] = RunLocal("run_flags", None)
"""Options of each run of a pass, besides those of the environment, on a command line of the program.

The program's messages are then printed to standard error as they are. None on other command lines.
"""

_FOLDERS: Final = "/usr/lib", "/usr/local/lib", "/opt"
"""Folders with installations such as `llvm-22/bin`, which are not on the PATH."""

_LAST_LINES: Final = 5
"""How many lines of output a message about a crash contains."""

_FRAMES: Final = 4
"""How many functions of the stack a message about a crash contains."""

_FRAME: Final = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ (?P<function>.+)$", re.MULTILINE)
_SEVERITY: Final = r"(?P<severity>error|warning|remark|note)"
_PLACE: Final = r"(?P<file><stdin>|<unknown>|-|[^\s:][^:\n]*?)(?::(?P<line>\d+)(?::(?P<column>\d+))?)?"
_DIAGNOSTICS: Final = (
    # `mlir-opt` writes the first form, `opt` the first with its own name before it, or the second one.
    re.compile(rf"^(?:\S*opt[\w.+-]*: )?{_PLACE}: {_SEVERITY}: (?P<text>.*)$"),
    re.compile(rf"^{_SEVERITY}: {_PLACE}: (?P<text>.*)$"),
    re.compile(rf"^loc\(.*\): {_SEVERITY}: (?P<text>.*)$"),
)
_VERSION_IN_PATH: Final = re.compile(r"/llvm-?(\d+)[/.]")


@dataclass(frozen=True, slots=True)
class Tool:
    """A program whose passes apass runs."""

    name: str
    """The name of the program without a version."""
    variable: str
    """The environment variable that names the program."""
    arguments: str
    """The environment variable with further arguments of each run."""
    purpose: str
    """What needs the program, for messages."""
    packages: str
    """How to install it, for messages."""
    oldest: int = 0
    """The oldest version of LLVM whose program is used, if its path has a version."""

    def find(self) -> Path:
        """Return the path of the program.

        It is the one that the environment variable names, else that on the PATH, else the newest of the versioned
        programs, such as `mlir-opt-22` or `/usr/lib/llvm-22/bin/mlir-opt`.

        Raises:
            MissingExtraError: if there is none; the message says how to get one.

        """
        named = os.environ.get(self.variable)
        if named:
            found = shutil.which(named)
            if found is None:
                raise MissingExtraError(
                    f"{self.variable} names {named!r}, which is not a program; set it to that of {self.name}"
                )
            return Path(found)
        found = shutil.which(self.name)
        if found is not None and self._is_new_enough(Path(found)):
            return Path(found)
        candidates = sorted(self._versioned(), reverse=True)
        if not candidates:
            raise MissingExtraError(
                f"{self.purpose} need the program {self.name}, which was not found; install it ({self.packages}), "
                f"or set {self.variable} to its path"
            )
        return candidates[0][1]

    def sibling(self, program: Path, name: str) -> Path | None:
        """Return another program of the same installation, or None."""
        for folder in dict.fromkeys([program.parent, program.resolve().parent]):
            for path in (folder / program.name.replace(self.name, name), folder / name):
                if path.name.startswith(name) and os.access(path, os.X_OK):
                    return path
        return None

    def extra_arguments(self) -> list[str]:
        """Return the further arguments of each run, from an environment variable."""
        return shlex.split(os.environ.get(self.arguments, ""))

    def output_of(self, program: Path, arguments: Sequence[str], text: str = "") -> tuple[int, str]:
        """Return the exit status and the output of a run that lists passes.

        Raises:
            AdapterError: if the program cannot be started, or exceeds a time limit.

        """
        command = [str(program), *self.extra_arguments(), *arguments]
        try:
            done = subprocess.run(
                command,
                input=text.encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AdapterError(f"{program} cannot list its passes: {error}") from error
        return done.returncode, done.stdout.decode(errors="replace")

    def _is_new_enough(self, path: Path) -> bool:
        # Debian's `opt` is a link to that of an old version, beside newer versioned ones.
        version = _VERSION_IN_PATH.search(str(path.resolve()))
        return version is None or int(version[1]) >= self.oldest

    def _versioned(self) -> Iterator[tuple[int, Path]]:
        """Iterate over programs that have a version in their name or folder."""
        name = self.name
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            yield from self._executables(Path(folder or "."), f"{name}-*", lambda path: path.name[len(name) + 1 :])
        for folder in _FOLDERS:
            pattern = f"llvm-*/bin/{name}"
            yield from self._executables(Path(folder), pattern, lambda path: path.parts[-3].removeprefix("llvm-"))

    def _executables(self, folder: Path, pattern: str, version_of: Callable[[Path], str]) -> Iterator[tuple[int, Path]]:
        for path in folder.glob(pattern):
            version = version_of(path)
            if version.isdecimal() and int(version) >= self.oldest and os.access(path, os.X_OK):
                yield int(version), path


MLIR_OPT: Final = Tool(
    "mlir-opt",
    "APASS_MLIR_OPT",
    "APASS_MLIR_ARGS",
    "the passes mlir.*",
    "apt install mlir-22-tools, brew install llvm, or conda install -c conda-forge mlir",
)
"""The program that runs the passes of MLIR."""

OPT: Final = Tool(
    "opt",
    "APASS_LLVM_OPT",
    "APASS_LLVM_ARGS",
    "these passes llvm.*",
    "apt install llvm-22, brew install llvm, or conda install -c conda-forge llvm-tools",
    oldest=18,
)
"""The program that runs the passes of LLVM. Older ones write no text beside bitcode."""


@dataclass(frozen=True, slots=True)
class Request:
    """One run of a program on a module."""

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
    tool: Tool = MLIR_OPT
    """What the program is one of."""
    path: str = "-"
    """The file that the program reads in place of `data`, which is then for messages."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a run."""

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
    """A diagnostic of a program."""

    severity: str
    """`error`, `warning`, `remark` or `note`."""
    text: str
    """The message."""
    line: int | None
    """The line of the module, from 1; None if it is unknown."""
    column: int | None
    """The column of the line, from 1."""


async def run_request(request: Request) -> Answer:
    """Run a program on a module, in a process group of its own.

    The process is killed if the call is cancelled, or if the time limit expires.

    Raises:
        HelperError: if the time limit expired.
        AdapterError: if the program cannot be started, or writes no module.

    """
    # Some passes print to standard output, so the module needs a file of its own.
    with TemporaryDirectory(prefix="apass-") as folder:
        output = Path(folder, "output")
        with anyio.move_on_after(request.time_limit):
            try:
                given = request.data if request.path == "-" else b""
                process = await complete_process(_command(request, output), given)
            except OSError as error:
                raise _cannot_start(request, error) from error
            answer = _answer(output, process, request)
            return replace(answer, text=_text_after(output)) if request.text_after else answer
    raise _took_too_long(request)


def run_now(request: Request) -> Answer:
    """Run a program on a module, and wait for it without an event loop.

    Raises:
        HelperError: if the time limit expired.
        AdapterError: if the program cannot be started, or writes no module.

    """
    with TemporaryDirectory(prefix="apass-") as folder:
        output = Path(folder, "output")
        try:
            process = subprocess.run(
                _command(request, output),
                input=request.data if request.path == "-" else b"",
                capture_output=True,
                timeout=request.time_limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _took_too_long(request) from None
        except OSError as error:
            raise _cannot_start(request, error) from error
        return _answer(output, process, request)


def _command(request: Request, output: Path) -> list[str]:
    both: tuple[str, ...] = ()
    if request.text_after:
        folder, pass_ = output.parent, request.text_after
        both = (
            ("--emit-bytecode", f"--mlir-print-ir-after={pass_}", f"--mlir-print-ir-tree-dir={folder}")
            if request.tool is MLIR_OPT
            # Without the order of uses, later passes may have another result.
            else ("-preserve-bc-uselistorder", f"-print-after={pass_}", f"-ir-dump-directory={folder}")
        )
    tool = request.tool
    flags = (RUN_FLAGS.get() or ()) if request.program.name.startswith(tool.name) else ()
    extra = (*tool.extra_arguments(), *flags)
    return [str(request.program), *extra, *request.arguments, *both, request.path, "-o", str(output)]


def _text_after(output: Path) -> str:
    """Return the last text that was dumped beside the output."""
    # The names begin with the number of the pass: `builtin_module_no-symbol-name/12_cse.mlir`, `7-0a1b-module-X.ll`.
    # Not `glob`, which takes a millisecond.
    files = [Path(folder, name) for folder, _, names in os.walk(output.parent) for name in names if name != output.name]
    last = max(files, key=lambda path: int(re.split("[_-]", path.name)[0]), default=None)
    # The first line names the pass. mlir-opt writes an empty line at the end.
    if last is None:
        return ""
    text = last.read_bytes().decode("utf-8", "surrogateescape").partition("\n")[2]
    return text.removesuffix("\n") if last.suffix == ".mlir" else text


def _answer(output: Path, process: "subprocess.CompletedProcess[bytes]", request: Request) -> Answer:
    printed = (process.stdout + process.stderr).decode(errors="backslashreplace")
    if process.returncode:
        return Answer(b"", process.returncode, printed)
    try:
        return Answer(output.read_bytes(), 0, printed)
    except FileNotFoundError:
        name = Path(process.args[0]).name
        raise AdapterError(
            f"{name} ended with exit status 0, but wrote no module; is it the program {request.tool.name}?"
        ) from None


def _cannot_start(request: Request, error: OSError) -> AdapterError:
    tool = request.tool
    return AdapterError(
        f"{request.program} cannot be started: {error.strerror or error}; set {tool.variable} to {tool.name}"
    )


def _took_too_long(request: Request) -> HelperError:
    return HelperError(f"{request.program.name} took longer than its time limit, {request.time_limit:g} s")


def messages(printed: str) -> tuple[list[Message], str]:
    """Return the diagnostics in what a program printed, and the other text.

    The source lines that follow a diagnostic are left out.
    """
    found: list[Message] = []
    others: list[str] = []
    lines = iter(printed.splitlines())
    pending = 0
    for line in lines:
        match = next(filter(None, (pattern.match(line) for pattern in _DIAGNOSTICS)), None)
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
    if first.line is None and others:
        # The verifier of LLVM prints the reason before.
        text += "".join(f"\n  {line}" for line in others.splitlines()[:_LAST_LINES])
    if first.line is not None:
        # The lines of a module in bytecode are those of a text before it.
        lines = [] if request.data.startswith(BINARY) else request.data.decode(errors="replace").splitlines()
        place = f"{source or '<module>'}:{first.line}" + (f":{first.column}" if first.column else "")
        text += f"\n  at {place}"
        if first.line <= len(lines):
            text += f"\n  {lines[first.line - 1].strip()}"
    notes = [message.text for message in found if message.severity == "note"][:3]
    return AdapterError("\n".join([text, *(f"  note: {note}" for note in notes)]))


def _crash_summary(printed: str) -> list[str]:
    """Return what a program printed before the stack dump, and its first functions."""
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
