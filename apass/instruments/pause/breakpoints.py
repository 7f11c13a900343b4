"""Breakpoints: the conditions under which a `PauseInstrument` pauses a module."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isfinite
from types import MappingProxyType
from typing import Final

from apass.errors import BreakpointError, did_you_mean

__all__ = [
    "Breakpoint",
    "ChangedBreakpoint",
    "ErrorBreakpoint",
    "FunctionBreakpoint",
    "ModuleBreakpoint",
    "PassBreakpoint",
    "TextBreakpoint",
    "WaitBreakpoint",
    "parse_breakpoint",
]


@dataclass(frozen=True, slots=True)
class PassBreakpoint:
    """Pauses before each run of a pass."""

    name: str
    """The name of the pass, or a pattern with `*`, `?` and `[...]`."""

    def matches(self, name: str) -> bool:
        """Return whether it is a breakpoint on the pass `name`."""
        return _matches(self.name, name)

    def __str__(self) -> str:
        return f"pass:{self.name}"


@dataclass(frozen=True, slots=True)
class FunctionBreakpoint:
    """Pauses before each function pass that transforms a function of this name."""

    name: str
    """The name of the function, or a pattern with `*`, `?` and `[...]`."""

    def matches(self, name: str) -> bool:
        """Return whether it is a breakpoint on the function `name`."""
        return _matches(self.name, name)

    def __str__(self) -> str:
        return f"function:{self.name}"


@dataclass(frozen=True, slots=True)
class ModuleBreakpoint:
    """Pauses before the first pass of a module."""

    name: str
    """The name of the module in `optimize_all` and its like, or a pattern with `*`, `?` and `[...]`."""

    def matches(self, name: str) -> bool:
        """Return whether it is a breakpoint on the module `name`."""
        return _matches(self.name, name)

    def __str__(self) -> str:
        return f"module:{self.name}"


@dataclass(frozen=True, slots=True)
class ChangedBreakpoint:
    """Pauses after each pass that changed, added or removed a function of this name."""

    name: str
    """The name of the function, or a pattern with `*`, `?` and `[...]`."""

    def matches(self, name: str) -> bool:
        """Return whether it is a breakpoint on the function `name`."""
        return _matches(self.name, name)

    def __str__(self) -> str:
        return f"changed:{self.name}"


@dataclass(frozen=True, slots=True)
class TextBreakpoint:
    """Pauses after each pass that brings a text into a function.

    The text is in the function after the pass, and was not in the function of this name before it.
    """

    text: str
    """The text to look for in the text of the IR."""

    def __str__(self) -> str:
        return f"text:{self.text}"


@dataclass(frozen=True, slots=True)
class ErrorBreakpoint:
    """Pauses after each pass that raises an error, where it is raised first."""

    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True, slots=True)
class WaitBreakpoint:
    """Pauses at a pass that waits, in one piece, for longer than a time; once a run.

    The pass waits on during the pause. It can be skipped or run again, which cancels it.
    """

    seconds: float
    """The time."""

    def __str__(self) -> str:
        return f"wait:{self.seconds:g}"


Breakpoint = (
    PassBreakpoint
    | FunctionBreakpoint
    | ModuleBreakpoint
    | ChangedBreakpoint
    | TextBreakpoint
    | ErrorBreakpoint
    | WaitBreakpoint
)
"""A breakpoint of any kind."""


def parse_breakpoint(text: str) -> Breakpoint:
    """Return the breakpoint that a text describes; `str` of it is the text.

    The texts are `pass:NAME`, `function:NAME`, `module:NAME`, `changed:FUNCTION`, `text:TEXT`, `error` and
    `wait:SECONDS`.

    Raises:
        BreakpointError: if the text has none of these forms.

    >>> parse_breakpoint("pass:onnx.*")
    PassBreakpoint(name='onnx.*')
    >>> parse_breakpoint("wait:1.5")
    WaitBreakpoint(seconds=1.5)
    >>> parse_breakpoint("pas:Tune")
    Traceback (most recent call last):
        ...
    apass.errors.BreakpointError: unknown kind of breakpoint 'pas' in 'pas:Tune'; did you mean 'pass'?

    """
    kind, colon, value = text.partition(":")
    if kind == "error":
        if colon:
            raise BreakpointError(f"the breakpoint {text!r} has a value; expected 'error' alone")
        return ErrorBreakpoint()
    make = _KINDS.get(kind)
    if make is None:
        hint = did_you_mean(kind, (*_KINDS, "error"), listing="kinds are ")
        raise BreakpointError(f"unknown kind of breakpoint {kind!r} in {text!r}{hint}")
    if not value:
        raise BreakpointError(f"the breakpoint {text!r} has no value; expected {kind}:{_VALUES[kind]}")
    return make(value)


def _wait(value: str) -> WaitBreakpoint:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or seconds <= 0:
        raise BreakpointError(f"the breakpoint 'wait:{value}' needs a positive number of seconds, got {value!r}")
    return WaitBreakpoint(seconds)


_KINDS: Final[Mapping[str, Callable[[str], Breakpoint]]] = MappingProxyType(
    {
        "pass": PassBreakpoint,
        "function": FunctionBreakpoint,
        "module": ModuleBreakpoint,
        "changed": ChangedBreakpoint,
        "text": TextBreakpoint,
        "wait": _wait,
    }
)
"""The kinds of breakpoints that have a value."""

_VALUES: Final[Mapping[str, str]] = MappingProxyType(
    {"pass": "NAME", "function": "NAME", "module": "NAME", "changed": "FUNCTION", "text": "TEXT", "wait": "SECONDS"}
)
"""What the value of each kind is, for messages."""


def _matches(pattern: str, name: str) -> bool:
    return pattern == name or fnmatchcase(name, pattern)
