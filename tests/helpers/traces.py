"""Reading traces, and checks that hold for every trace."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]

ROUNDING = 0.002
"""Microseconds. Times in a trace are rounded to a thousandth of a microsecond."""


def read_trace(path: Path) -> list[Event]:
    """Return the events of a trace, after checking the nesting of its slices."""
    trace = json.loads(path.read_text())
    assert set(trace) == {"displayTimeUnit", "traceEvents"}
    events: list[Event] = trace["traceEvents"]
    assert {item["ph"] for item in events} <= {"M", "X"}
    named = {(item["pid"], item["tid"]) for item in events if item["name"] == "thread_name"}
    tracks: dict[tuple[int, int], list[Event]] = {}
    for item in slices(events):
        assert item["dur"] >= 0
        tracks.setdefault((item["pid"], item["tid"]), []).append(item)
    assert set(tracks) <= named
    for track in tracks.values():
        check_nesting(track)
    return events


def slices(events: Iterable[Event]) -> list[Event]:
    """Return the events that have a duration."""
    return [item for item in events if item["ph"] == "X"]


def check_nesting(track: Iterable[Event]) -> None:
    """Check that slices are nested, and that no slice lies within a wait."""
    stack: list[Event] = []
    for item in sorted(track, key=lambda item: (item["ts"], -item["dur"])):
        while stack and end(stack[-1]) <= item["ts"] + ROUNDING:
            stack.pop()
        if stack:
            assert end(item) <= end(stack[-1]) + ROUNDING, (item, stack[-1])
            assert stack[-1]["cat"] != "wait", (item, stack[-1])
        assert item["cat"] != "wait" or stack, item
        stack.append(item)


def end(event: Event) -> float:
    """Return the end time of a slice."""
    return float(event["ts"] + event["dur"])


def track_names(events: Iterable[Event]) -> dict[tuple[int, int], str]:
    """Return the labels of the tracks."""
    return {(item["pid"], item["tid"]): item["args"]["name"] for item in events if item["name"] == "thread_name"}


def outline(events: list[Event], process: int = 1, waits_of: Collection[str] = ()) -> list[str]:
    """Return the slices of each track as lines, indented by nesting, without times.

    Waits are shown only in slices with a name in `waits_of`. Other passes may also wait for a time slice, at any time.
    """
    lines: list[str] = []
    for track, name in track_names(events).items():
        if track[0] != process:
            continue
        lines.append(f"[{name}]")
        stack: list[Event] = []
        on_track = [item for item in slices(events) if (item["pid"], item["tid"]) == track]
        for item in sorted(on_track, key=lambda item: (item["ts"], -item["dur"])):
            while stack and end(stack[-1]) <= item["ts"] + ROUNDING:
                stack.pop()
            if item["cat"] == "wait" and stack[-1]["name"] not in waits_of:
                continue
            args = {key: value for key, value in item["args"].items() if key not in ("level", "pass")}
            lines.append("  " * len(stack) + item["name"] + (f" {args}" if args else ""))
            stack.append(item)
    return lines
