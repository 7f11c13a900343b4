"""`ExecOnChange`: runs a command after each pass that changed a module."""

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from os import cpu_count
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO, cast

import anyio
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from apass.concurrency.processes.command import complete_process
from apass.core.adapter import adapter_for, run_in_thread_if_safe, suffix_of
from apass.core.instrument import pass_instrument
from apass.core.ir_plugin import plugin_for
from apass.core.pass_info import PassInfo
from apass.core.run import current_module_name
from apass.instruments.support.printing import PrintsChanges, module_suffix, pass_title
from apass.util.printable import for_file

__all__ = ["ExecOnChange"]

_PLACEHOLDER: Final = re.compile(r"\{(before|after|before_model|after_model|pass|module)\}")
_KEYS: Final = ("before", "after")
_LIMITER: RunVar[anyio.CapacityLimiter] = RunVar("apass_exec_on_change")
"""Limits the commands that run at once in an event loop to the number of CPUs."""


@pass_instrument
class ExecOnChange(PrintsChanges):
    """Runs a command after each pass that made a change; LLVM's `-exec-on-ir-change`.

    The words of the command may contain placeholders:

    - `{before}` and `{after}`: files with the text of the module before and after the pass;
    - `{before_model}` and `{after_model}`: files with the module in its own format, such as `.onnx`, which is the first
      suffix of the `IRPlugin`. Without suffixes, they hold the bytes of the adapter's `dumps`;
    - `{pass}` and `{module}`: the names of the pass and of the module. A module without a name has the name "".

    If no word contains a placeholder, `{before} {after} {pass}` are appended. No shell is used.

    The output of the command, with its standard error, is printed under a heading, in one write. A command without
    output that exits with status 0 prints nothing. An exit status that is not 0 is shown in the heading and is no
    error, because `diff` exits with 1 if files differ.

    The pass waits for the command, but the event loop does not. If the run is cancelled, the command is killed with the
    processes that it started. A composite pass runs the command for changes that it made itself only.

    Parameters:
        command: the program and its arguments, as a list.
        names: names of passes; None selects all. Here and in the next two, `*` and `?` match any characters.
        file: the output file. By default, the `sys.stdout` at the time of printing.
        modules: names of modules; None selects all.
        functions: names of functions. If given, the texts contain these functions only.

    Raises:
        TypeError: if the command is a string, or names are a string, or contain an item that is no string.
        FileNotFoundError: if the program is not found or is not executable.

    >>> import apass, sys
    >>> Halve = apass.module_pass(lambda mod, ctx: {"f": mod["f"] // 2}, opt_level=0, name="Halve")
    >>> command = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read(), end='')", "{after}"]
    >>> context = apass.PassContext(instruments=[ExecOnChange(command)])
    >>> result = apass.run(apass.Sequential([Halve]), {"f": 8}, context=context)
    Command after: Halve
    f: 4
    <BLANKLINE>

    """

    def __init__(
        self,
        command: Sequence[str | Path],
        names: Iterable[str] | None = None,
        file: TextIO | None = None,
        *,
        modules: Iterable[str] | None = None,
        functions: Iterable[str] | None = None,
    ) -> None:
        super().__init__(names, file, modules, functions)
        self._command = _checked(command)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        chosen = self._selection
        return partial(
            ExecOnChange,
            self._command,
            chosen.passes,
            self.memory(),
            modules=chosen.modules,
            functions=chosen.functions,
        )

    async def _print_change(self, before: Any, after: Any, info: PassInfo) -> None:
        texts = [await _read(module, self._selection.text) for module in (before, after)]
        if texts[0] == texts[1]:
            return
        values = {"pass": info.name, "module": current_module_name() or ""}
        async with _limiter(), _temporary_folder() as folder:
            for key, module, text in zip(_KEYS, (before, after), texts, strict=True):
                path = folder / f"{key}.txt"
                await run_sync(path.write_bytes, _with_line_end(text))
                values[key] = str(path)
                if any(f"{{{key}_model}}" in word for word in self._command):
                    values[f"{key}_model"] = str(await _write_model(module, folder / f"{key}_model"))
            words = [_PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in self._command]
            process = await complete_process(words)
        output = (process.stdout + process.stderr).decode(errors="backslashreplace").removesuffix("\n")
        if not output and not process.returncode:
            return
        heading = f"Command after: {pass_title(info)}{module_suffix()}{_outcome(process.returncode)}"
        file = self.output
        # A single write, because other tasks and threads may print to the same file.
        file.write(for_file("\n".join(filter(None, (heading, output))) + "\n\n", file))


def _checked(command: object) -> Sequence[str]:
    """Return the words of a command, with placeholders."""
    if isinstance(command, str | bytes) or not isinstance(command, Sequence) or not command:
        raise TypeError(f"command must be a list of a program and its arguments, got {command!r}")
    words = list(map(str, cast("Sequence[object]", command)))
    if which(words[0]) is None:
        raise FileNotFoundError(f"the command {words[0]!r} is no program on PATH, and no executable file")
    has_placeholder = any(map(_PLACEHOLDER.search, words))
    return words if has_placeholder else [*words, "{before}", "{after}", "{pass}"]


@asynccontextmanager
async def _temporary_folder() -> AsyncGenerator[Path]:
    """Create a folder, and remove it at the end of the block."""
    folder = await run_sync(partial(TemporaryDirectory[str], prefix="apass-"))
    try:
        yield Path(folder.name)
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(folder.cleanup)


async def _write_model(mod: Any, stem: Path) -> Path:
    """Write a module in its own format, and return the path: `stem` with a suffix."""
    plugin = plugin_for(mod)
    path = stem.with_suffix(plugin.suffixes[0] if plugin.suffixes else suffix_of(plugin.adapter))
    await _read(mod, partial(plugin.write, path=path))
    return path


async def _read(mod: Any, read: Callable[[Any], Any]) -> Any:
    """Call a function that reads a module, in a thread if the IR is thread-safe."""
    return await run_in_thread_if_safe(adapter_for(mod), mod, partial(read, mod))


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(cpu_count() or 1)
        _LIMITER.set(limiter)
        return limiter


def _with_line_end(text: str) -> bytes:
    # Without it, diff adds the line "No newline at end of file".
    return (text if text.endswith("\n") else f"{text}\n").encode(errors="backslashreplace")


def _outcome(status: int) -> str:
    """Return the exit status for the end of a heading; "" if it is 0."""
    if status < 0:
        return f", killed by signal {-status}"
    return f", exit status {status}" if status else ""
