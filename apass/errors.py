"""Every error and warning that apass itself raises, and the wording of suggestions.

A pass's own exception is never wrapped in one of these: notes are added to it and it goes on.
"""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, Self

__all__ = [
    "AdapterError",
    "AnalysisError",
    "ApassError",
    "BisectError",
    "BudgetExceededError",
    "CircuitOpenError",
    "ConfigTypeError",
    "CyclicRequirementError",
    "DiagnosticError",
    "ExecutorError",
    "HelperError",
    "JournalError",
    "JournalWarning",
    "MissingExtraError",
    "PassCancelledError",
    "PassContextError",
    "PassDefinitionError",
    "PassRegistrationError",
    "PassResultError",
    "PassTimeoutError",
    "PipelineCycleError",
    "PipelineSyntaxError",
    "RemoteError",
    "ReproducerError",
    "ResumeError",
    "ServiceTimeoutError",
    "StoreError",
    "StoreWarning",
    "UnknownConfigError",
    "UnknownPassError",
    "UnmatchedPassNameWarning",
    "VerifyError",
    "WorkerLostError",
    "did_you_mean",
]


class ApassError(Exception):
    """The base of every error that apass raises; catch it to catch them all."""


class UnknownPassError(ApassError, LookupError):
    """No pass is registered under the name; the message suggests the nearest one."""


class PassRegistrationError(ApassError, ValueError):
    """The name is already registered, or what was registered cannot be used as a pass."""


class PassDefinitionError(ApassError, TypeError, ValueError):
    """A pass was declared in a way that cannot run: no `opt_level`, no `transform_module`, a bad option.

    Attributes:
        option: the name of the option that is bad, where whoever raises this sets it: a pipeline's text is shown there.

    """

    option: str | None = None


class CyclicRequirementError(ApassError):
    """The required passes of a pass lead back to it; the message spells the cycle."""

    @classmethod
    def at(cls, name: str, trail: Sequence[str]) -> Self:
        """Return the error that `name` is required beneath itself; `trail` leads from the outermost pass down."""
        cycle = " > ".join((*trail[trail.index(name) :], name))
        return cls(f"the required passes form a cycle: {cycle}; take one `required` out of it")


class PassResultError(ApassError, TypeError):
    """A pass returned no module, or a function pass no function."""


class PassContextError(ApassError, RuntimeError):
    """A `PassContext` was used out of order, outside its task, or with `with` in place of `async with`."""


class PassCancelledError(ApassError, RuntimeError):
    """A pass ended cancelled though nobody cancelled it: it awaited something that somebody else had cancelled."""


class PassTimeoutError(ApassError, TimeoutError):
    """A function body, or a hook that ran after a cancellation, took longer than it was given."""


class BudgetExceededError(ApassError, TimeoutError):
    """The seconds that a `PassContext(deadline=...)` gave are used up, or one question's fair share of them is."""


class ServiceTimeoutError(ApassError, TimeoutError):
    """An external helper did not answer within the `timeout` of its policy."""


class CircuitOpenError(ApassError, ConnectionError):
    """An external helper failed so often that it is not asked for a while."""


class HelperError(ApassError, RuntimeError):
    """An external helper ended, failed, or answered what is no answer; the message says what it left."""


class PipelineCycleError(ApassError, RuntimeError):
    """A `Repeat` came back to a module it had already seen, or did not settle within its limit."""


class PipelineSyntaxError(ApassError, ValueError):
    """The text of a pipeline does not parse.

    Attributes:
        text: the text as it was given.
        position: the offset in `text`, counted from 0, of the first character that does not fit.

    """

    def __init__(self, message: str, text: str, position: int) -> None:
        """Show `message` above the line of `text` with a caret under `position`."""
        self.text = text
        self.position = position
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        line, place = _window(text[start:] if end < 0 else text[start:end], position - start)
        self._message = message
        super().__init__(f"{message} (at character {position})\n    {line}\n    {_blank(line[:place])}^")

    def __reduce__(self) -> tuple[type["PipelineSyntaxError"], tuple[str, str, int]]:
        """Let the error travel between processes."""
        return type(self), (self._message, self.text, self.position)


class UnknownConfigError(ApassError, LookupError):
    """The key of `PassContext(config=...)` was never registered; the message lists the candidates."""


class ConfigTypeError(ApassError, TypeError):
    """The value of a config option is not of the type that it was registered with."""


class ResumeError(ApassError, ValueError):
    """A pipeline cannot be gone on with from the place that was given; the message says why."""


class ReproducerError(ApassError, ValueError):
    """A folder holds no reproducer, or one that cannot be replayed here; the message says what is missing."""


class VerifyError(ApassError):
    """A module breaks a rule of its IR."""


class DiagnosticError(ApassError):
    """Diagnostics of level error were rendered; the message is their rendering."""


class BisectError(ApassError, ValueError):
    """There is nothing to search for, or no way to: the untouched module is bad, or the optimized one is good."""


class AnalysisError(ApassError, LookupError):
    """An analysis cannot be asked so, asks its way back to itself, or its result is not there or cannot be kept."""


class AdapterError(ApassError, TypeError):
    """No adapter knows the module's type, or an adapter cannot do what was asked."""


class ExecutorError(ApassError, RuntimeError):
    """A pass, a module or a result cannot go to or come from another process, or this Python lacks an executor."""


class WorkerLostError(ApassError, RuntimeError):
    """A worker died at a piece of work, or took longer than its time, and so did the one that tried it once more."""


class RemoteError(ApassError, RuntimeError):
    """What was raised elsewhere cannot be rebuilt here; the message has its type and its own message."""


class MissingExtraError(ApassError, ImportError):
    """An optional library is not installed; the message names the extra that brings it."""


class StoreError(ApassError, OSError):
    """A store of results cannot be read or written."""


class StoreWarning(UserWarning):
    """A store of results was damaged, and is begun anew; or it cannot be used, and the work goes on without it."""


class JournalError(ApassError, RuntimeError):
    """A journal is of another run, is none, is in use, or cannot be read or written; the message says what to do."""


class JournalWarning(UserWarning):
    """A part of a journal was damaged; what it was for is done again."""


class UnmatchedPassNameWarning(UserWarning):
    """A name in `disabled_pass` or `required_pass` matched no pass while the context was in use."""


_LINE_LIMIT: Final = 160
"""Characters shown of a line; of a longer one, those around the place."""


def _window(line: str, place: int) -> tuple[str, int]:
    """Return what is shown of a line, and where `place` is in it."""
    low = max(0, min(place - _LINE_LIMIT // 2, len(line) - _LINE_LIMIT))
    head, tail = "..." * (low > 0), "..." * (low + _LINE_LIMIT < len(line))
    return f"{head}{line[low : low + _LINE_LIMIT]}{tail}".rstrip("\r"), place - low + len(head)


def _blank(text: str) -> str:
    """Return blanks as wide as `text` is on a terminal; a tab stays one, wherever it ends there."""
    return "".join("\t" if char == "\t" else " " * _width(char) for char in text)


def _width(char: str) -> int:
    return 0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")


def did_you_mean(name: str, candidates: Iterable[str], *, listing: str = "") -> str:
    """Return `"; did you mean 'X'?"` for the candidate nearest to `name`.

    Without a near one: `listing`, followed by all candidates in order, or nothing if either is empty.

    >>> did_you_mean("FoldConstnat", ["FoldConstant", "Inline"])
    "; did you mean 'FoldConstant'?"
    >>> did_you_mean("zzz", ["b", "a"], listing="known: ")
    '; known: a, b'
    """
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    if near:
        return f"; did you mean {by_folded[near[0]]!r}?"
    if not listing or not by_folded:
        return ""
    return f"; {listing}{', '.join(sorted(by_folded.values()))}"
