"""All errors and warnings that apass raises, and spelling suggestions.

An exception raised by a pass is never wrapped in one of these. It propagates unchanged, with notes added.
"""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

__all__ = [
    "AdapterError",
    "AnalysisError",
    "AnswersError",
    "ApassError",
    "BisectError",
    "BreakpointError",
    "BudgetExceededError",
    "BudgetSpentError",
    "CircuitOpenError",
    "ClusterLostError",
    "ConfigTypeError",
    "CyclicRequirementError",
    "DebugError",
    "DebugWarning",
    "DiagnosticError",
    "ExecutorError",
    "HelperError",
    "InputError",
    "JournalError",
    "JournalWarning",
    "MeasurementError",
    "MissingExtraError",
    "OutOfMemoryError",
    "OutputsChangedError",
    "PassCancelledError",
    "PassContextError",
    "PassDefinitionError",
    "PassExitedError",
    "PassNotAllowedError",
    "PassOrderError",
    "PassRegistrationError",
    "PassResultError",
    "PassTimeoutError",
    "PauseError",
    "PipelineCycleError",
    "PipelineSyntaxError",
    "PluginError",
    "PluginWarning",
    "PropertyError",
    "RemoteError",
    "ReproducerError",
    "ResumeError",
    "SearchError",
    "ServiceTimeoutError",
    "StoreError",
    "StoreWarning",
    "UnknownAnswerError",
    "UnknownCallableError",
    "UnknownConfigError",
    "UnknownNodeError",
    "UnknownPassError",
    "UnknownPropertyError",
    "UnmatchedPassNameWarning",
    "VerifyError",
    "WorkerLostError",
    "did_you_mean",
    "has_suggestion",
]


class ApassError(Exception):
    """Base class of all errors that apass raises."""


class UnknownPassError(ApassError, LookupError):
    """No pass is registered under the name; the message suggests the nearest one.

    The nearest name is found by spelling, ignoring case.
    """


class UnknownCallableError(ApassError, LookupError):
    """No callable is registered under the name; the message suggests the nearest one."""


class PassRegistrationError(ApassError, ValueError):
    """The name is already registered, or the registered object cannot make a pass."""


class PassDefinitionError(ApassError, TypeError, ValueError):
    """A pass definition that cannot run.

    Examples are a missing `opt_level`, a missing `transform_module`, and an invalid option.

    Attributes:
        option: the name of the invalid option, or None. The pipeline parser puts its caret under this option.

    """

    option: str | None = None


class PassOrderError(PassDefinitionError):
    """A pipeline contains two passes in an order that one of them forbids."""


class CyclicRequirementError(ApassError):
    """A pass requires itself, directly or through others; the message shows the cycle."""

    @classmethod
    def at(cls, name: str, trail: Sequence[str]) -> Self:
        """Return the error for a pass that requires itself.

        Parameters:
            name: the name of the pass.
            trail: the names of the passes being resolved, outermost first.

        """
        cycle = " > ".join((*trail[trail.index(name) :], name))
        return cls(f"the required passes form a cycle: {cycle}; remove one `required` from it")


class PassResultError(ApassError, TypeError):
    """The result of a pass is not a module, or that of a function body not a function."""


class PassContextError(ApassError, RuntimeError):
    """Incorrect use of a `PassContext` or of the event loop.

    Examples: contexts left out of order or in another task, and `with` instead of `async with`.
    """


class PassCancelledError(ApassError, RuntimeError):
    """A pass raised a cancellation that no enclosing scope requested.

    The usual cause: the pass awaited a task or future that was cancelled elsewhere.
    """


class PassExitedError(ApassError):
    """A pass called `sys.exit`, which would end the whole run."""

    @classmethod
    def of(cls, end: SystemExit) -> "PassExitedError":
        """Return the error in place of an exit, with its notes."""
        exited = cls(f"the pass exited with {end.code!r}; a pass that fails must raise an exception")
        exited.__cause__ = end
        for note in getattr(end, "__notes__", ()):
            exited.add_note(note)
        return exited


class PassTimeoutError(ApassError, TimeoutError):
    """A function body, or a hook after a cancellation, exceeded its time limit."""


class BudgetExceededError(ApassError, TimeoutError):
    """The deadline of a `PassContext`, or one request's share of it, has passed."""


class BudgetSpentError(ApassError, RuntimeError):
    """The requests to an external helper have cost its whole budget."""


class ServiceTimeoutError(ApassError, TimeoutError):
    """An external helper did not respond within the `timeout` of its policy."""


class CircuitOpenError(ApassError, ConnectionError):
    """An external helper failed repeatedly, and requests to it are suspended."""


class HelperError(ApassError, RuntimeError):
    """An external helper exited, failed, or returned an invalid answer.

    The message includes its output.
    """


class MeasurementError(ApassError, RuntimeError):
    """A measurement cannot begin, or its block has been left."""


class AnswersError(ApassError, ValueError):
    """Recorded answers cannot be read or written."""


class UnknownAnswerError(ApassError, LookupError):
    """A run with recorded answers asks a question that has none."""


class PipelineCycleError(ApassError, RuntimeError):
    """A `Repeat` or `While` does not end, such as one that repeats an earlier module."""


class PipelineSyntaxError(ApassError, ValueError):
    """The text of a pipeline cannot be parsed.

    Attributes:
        message: what is wrong, without the excerpt of the text.
        text: the whole text.
        position: the offset in `text`, counted from 0, of the first invalid character.

    """

    def __init__(self, message: str, text: str, position: int) -> None:
        """Format `message` above the line of `text`, with a caret under `position`."""
        self.text = text
        self.position = position
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        line, column = _window(text[start:] if end < 0 else text[start:end], position - start)
        self.message = message
        super().__init__(f"{message} (at character {position})\n    {line}\n    {_blank(line[:column])}^")

    def __reduce__(self) -> tuple[type["PipelineSyntaxError"], tuple[Any, ...]]:
        """Support pickling; the default calls `__init__` with the formatted message."""
        return type(self), (self.message, self.text, self.position)


class PassNotAllowedError(PipelineSyntaxError):
    """The text of a pipeline contains what is not allowed: a name, or an option.

    Attributes:
        name: what has to be added to the allowed names.

    """

    def __init__(self, message: str, text: str, position: int, name: str) -> None:
        """Format `message` as a PipelineSyntaxError does."""
        super().__init__(message, text, position)
        self.name = name

    def __reduce__(self) -> tuple[type["PassNotAllowedError"], tuple[Any, ...]]:
        """Support pickling."""
        return type(self), (self.message, self.text, self.position, self.name)


class UnknownConfigError(ApassError, LookupError):
    """A key of `PassContext(config=...)` is not registered."""


class ConfigTypeError(ApassError, TypeError):
    """The value of a config option does not have the registered type."""


class ResumeError(ApassError, ValueError):
    """A pipeline cannot be resumed at the requested position; the message says why."""


class ReproducerError(ApassError, ValueError):
    """A folder contains no reproducer, or one that cannot be replayed here.

    The message says what is missing.
    """


class VerifyError(ApassError):
    """A module violates a rule of its IR."""


class OutputsChangedError(ApassError):
    """A module computes other outputs than the module that it was made from."""


class PropertyError(ApassError):
    """A module lacks a property that a pass requires or ensures."""


class UnknownPropertyError(ApassError, LookupError):
    """No property is registered under the name; the message suggests the nearest one."""


class UnknownNodeError(ApassError, LookupError):
    """A module had no such function or node; the message suggests the nearest name."""


class DebugError(ApassError):
    """Debug mode found a mistake in a pass; the message ends with its place."""


class DebugWarning(UserWarning):
    """Debug mode found something that may be a mistake, such as a slow body."""


class DiagnosticError(ApassError):
    """Diagnostics of level error were rendered; the message is the rendered text."""


class BisectError(ApassError, ValueError):
    """A bisection is impossible: the input is already bad, or the result is good."""


class BreakpointError(ApassError, ValueError):
    """The text of a breakpoint has none of the known forms."""


class PauseError(ApassError, RuntimeError):
    """A command for a pause that has ended, or that is not possible there."""


class AnalysisError(ApassError, LookupError):
    """An analysis was requested incorrectly, or its result is unavailable.

    Examples: an option that cannot be hashed, an analysis that requires itself, a result that was not computed before
    `got`, and a result that cannot be stored.
    """


class AdapterError(ApassError, TypeError):
    """No adapter supports the module's type, or the adapter lacks an operation."""


class ExecutorError(ApassError, RuntimeError):
    """A pass, module or result cannot be transferred, or an executor is unavailable."""


class WorkerLostError(ApassError, RuntimeError):
    """Two workers in succession died, or exceeded their time limit, on the same task."""


class OutOfMemoryError(WorkerLostError):
    """A worker was ended because it exceeded its limit of memory."""

    used: int = 0
    """Bytes that it used; 0 if unknown."""


class ClusterLostError(WorkerLostError):
    """A cluster has lost work before it began, or together with its scheduler."""


class RemoteError(ApassError, RuntimeError):
    """An error from another process that cannot be rebuilt in this one.

    The message contains the type and the message of the original error.
    """


class InputError(ApassError, OSError):
    """A wrong argument, such as a missing model or an unwritable path."""


class MissingExtraError(ApassError, ImportError):
    """An optional library is not installed; the message names the extra to install."""


class PluginError(ApassError, ImportError):
    """A plug-in or a module of the user cannot be loaded; the message names its place."""


class PluginWarning(UserWarning):
    """What a package offers to apass cannot be loaded, and is ignored."""


class StoreError(ApassError, OSError):
    """A result store cannot be read or written."""


class StoreWarning(UserWarning):
    """A result store was damaged and recreated, or is unusable and ignored."""


class JournalError(ApassError, RuntimeError):
    """A journal cannot be used; the message says what to do.

    It belongs to another run, is in use, is not a journal, or cannot be read or written.
    """


class JournalWarning(UserWarning):
    """A part of a journal is damaged; the affected modules are computed again."""


class SearchError(ApassError, ValueError):
    """A search cannot start: its space, objective, budget or study is invalid."""


class UnmatchedPassNameWarning(UserWarning):
    """A name in `disabled_pass` or `required_pass` matched no pass in the context."""


_LINE_LIMIT: Final = 160
"""Maximum number of characters shown of a line; a longer line is cut around the error."""


def _window(line: str, column: int) -> tuple[str, int]:
    """Return the part of a line to show, and the position of `column` in that part."""
    low = max(0, min(column - _LINE_LIMIT // 2, len(line) - _LINE_LIMIT))
    head, tail = "..." * (low > 0), "..." * (low + _LINE_LIMIT < len(line))
    return f"{head}{line[low : low + _LINE_LIMIT]}{tail}".rstrip("\r"), column - low + len(head)


def _blank(text: str) -> str:
    """Return whitespace as wide as `text` on a terminal."""
    # A tab stays a tab, because its width depends on the column.
    return "".join("\t" if char == "\t" else " " * _width(char) for char in text)


def _width(char: str) -> int:
    return 0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")


_LONGEST_COMPARED: Final = 100
"""Length of the longest names that are compared; comparing two names takes the product of their lengths."""

_LISTED: Final = 5
"""Maximum number of names in a message."""

_SUGGESTION: Final = "; did you mean "


def did_you_mean(
    name: str, candidates: Iterable[str], *, listing: str = "", lister: str = "", has_prefix: bool = False
) -> str:
    """Return `"; did you mean 'X'?"` for the candidate nearest to `name`.

    If no candidate is similar, return `listing` followed by the candidates. Of more than six, return the five nearest
    and the number of the others. If either is empty, return `""`.

    Parameters:
        name: the unknown name.
        candidates: the known names.
        listing: the words before the list.
        lister: the command or the call that lists all names, for a list that is cut.
        has_prefix: whether names may have the prefix of an IR, such as `onnx.`. If candidates have that of `name`, only
            these are suggested.

    >>> did_you_mean("FoldConstnat", ["FoldConstant", "Inline"])
    "; did you mean 'FoldConstant'?"
    >>> did_you_mean("zzz", ["b", "a"], listing="known: ")
    '; known: a, b'
    >>> did_you_mean("zzz", "abcdefg", listing="known: ", lister="list_passes()")
    '; known: a, b, c, d, e and 2 more; list_passes() lists all'

    """
    candidates, (prefix, dot, _) = list(candidates), name.partition(".")
    of_prefix = [candidate for candidate in candidates if candidate.startswith(prefix + dot)]
    # The prefix is left out of the comparison, because it would make unlike names similar.
    candidates, start = (of_prefix, len(prefix + dot)) if has_prefix and dot and of_prefix else (candidates, 0)
    by_folded = {candidate[start:].casefold(): candidate for candidate in candidates}
    folded = name[start:].casefold()
    comparable = sorted(key for key in by_folded if max(len(key), len(folded)) <= _LONGEST_COMPARED)
    near = difflib.get_close_matches(folded, comparable, n=1)
    if near:
        return f"{_SUGGESTION}{by_folded[near[0]]!r}?"
    if not listing or not by_folded:
        return ""
    # Where a single name would be left out, the list is as short as its number.
    if len(by_folded) <= _LISTED + 1:
        return f"; {listing}{', '.join(sorted(by_folded.values()))}"
    matcher = difflib.SequenceMatcher(b=folded)

    def distance(key: str) -> float:
        matcher.set_seq1(key)
        return -matcher.ratio()

    # The sort is stable: equally distant names stay in alphabetical order.
    nearest = (sorted(comparable, key=distance) or sorted(by_folded))[:_LISTED]
    names = ", ".join(sorted(by_folded[key] for key in nearest))
    return f"; {listing}{names} and {len(by_folded) - len(nearest)} more{f'; {lister} lists all' if lister else ''}"


def has_suggestion(error: ApassError) -> bool:
    """Return whether a message suggests a name, so that further advice would distract."""
    return _SUGGESTION in str(error)
