"""Lanes of a timeline: what runs at the same time stands side by side, what is nested stands within; for traces."""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

__all__ = ["Group", "Lane", "Span"]


class Span:
    """A pass or a body at work. Times are in microseconds since the trace began."""

    __slots__ = (
        "_begun_below",
        "_is_quiet",
        "_until",
        "begin",
        "group",
        "kind",
        "lane",
        "name",
        "open_below",
        "parent",
        "subject",
        "told",
    )

    lane: "Lane"
    """Where it stands."""

    def __init__(
        self, name: str, kind: str, group: "Group", parent: "Span | None", subject: object, told: dict[str, Any]
    ) -> None:
        self.name = name
        """What it is called."""
        self.kind = kind
        """`"pass"` or `"function"`."""
        self.group = group
        """The run of a module that it belongs to."""
        self.parent = parent
        """What began it."""
        self.subject = subject
        """What it was given."""
        self.told = told
        """What is shown with it."""
        self.begin = 0.0
        """When it began; later, if it had to move to another lane."""
        self.open_below = 0
        """How many spans it has begun that have not ended."""
        self._until: float | None = None
        self._is_quiet = False
        self._begun_below: float | None = None

    def wait_before(self, begin: float, end: float) -> tuple[float, float] | None:
        """Note a step, and return for how long the span alone waited before it; None if the step was told before."""
        until, is_quiet, first = self._until, self._is_quiet, self._begun_below
        if until is not None and end <= until:
            return None
        self._until, self._is_quiet, self._begun_below = end, self.open_below == 0, None
        if until is None or not is_quiet:
            return (begin, begin)
        return max(until, self.begin), begin if first is None else min(begin, first)

    def begin_below(self, now: float) -> None:
        """Note that it began another."""
        self.open_below += 1
        if self._begun_below is None:
            self._begun_below = now

    def end_below(self, now: float) -> None:
        """Note that another which it began has ended."""
        self.open_below -= 1
        # Where it was quiet before, the wait up to the first that it began is yet to be shown, at the next step.
        if self.open_below == 0 and self._until is not None and not self._is_quiet:
            self._until, self._is_quiet, self._begun_below = max(now, self._until), True, None


class Lane:
    """One line of the timeline: spans that lie within each other."""

    __slots__ = ("number", "stack", "tid")

    def __init__(self, number: int, tid: int) -> None:
        self.number = number
        """Its place among the lanes of its group."""
        self.tid = tid
        """Its number among all lanes."""
        self.stack: list[Span] = []
        """What is open, the outermost first."""

    def above(self, span: Span) -> list[Span]:
        """Return what is open within a span, the outermost first."""
        return self.stack[self.stack.index(span) + 1 :] if self.stack[-1] is not span else []

    def pop(self, span: Span, cut: Sequence[Span]) -> None:
        """Take a span away, and what is above it."""
        del self.stack[len(self.stack) - len(cut) - 1 :]


class Group:
    """The lanes of one run of a module."""

    def __init__(self, module: str | None, number: int) -> None:
        self.module = module
        """The name of the module."""
        self.number = number
        """Its number among the groups."""
        self._lanes: list[Lane] = []
        self._free: list[int] = []
        self._open = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open."""
        return self._open == 0

    def lane_name(self, lane: Lane) -> str:
        """Return what a lane is called."""
        name = "no module name" if self.module is None else self.module
        return name if lane.number == 0 else f"{name} ({lane.number + 1})"

    def lane_for(self, span: Span) -> Lane | None:
        """Return where a span can stand: within the one that began it, or in a lane that is free; None if nowhere."""
        parent = span.parent
        if parent is not None and parent.group is self and parent.lane.stack[-1] is parent:
            return parent.lane
        return self.free_lane()

    def free_lane(self) -> Lane | None:
        """Take the first lane that has nothing in it; None if there is none."""
        return self._lanes[heappop(self._free)] if self._free else None

    def add_lane(self, tid: int) -> Lane:
        """Make one more lane."""
        lane = Lane(len(self._lanes), tid)
        self._lanes.append(lane)
        return lane

    def open(self, span: Span, lane: Lane) -> None:
        """Put a span into a lane."""
        span.lane = lane
        lane.stack.append(span)
        self._open += 1
        if span.parent is not None:
            span.parent.begin_below(span.begin)

    def move(self, spans: Sequence[Span], lane: Lane, now: float) -> None:
        """Let spans go on in an empty lane."""
        for span in spans:
            span.lane, span.begin = lane, now
            lane.stack.append(span)

    def close(self, span: Span, now: float) -> None:
        """Count a span that was taken from its lane."""
        self._open -= 1
        if not span.lane.stack:
            heappush(self._free, span.lane.number)
        if span.parent is not None:
            span.parent.end_below(now)
