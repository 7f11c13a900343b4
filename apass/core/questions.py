"""`Question` and `Answer`: what a run asks outside of the program.

Instruments record the answers, and give them again in a replay (see `external/answers/`).
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeVar, final

from apass.core.hooks import Hooks
from apass.core.run import Run, current_run
from apass.errors import BudgetExceededError
from apass.util.fingerprint import fingerprint_value
from apass.util.tagged_json import reachable_types, read_tagged, write_tagged
from apass.util.text import shorten

__all__ = [
    "Answer",
    "AnswerCursor",
    "AnswerSource",
    "Codec",
    "Question",
    "answer_to",
    "tagged_codec",
    "without_secrets",
]

R = TypeVar("R")

_LEFT_OUT: Final = "<left out>"

_SECRET_FIELD: Final = re.compile(
    r"(?i)(.*[-_])?(authorization|password|passwd|secret|token|api[-_]?key|cookie|credentials?)"
)
"""Names of fields whose values are left out."""

_SECRET_IN_NAME: Final = re.compile(
    r"(?i)(?P<before>://|(?:[?&]|(?<!\S)--?)[\w-]*(?:auth|password|passwd|secret|token|key)[\w-]*(?:=|\s+))"
    r"(?P<secret>(?<=://)[^/@\s]+(?=@)|(?<!://)[^&\s]+)"
)
"""The user in an address, and the value of a parameter or an option with a secret name."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Converts answers to values of JSON and back."""

    dumps: Callable[[Any], Any]
    """Returns a value of JSON; raises TypeError or ValueError for an answer that it cannot convert."""
    loads: Callable[[Any], Any]
    """Returns the answer."""


def tagged_codec(types: Iterable[type] = ()) -> Codec:
    """Return the codec for Python's own types, and for dataclasses and enums."""
    known = reachable_types(types)
    # Services, which have a codec, are sent to other processes.
    return Codec(partial(_encode_tagged, known), partial(_decode_tagged, known))


def _encode_tagged(known: frozenset[type], answer: object) -> Any:
    return json.loads(write_tagged(answer, known))


def _decode_tagged(known: frozenset[type], value: Any) -> Any:
    return read_tagged(json.dumps(value), known)


@final
class Question:
    """A question to something outside of the program.

    For example, `Question("service", "http://tuner/cost", {"shape": [1, 64]})` asks a service for a cost.

    Parameters:
        kind: what answers: `"service"`, `"process"`, `"analysis"`, `"measurement"` or a word of the user.
        name: the name of the service, the command, and so on. User names in addresses, and values of parameters and
            options that look secret, are left out.
        content: the question itself. It is written as JSON, an object of an unknown class as its fingerprint. The
            values of fields with secret names are left out.

    """

    def __init__(self, kind: str, name: str, content: object) -> None:
        self.kind: Final = kind
        """What answers."""
        # At once, so that no error message, journal or recorded answer ever sees a secret.
        self.name: Final = _SECRET_IN_NAME.sub(rf"\g<before>{_LEFT_OUT}", name)
        """The name of what answers, without secrets."""
        self._content = content

    @cached_property
    def content(self) -> Any:
        """The question as a value of JSON, without secrets."""
        return without_secrets(_as_json(self._content))

    @cached_property
    def key(self) -> str:
        """The text by which answers are found."""
        return json.dumps([self.kind, self.name, self.content], sort_keys=True)

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}: {shorten(json.dumps(self.content, ensure_ascii=False))}"


@final
class Answer:
    """The answer to a question, or the error in its place.

    The hook `on_answer` of instruments receives it.
    """

    __slots__ = ("codec", "error", "is_replayed", "question", "run", "value")

    def __init__(
        self,
        question: Question,
        run: Run | None,
        codec: Codec,
        *,
        value: Any = None,
        error: Exception | None = None,
        is_replayed: bool = False,
    ) -> None:
        self.question: Final = question
        """The question."""
        self.run: Final = run
        """The run that asked, or None outside of any pass."""
        self.value: Final = value
        """The answer; None if there is an error."""
        self.error: Final = error
        """The error that was raised in place of an answer."""
        self.is_replayed: Final = is_replayed
        """Whether it was recorded before."""
        self.codec: Final = codec
        """Converts the answer to JSON."""


class AnswerCursor(Protocol):
    """The position of one context in recorded answers."""

    def find(self, question: Question, run: Run | None, codec: Codec) -> Callable[[], Any] | None:
        """Return a function that returns the answer or raises the error.

        Return None if the question is to be asked.
        """
        ...


class AnswerSource(Protocol):
    """Gives recorded answers, such as an `AnswerReplayer`."""

    def cursor(self) -> AnswerCursor:
        """Return a cursor for a context, before the first answer."""
        ...


class AnswersState(Protocol):
    """The part of the state of a context that is about answers."""

    answers: AnswerCursor | None
    """Gives recorded answers; None if questions are asked."""
    hooks: Hooks
    """The hooks in force."""


async def answer_to(state: AnswersState, question: Question, ask: Callable[[], Awaitable[R]], codec: Codec) -> R:
    """Return the recorded answer to a question; without one, what `ask` returns.

    Either is reported to the `on_answer` hooks.

    Raises:
        UnknownAnswerError: if there is no recorded answer, and unknown questions are errors.
        Exception: any error of `ask`, or the recorded one.

    """
    # Before `ask`, which may run other passes.
    run = current_run()
    recorded = None if state.answers is None else state.answers.find(question, run, codec)
    try:
        answer: R = await ask() if recorded is None else recorded()
    except BudgetExceededError:
        # It depends on the time that was left, not on the question.
        raise
    except Exception as error:
        _report(state, Answer(question, run, codec, error=error, is_replayed=recorded is not None))
        raise
    _report(state, Answer(question, run, codec, value=answer, is_replayed=recorded is not None))
    return answer


def _report(state: AnswersState, answer: Answer) -> None:
    for hook in state.hooks.answers:
        hook(answer)


def _as_json(content: object) -> Any:
    try:
        return json.loads(write_tagged(content, reachable_types([type(content)])))
    except TypeError:
        kind = type(content)
        return {"type": f"{kind.__module__}:{kind.__qualname__}", "fingerprint": fingerprint_value(content)}


def without_secrets(value: Any) -> Any:
    """Return a value of JSON without the values of fields that have secret names."""
    if value.__class__ is list:
        return [without_secrets(item) for item in value]
    if value.__class__ is not dict:
        return value
    return {key: _LEFT_OUT if _SECRET_FIELD.fullmatch(key) else without_secrets(item) for key, item in value.items()}
