"""Reading traces, and what must hold of each."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]

ROUNDING = 0.002
"""Microseconds: times are rounded to a thousandth."""


def read_trace(path: Path) -> list[Event]:
    """Return the events of a trace, which must be whole, and in which slices must be nested in each lane."""
    trace = json.loads(path.read_text())
    assert set(trace) == {"displayTimeUnit", "traceEvents"}
    events: list[Event] = trace["traceEvents"]
    assert {one["ph"] for one in events} <= {"M", "X"}
    named = {(one["pid"], one["tid"]) for one in events if one["name"] == "thread_name"}
    lanes: dict[tuple[int, int], list[Event]] = {}
    for one in slices(events):
        assert one["dur"] >= 0
        lanes.setdefault((one["pid"], one["tid"]), []).append(one)
    assert set(lanes) <= named
    for lane in lanes.values():
        check_nesting(lane)
    return events


def slices(events: Iterable[Event]) -> list[Event]:
    """Return the events that have a length."""
    return [one for one in events if one["ph"] == "X"]


def check_nesting(lane: Iterable[Event]) -> None:
    """Check that each slice lies within the one around it, and that what waits is at work in nothing within it."""
    stack: list[Event] = []
    for one in sorted(lane, key=lambda one: (one["ts"], -one["dur"])):
        while stack and end(stack[-1]) <= one["ts"] + ROUNDING:
            stack.pop()
        if stack:
            assert end(one) <= end(stack[-1]) + ROUNDING, (one, stack[-1])
            assert stack[-1]["cat"] != "wait", (one, stack[-1])
        assert one["cat"] != "wait" or stack, one
        stack.append(one)


def end(event: Event) -> float:
    """Return when a slice ends."""
    return float(event["ts"] + event["dur"])


def lane_names(events: Iterable[Event]) -> dict[tuple[int, int], str]:
    """Return what the lanes are called."""
    return {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}


def outline(events: list[Event], process: int = 1, waits_of: Collection[str] = ()) -> list[str]:
    """Return the slices of each lane as lines, indented as they are nested, without times.

    Waits are shown in slices of the names `waits_of`: a pass that calls others may wait for its turn at any time.
    """
    lines: list[str] = []
    for lane, name in lane_names(events).items():
        if lane[0] != process:
            continue
        lines.append(f"[{name}]")
        stack: list[Event] = []
        mine = [one for one in slices(events) if (one["pid"], one["tid"]) == lane]
        for one in sorted(mine, key=lambda one: (one["ts"], -one["dur"])):
            while stack and end(stack[-1]) <= one["ts"] + ROUNDING:
                stack.pop()
            if one["cat"] == "wait" and stack[-1]["name"] not in waits_of:
                continue
            told = {key: value for key, value in one["args"].items() if key not in ("level", "pass")}
            lines.append("  " * len(stack) + one["name"] + (f" {told}" if told else ""))
            stack.append(one)
    return lines
