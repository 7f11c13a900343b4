"""Errors of a command as one line on standard error and an exit status."""

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from inspect import isabstract
from itertools import chain
from typing import Any, Final, TextIO, cast

import typer

from apass.cli.exit_status import INTERRUPTED, MISUSED, OUTPUT_FAILED
from apass.cli.output_files import OutputError
from apass.cli.terminal import print_error, print_warning, safe_markup, safe_name
from apass.core.places import place_of_error
from apass.core.run import RunNote, is_whereabouts
from apass.core.tracebacks import RemoteTraceback
from apass.errors import (
    ApassError,
    DebugWarning,
    JournalWarning,
    PluginWarning,
    StoreWarning,
    UnknownPassError,
    UnmatchedPassNameWarning,
    has_suggestion,
)
from apass.loading.user_modules import loaded_user_modules
from apass.passes.base import Pass

__all__ = [
    "errors_as_lines",
    "errors_in",
    "failure_text",
    "kind_of",
    "notes_of",
    "rename_in_error",
    "text_of",
    "warnings_as_lines",
]

_OUTPUT_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of a stream whose file or device cannot take more data."""


@contextmanager
def errors_as_lines() -> Generator[None]:
    """Turn errors of apass, Ctrl-C and a full output into a line and a status."""
    try:
        yield
    except OutputError as error:
        print_error(str(error))
        raise typer.Exit(OUTPUT_FAILED) from None
    except ApassError as error:
        where = [note for note in getattr(error, "__notes__", ()) if is_whereabouts(note)]
        print_error(": ".join([*where, f"{error}{_hint(error)}"]))
        raise typer.Exit(MISUSED) from None
    except KeyboardInterrupt as error:
        print_error("interrupted; all files written so far are complete")
        raise typer.Exit(error.args[0] if error.args else INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of the pipe has exited (`apass passes | head`), so there is nowhere to print a message.
        _discard_output()
        raise typer.Exit(OUTPUT_FAILED) from None
    except OSError as error:
        # With a file name, the error is about a file of the run; without one, about the output stream.
        if error.filename is not None:
            print_error(f"cannot use {error.filename}: {error.strerror}")
            raise typer.Exit(OUTPUT_FAILED if error.errno in _OUTPUT_FULL else MISUSED) from None
        if error.errno not in _OUTPUT_FULL:
            raise
        print_error(f"cannot write the output: {error.strerror}")
        _discard_output()
        raise typer.Exit(OUTPUT_FAILED) from None


@contextmanager
def warnings_as_lines() -> Generator[None]:
    """Show each warning as one line, without the source location that Python adds."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        print_warning(str(message))

    with warnings.catch_warnings():
        for kind in (DebugWarning, UnmatchedPassNameWarning, JournalWarning, PluginWarning, StoreWarning):
            warnings.simplefilter("always", kind)
        # Assigning is Python's only hook for this. `catch_warnings` restores the previous function.
        warnings.showwarning = show
        yield


def _hint(error: ApassError) -> str:
    """Return a line on how to load a pass, for an unknown name without suggestion."""
    if not isinstance(error, UnknownPassError):
        return ""
    loaded = [module.name for module in loaded_user_modules()]
    for name in loaded:
        for key, value in vars(sys.modules[name]).items():
            if _is_unregistered_pass(value) and repr(key) in str(error):
                return f"\n  {name}.{key} is a pass, but not registered; put @apass.register_pass above it"
    if has_suggestion(error):
        return ""
    more = f" (loaded: {', '.join(loaded)})" if loaded else ""
    return f"\n  a pass of your own needs --load FILE, where FILE registers it with apass.register_pass{more}"


def _is_unregistered_pass(value: Any) -> bool:
    kind: type[Any] = value if isinstance(value, type) else type(value)
    return issubclass(kind, Pass) and not isabstract(value) and getattr(value, "registered_name", None) is None


def _discard_output() -> None:
    """Redirect standard output to the null device."""
    # Otherwise Python would flush the remaining output at exit, fail again and print a traceback.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def failure_text(name: str, error: BaseException, *, has_traceback: bool = False) -> str:
    """Return the failure of a model as text with markup.

    The first line names the model, and the pass, function and module that failed, if they are known.
    """
    first, *rest = map(safe_markup, _lines(error))
    if has_traceback:
        text = "".join(traceback.format_exception(error))
        rest += [f"    {line}" for line in safe_markup(text).splitlines()]
    return "\n".join([f"[red]failed[/] {safe_name(name)}: {first}", *rest])


def errors_in(error: BaseException) -> Sequence[BaseException]:
    """Return the errors of a group; none for any other error."""
    return cast("BaseExceptionGroup[BaseException]", error).exceptions if isinstance(error, BaseExceptionGroup) else ()


def kind_of(error: BaseException) -> str:
    """Return the name of the class of an error, possibly one of a server."""
    failure = _remote_failure(error)
    return type(error).__name__ if failure is None else str(failure.kind)


def _remote_failure(error: BaseException) -> Any:
    """Return the failure of a job of a server; None for other errors."""
    # By its name: only the commands for servers import its module.
    return getattr(error, "failure", None) if type(error).__name__ == "JobFailedError" else None


def text_of(error: BaseException) -> str:
    """Return the text of an error, or what its `__str__` raised."""
    failure = _remote_failure(error)
    if failure is not None:
        return str(failure.message)
    try:
        return str(error)
    except Exception as raised:  # the class of a user may raise anything
        return f"(its text raised {type(raised).__name__})"


def notes_of(error: BaseException) -> list[str]:
    """Return the notes on an error, without the traceback of a worker."""
    return [str(note) for note in getattr(error, "__notes__", ()) if not isinstance(note, RemoteTraceback)]


def rename_in_error(error: BaseException, renamed: Callable[[str], str]) -> None:
    """Replace names in the texts of an error, its causes and the errors of a group."""
    pending, seen = [error], set[int]()
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        current.args = tuple(renamed(value) if isinstance(value, str) else value for value in current.args)
        notes: list[str] = getattr(current, "__notes__", [])
        notes[:] = [_renamed_note(note, renamed) for note in notes]
        if isinstance(current, OSError) and isinstance(current.filename, str):
            current.filename = renamed(current.filename)
        pending += [*errors_in(current), *filter(None, (current.__cause__, current.__context__))]


def _renamed_note(note: str, renamed: Callable[[str], str]) -> str:
    text = renamed(note)
    if text == note:
        return note
    # A subclass marks the traceback of a worker.
    return type(note)(text, note.run) if isinstance(note, RunNote) else type(note)(text)


def _lines(error: BaseException) -> Iterator[str]:
    """Iterate over the lines of an error, its notes and the errors of a group.

    The note that names pass, function and module comes first. Each level of nesting is indented. The traceback of a
    worker is left out, as those of this process are.
    """
    summary = f"{kind_of(error)}: {text_of(error)}"
    where = [note for note in notes_of(error) if is_whereabouts(note)]
    notes = [note for note in notes_of(error) if not is_whereabouts(note)]
    inner_texts = ["\n".join(_lines(other)) for other in errors_in(error)]
    first, *rest = [*where, summary]
    yield first
    place = None if errors_in(error) else place_of_error(error)
    if place is not None:
        notes.insert(0, f"at {place}")
    for text in chain(rest, notes, inner_texts):
        yield from (f"    {line}" for line in text.splitlines())
