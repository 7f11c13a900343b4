"""`Failure`: an exception on its way from a worker, with notes and traceback."""

import os
import pickle
import traceback
from dataclasses import dataclass

from apass.errors import RemoteError

__all__ = ["Failure", "failure_of"]


@dataclass(frozen=True, slots=True)
class Failure:
    """What was raised elsewhere."""

    pickled: bytes | None
    """The exception; None if it cannot be rebuilt from bytes."""
    summary: str
    """Its type and message."""
    notes: tuple[str, ...]
    """Its notes."""
    trace: str
    """Its traceback, and where it was."""

    def error(self) -> BaseException:
        """Return the exception, with its notes and a note that holds the traceback; a RemoteError if it cannot be."""
        error = _rebuilt(self.pickled) or RemoteError(self.summary)
        error.__notes__ = [*self.notes, self.trace]
        return error


def failure_of(error: BaseException) -> Failure:
    """Return `error` as it goes to another process."""
    # A note may be more than text: those of apass know the run that they are about.
    notes = tuple(str.__str__(note) for note in getattr(error, "__notes__", ()))
    summary = f"{type(error).__name__}: {error}"
    # The first frame is the executor's own.
    frames = error.__traceback__ and error.__traceback__.tb_next
    lines = traceback.format_exception(type(error), error, frames)
    trace = f"raised in process {os.getpid()}:\n{''.join(lines).rstrip()}"
    if hasattr(error, "__notes__"):
        error.__notes__ = list(notes)
    return Failure(_pickled(error), summary, notes, trace)


def _pickled(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
    except Exception:  # pickling calls what the exception brings along
        return None
    same = _rebuilt(data)
    return data if same is not None and str(same) == str(error) else None


def _rebuilt(data: bytes | None) -> BaseException | None:
    try:
        error = None if data is None else pickle.loads(data)
    except Exception:  # many exceptions cannot be made from their own `args`
        return None
    return error if isinstance(error, BaseException) else None
