"""Tracebacks that show the frames of the user, without the runner's."""

import os
from collections.abc import Callable, Iterator
from itertools import zip_longest
from operator import methodcaller
from types import FrameType, TracebackType
from typing import Any, Final, cast

from apass.errors import ApassError

__all__ = [
    "RemoteTraceback",
    "hidden_assertion",
    "hidden_in_pytest",
    "hide_runner_frames",
    "is_event_loop_frame",
    "is_runner_frame",
]

_RUNNER: Final = frozenset(
    f"apass.{part}"
    for part in ("batch", "cli", "concurrency", "core", "executors", "external", "passes", "runner", "sync")
)
"""The folders and modules between the caller of a pass and its body."""

_EVENT_LOOP: Final = frozenset(("anyio", "asyncio", "concurrent", "contextlib", "outcome", "trio"))
"""Packages whose frames belong to the runner if the runner has called them. The user may call anyio too."""

hidden_in_pytest: Final[Callable[[Any], bool]] = methodcaller("errisinstance", ApassError)
"""The `__tracebackhide__` of modules that raise errors about a mistake in a pass.

Pytest calls it, and hides the frame unless the error is another one, which may be a bug of apass.
"""

hidden_assertion: Final[Callable[[Any], bool]] = methodcaller("errisinstance", (AssertionError, ApassError))
"""The `__tracebackhide__` of modules that check assertions about passes, for the test of the user."""


class RemoteTraceback(str):
    """The note on an error of a worker that holds its traceback there."""

    __slots__ = ()


def hide_runner_frames(error: BaseException) -> None:
    """Remove the frames of the runner from the traceback of an error.

    The errors of a group, and the errors that an error was raised from, are treated too. The frames of the caller, of
    bodies, hooks, analyses, adapters and instruments remain. If the runner itself raised the error:

    - An `ApassError`, a group of errors, or the error of a worker keeps the innermost frame.
    - Any other error may be a bug of apass, and keeps all frames below the last frame of the user.

    If the environment variable APASS_TRACEBACK is `full`, this has no effect.

    Call it in an `except` block before a plain `raise`, which then adds no entry for the frame that catches the error.
    """
    if os.environ.get("APASS_TRACEBACK") == "full":
        return
    pending, seen = [error], set[int]()
    while pending:
        current = pending.pop()
        # An error may be its own cause, or the context of several members of a group.
        if id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = _shortened(current.__traceback__, is_bug=not _is_deliberate(current))
        if isinstance(current, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", current).exceptions
        pending += (other for other in (current.__cause__, current.__context__) if other is not None)


def is_runner_frame(frame: FrameType) -> bool:
    """Return whether a frame belongs to the runner, not to a pass or its caller."""
    # By module name, not by path: it is the same in a zip file, and for a package that is installed as editable.
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith("apass.") and ".".join(name.split(".", 2)[:2]) in _RUNNER


def is_event_loop_frame(frame: FrameType) -> bool:
    """Return whether a frame belongs to an event loop or a library for it."""
    return frame.f_globals.get("__name__", "").partition(".")[0] in _EVENT_LOOP


def _is_deliberate(error: BaseException) -> bool:
    """Return whether an error that the runner raised cannot be a bug of apass."""
    notes: list[object] = getattr(error, "__notes__", [])
    is_remote = any(isinstance(note, RemoteTraceback) for note in notes)
    return is_remote or isinstance(error, ApassError | BaseExceptionGroup)


def _shortened(entry: TracebackType | None, *, is_bug: bool) -> TracebackType | None:
    """Unlink the entries of the runner, and return the first of the others."""
    # The entries are relinked, not copied: `flatten_errors` compares the innermost ones by identity.
    kept: list[TracebackType] = []
    latest: list[TracebackType] = []
    for current in _entries(entry):
        frame = current.tb_frame
        if is_runner_frame(frame) or (latest and is_event_loop_frame(frame)):
            latest.append(current)
        else:
            latest.clear()
            kept.append(current)
    kept += latest if is_bug else latest[-1:]
    for current, following in zip_longest(kept, kept[1:]):
        current.tb_next = following
    return kept[0] if kept else None


def _entries(entry: TracebackType | None) -> Iterator[TracebackType]:
    while entry is not None:
        yield entry
        entry = entry.tb_next
