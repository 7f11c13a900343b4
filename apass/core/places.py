"""`Place`: a line of the user's code, of a frame or of an error."""

import os
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Final

from apass.core.tracebacks import RemoteTraceback, is_event_loop_frame, is_runner_frame

__all__ = ["LIBRARIES", "OWN", "Place", "place_of_error", "place_of_frame"]

OWN: Final = str(Path(__file__).parents[1]) + os.sep
"""The folder of apass."""

LIBRARIES: Final = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {"<"}
)
"""The start of the names of files that are not the user's."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file."""

    file: str
    """The path of the file."""
    line: int
    """The number of the line, from 1."""

    def __str__(self) -> str:
        """Return `file:line`; the file is relative if it is in the current directory."""
        file = Path(self.file)
        return f"{file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}:{self.line}"


def place_of_frame(frame: FrameType | None) -> Place | None:
    """Return where a body is that runs in a frame; None if no body does.

    It is the innermost line of the user. If the frames of the body are all in libraries, it is a line of the body.
    """
    # Outwards, from the innermost frame to the runner's, which has called the body.
    body: FrameType | None = None
    while frame is not None and not is_runner_frame(frame):
        if not frame.f_code.co_filename.startswith(LIBRARIES):
            return Place(frame.f_code.co_filename, frame.f_lineno)
        body, frame = frame, frame.f_back
    # The runner calls the event loop too.
    is_body = body is not None and frame is not None and not is_event_loop_frame(body)
    return Place(body.f_code.co_filename, body.f_lineno) if is_body and body is not None else None


def place_of_error(error: BaseException) -> Place | None:
    """Return the innermost line of the user that raised an error, or None.

    An error of a worker has its traceback in a note. An exceeded time limit is at the line that was cancelled.
    """
    # The cause of an error is looked at if the error has no line of the user: apass may have wrapped it.
    current: BaseException | None = error
    seen = set[int]()
    # An error may be its own cause.
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        places = [Place(frame.f_code.co_filename, line) for frame, line in walk_tb(current.__traceback__)]
        for note in getattr(current, "__notes__", ()):
            if isinstance(note, RemoteTraceback):
                places += [Place(file, int(line)) for file, line in _LINE.findall(note)]
        of_user = [place for place in places if not place.file.startswith((*LIBRARIES, OWN))]
        if of_user:
            return of_user[-1]
        current = current.__cause__
    return None


_LINE: Final = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)
"""A line of a traceback as text."""
