"""`SerializedError`: an exception from a worker, with notes and traceback."""

import os
import pickle
import traceback
from dataclasses import dataclass

from apass.core.tracebacks import RemoteTraceback, hide_runner_frames
from apass.errors import RemoteError
from apass.executors.pickling import pickled
from apass.util.text import text_of_error

__all__ = ["SerializedError", "failure_of"]


@dataclass(frozen=True, slots=True)
class SerializedError:
    """An exception that was raised in a worker."""

    pickled: bytes | None
    """The pickled exception, or None if it does not survive pickling."""
    summary: str
    """The type and message of the exception."""
    notes: tuple[str, ...]
    """The notes of the exception."""
    trace: str
    """The traceback and the process id."""

    def error(self) -> BaseException:
        """Return the exception, with its notes and the worker's traceback as a note.

        If the exception cannot be unpickled, return a RemoteError.
        """
        error = _unpickle(self.pickled) or RemoteError(self.summary)
        error.__notes__ = [*self.notes, RemoteTraceback(self.trace)]
        return error


def failure_of(error: BaseException) -> SerializedError:
    """Serialize `error`."""
    # Notes of apass are a subclass of str that refers to the run. Send their text only.
    original: list[str] = getattr(error, "__notes__", [])
    notes = tuple(str.__str__(note) for note in original)
    summary = f"{type(error).__name__}: {text_of_error(error)}"
    hide_runner_frames(error)
    trace = f"raised in process {os.getpid()}:\n{''.join(traceback.format_exception(error)).rstrip()}"
    if not original:
        return SerializedError(_pickle(error), summary, notes, trace)
    error.__notes__ = list(notes)
    try:
        return SerializedError(_pickle(error), summary, notes, trace)
    finally:
        error.__notes__ = original


def _pickle(error: BaseException) -> bytes | None:
    try:
        data = pickled(error)
    except Exception:  # `__reduce__` of the exception may raise any exception
        return None
    copy = _unpickle(data)
    return data if copy is not None and text_of_error(copy) == text_of_error(error) else None


def _unpickle(data: bytes | None) -> BaseException | None:
    try:
        error = None if data is None else pickle.loads(data)
    except Exception:  # exceptions whose `__init__` takes other arguments than `args` fail here
        return None
    return error if isinstance(error, BaseException) else None
