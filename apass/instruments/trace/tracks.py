"""Assigns spans to trace tracks.

Concurrent spans get separate tracks. A nested span shares the track of its parent.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

__all__ = ["TimelineSpan", "Track", "TrackGroup"]


class TimelineSpan:
    """A running pass or function body. Times are in microseconds of trace time."""

    __slots__ = (
        "_begun_below",
        "_is_quiet",
        "_until",
        "args",
        "begin",
        "group",
        "kind",
        "name",
        "open_below",
        "parent",
        "subject",
        "track",
    )

    track: "Track"
    """The track that shows the span."""

    def __init__(
        self,
        name: str,
        kind: str,
        group: "TrackGroup",
        parent: "TimelineSpan | None",
        subject: object,
        args: dict[str, Any],
    ) -> None:
        self.name: str = name
        """The label of the span."""
        self.kind: str = kind
        """`"pass"` or `"function"`."""
        self.group: TrackGroup = group
        """The tracks of the run of a module that the span belongs to."""
        self.parent: TimelineSpan | None = parent
        """The span that started it, or None."""
        self.subject: object = subject
        """The module or the function that it received."""
        self.args: dict[str, Any] = args
        """The arguments that the trace shows with the span."""
        self.begin: float = 0.0
        """The start time. A span that is moved to another track gets a new one."""
        self.open_below: int = 0
        """Number of spans it has started that have not ended."""
        self._until: float | None = None
        self._is_quiet = False
        self._begun_below: float | None = None

    def wait_before(self, begin: float, end: float) -> tuple[float, float] | None:
        """Record a step, and return the wait of this span itself before it.

        Time in which inner spans were open is not part of the wait. None if the step was recorded before.
        """
        until, is_quiet, first = self._until, self._is_quiet, self._begun_below
        if until is not None and end <= until:
            return None
        self._until, self._is_quiet, self._begun_below = end, self.open_below == 0, None
        if until is None or not is_quiet:
            return (begin, begin)
        return max(until, self.begin), begin if first is None else min(begin, first)

    def begin_below(self, now: float) -> None:
        """Record that this span started another one."""
        self.open_below += 1
        if self._begun_below is None:
            self._begun_below = now

    def end_below(self, now: float) -> None:
        """Record that a span that this one started has ended."""
        self.open_below -= 1
        # If a wait began before the first inner span, the next step must show its part up to that span.
        if self.open_below == 0 and self._until is not None and not self._is_quiet:
            self._until, self._is_quiet, self._begun_below = max(now, self._until), True, None


class Track:
    """A row of the timeline: spans that are nested in each other."""

    __slots__ = ("number", "stack", "tid")

    def __init__(self, number: int, tid: int) -> None:
        self.number: int = number
        """The track's index in its group."""
        self.tid: int = tid
        """The track's number in the whole trace."""
        self.stack: list[TimelineSpan] = []
        """The open spans, outermost first."""

    def above(self, span: TimelineSpan) -> list[TimelineSpan]:
        """Return the open spans within a span, outermost first."""
        return self.stack[self.stack.index(span) + 1 :] if self.stack[-1] is not span else []

    def pop(self, span: TimelineSpan, cut: Sequence[TimelineSpan]) -> None:
        """Remove a span and the spans above it."""
        del self.stack[len(self.stack) - len(cut) - 1 :]


class TrackGroup:
    """The tracks of one run of a module."""

    def __init__(self, module: str | None, number: int) -> None:
        self.module = module
        """The name of the module."""
        self.number = number
        """The number of the group."""
        self._tracks: list[Track] = []
        self._free: list[int] = []
        self._open = 0

    @property
    def is_idle(self) -> bool:
        """Whether the group has no open span."""
        return self._open == 0

    def track_name(self, track: Track) -> str:
        """Return the label of a track."""
        name = "no module name" if self.module is None else self.module
        return name if track.number == 0 else f"{name} ({track.number + 1})"

    def track_for(self, span: TimelineSpan) -> Track | None:
        """Return a track for a span, or None if all tracks are in use.

        A span goes to its parent's track if the parent is the innermost span there. Otherwise it gets a free track.
        """
        parent = span.parent
        if parent is not None and parent.group is self and parent.track.stack[-1] is parent:
            return parent.track
        return self.free_track()

    def free_track(self) -> Track | None:
        """Take the first track without spans, or return None if all tracks are in use."""
        return self._tracks[heappop(self._free)] if self._free else None

    def add_track(self, tid: int) -> Track:
        """Add a track and return it."""
        track = Track(len(self._tracks), tid)
        self._tracks.append(track)
        return track

    def open(self, span: TimelineSpan, track: Track) -> None:
        """Push a span onto a track."""
        span.track = track
        track.stack.append(span)
        self._open += 1
        if span.parent is not None:
            span.parent.begin_below(span.begin)

    def move(self, spans: Sequence[TimelineSpan], track: Track, now: float) -> None:
        """Move spans to an empty track."""
        for span in spans:
            span.track, span.begin = track, now
            track.stack.append(span)

    def close(self, span: TimelineSpan, now: float) -> None:
        """Count a span that has been removed from its track."""
        self._open -= 1
        if not span.track.stack:
            heappush(self._free, span.track.number)
        if span.parent is not None:
            span.parent.end_below(now)
