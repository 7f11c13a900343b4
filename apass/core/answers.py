"""`RecordedAnswers`: gives answers from outside of the program again.

A file of answers has one JSON object in each line, the first of which names the format.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeVar, final

from apass.core.instrument import Hooks
from apass.core.run import Run, current_run
from apass.errors import AnswersError, BudgetExceededError, HelperError, UnknownAnswerError
from apass.util.fingerprint import fingerprint_value
from apass.util.tagged_json import reachable_types, read_tagged, write_tagged
from apass.util.text import shorten, text_of_error
from apass.util.typed_values import convert

__all__ = [
    "ANSWERS_FILE",
    "FORMAT",
    "Answer",
    "AnswerCursor",
    "Codec",
    "Question",
    "RecordedAnswers",
    "answer_to",
    "tagged_codec",
]

R = TypeVar("R")

ANSWERS_FILE: Final = "answers.jsonl"
"""The name of the file in a folder of recorded answers."""

FORMAT: Final = 1
"""Version of the file format, in the first line."""

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
    return Codec(
        lambda answer: json.loads(write_tagged(answer, known)), lambda value: read_tagged(json.dumps(value), known)
    )


@final
class Question:
    """A question to something outside of the program.

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
        self.name: Final = _SECRET_IN_NAME.sub(rf"\g<before>{_LEFT_OUT}", name)
        """The name of what answers, without secrets."""
        self._content = content

    @cached_property
    def content(self) -> Any:
        """The question as a value of JSON, without secrets."""
        return _without_secrets(_as_json(self._content))

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

    def as_text(self) -> str:
        """Return the line of a file, a JSON object.

        An answer that its codec cannot convert is left out, with the reason in its place.
        """
        run = self.run
        line: dict[str, Any] = {
            "kind": self.question.kind,
            "name": self.question.name,
            "question": self.question.content,
            "module": None if run is None else run.module,
            "passes": [] if run is None else list(run.path),
            "function": None if run is None else run.function,
        }
        if self.error is not None:
            kind = type(self.error)
            name = f"{kind.__module__}:{kind.__qualname__}"
            line["error"] = {"type": name, "message": text_of_error(self.error)}
        else:
            try:
                line["answer"] = _without_secrets(self.codec.dumps(self.value))
            except (TypeError, ValueError) as reason:
                line["left_out"] = str(reason)
        return json.dumps({**line, "digest": _digest(line)}, ensure_ascii=False)


def _digest(line: Mapping[str, Any]) -> str:
    """Return the digest of the other fields of a line."""
    text = json.dumps(line, sort_keys=True)
    return blake2b(text.encode(), digest_size=8, person=b"apass answers").hexdigest()


@dataclass(frozen=True, slots=True)
class _Recorded:
    """One line of a file."""

    line: int
    asker: tuple[Any, ...]
    contents: Mapping[str, Any]

    def unwrap(self, path: Path, codec: Codec) -> Any:
        """Return the answer, or raise the error."""
        if "error" in self.contents:
            raise _error_of(self.contents["error"])
        try:
            return codec.loads(self.contents["answer"])
        except (TypeError, ValueError) as error:
            raise AnswersError(f"{path}, line {self.line}: this is no answer: {error}") from error


@final
class RecordedAnswers:
    """Answers that a run has recorded, for `PassContext(replay_answers=...)`.

    An answer is found by kind and name of what is asked, and by the question. If the same question had several answers,
    they are given in the order of the file: those that the same pass received for the same function first. After the
    last one, it is given again. Errors are raised again. If the class of an error is not imported, the error is a
    HelperError of that name.

    The file may come from a stranger: reading it imports nothing and runs no code.

    Parameters:
        path: the folder that was given to `record`, or the file in it.
        unknown: what a question without an answer does: `"error"` raises an UnknownAnswerError, `"ask"` asks.

    Raises:
        AnswersError: if the file cannot be read or has an invalid line. A last line that was not written to its end is
            left out.

    """

    def __init__(self, path: Path | str, *, unknown: Literal["error", "ask"] = "error") -> None:
        if unknown not in ("error", "ask"):
            raise ValueError(f"unknown must be 'error' or 'ask', got {unknown!r}")
        given = Path(path)
        self.path: Final = given / ANSWERS_FILE if given.is_dir() else given
        """The file."""
        self.unknown: Final = unknown
        """What a question without an answer does."""
        self._by_key: Final = MappingProxyType(_read(self.path))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path, self.unknown)

    def __repr__(self) -> str:
        return f"RecordedAnswers({str(self.path)!r}, unknown={self.unknown!r})"

    def __len__(self) -> int:
        """Return the number of answers."""
        return sum(map(len, self._by_key.values()))

    def get(self, question: Question) -> Sequence[_Recorded]:
        """Return the answers to a question, in the order of the file."""
        return self._by_key.get(question.key, ())


class AnswerCursor:
    """Gives the recorded answers to one context, in order."""

    def __init__(self, answers: RecordedAnswers) -> None:
        self._answers = answers
        self._given: Counter[tuple[str, Any]] = Counter()

    def find(self, question: Question, run: Run | None, codec: Codec) -> Callable[[], Any] | None:
        """Return a function that returns the answer or raises the error.

        Return None if the question is to be asked.

        Raises:
            UnknownAnswerError: if no answer is recorded, and unknown questions are errors.

        """
        recorded = self._answers.get(question)
        if recorded:
            label, matches = _best_matches(recorded, run)
            index = self._given[question.key, label]
            self._given[question.key, label] += 1
            found = matches[min(index, len(matches) - 1)]
            # An answer that could not be written is computed again.
            return None if "left_out" in found.contents else lambda: found.unwrap(self._answers.path, codec)
        if self._answers.unknown == "ask":
            return None
        raise UnknownAnswerError(
            f"{self._answers.path} has no answer to the question to {question}; record the run again, or let unknown "
            "questions through with unknown='ask' (--unknown-answers ask)"
        )


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


def _best_matches(recorded: Sequence[_Recorded], run: Run | None) -> tuple[object, Sequence[_Recorded]]:
    """Return the answers to a question that fit a run best.

    Return what they have in common as well.
    """
    if run is not None:
        asker = (run.module, run.path, run.function)
        same = [item for item in recorded if item.asker == asker]
        if same:
            return asker, same
        # The pass may run in another pipeline, as in a replay of this pass alone.
        alike = [item for item in recorded if (item.asker[1][-1:], item.asker[2]) == (run.path[-1:], run.function)]
        if alike:
            return asker[1:], alike
    return None, recorded


def _read(path: Path) -> dict[str, list[_Recorded]]:
    by_key: dict[str, list[_Recorded]] = {}
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                # The program may have been killed while it wrote the last line.
                if not line.endswith("\n"):
                    break
                contents = _line(path, number, line)
                if number == 1:
                    if contents.get("format") != FORMAT:
                        raise AnswersError(f"{path} was written by another version of apass; record the run again")
                    continue
                key = json.dumps([contents["kind"], contents["name"], contents["question"]], sort_keys=True)
                asker = (contents["module"], tuple(contents["passes"]), contents["function"])
                by_key.setdefault(key, []).append(_Recorded(number, asker, contents))
    except OSError as error:
        raise AnswersError(f"cannot read the recorded answers in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AnswersError(f"{path} is no file of recorded answers: {error}") from error
    return by_key


_FIELDS: Final[Mapping[str, Any]] = MappingProxyType(
    {"kind": str, "name": str, "question": Any, "module": str | None, "passes": list[str], "function": str | None}
)


def _line(path: Path, number: int, text: str) -> Mapping[str, Any]:
    """Return the checked contents of a line."""
    try:
        contents: Any = json.loads(text)
        if contents.__class__ is not dict:
            raise TypeError(f"expected a JSON object, got {shorten(text.strip())}")
        fields: dict[str, Any] = contents
        if number == 1:
            return fields
        for name, kind in _FIELDS.items():
            if name not in fields:
                raise TypeError(f"the field {name!r} is missing")
            convert(fields[name], kind)
        ends = {"answer", "error", "left_out"}
        if len(ends & fields.keys()) != 1:
            raise TypeError("expected one of the fields 'answer', 'error' and 'left_out'")
        if unknown := fields.keys() - _FIELDS.keys() - ends - {"digest"}:
            raise TypeError(f"unknown field {min(unknown)!r}")
        rest = {name: value for name, value in fields.items() if name != "digest"}
        if "digest" in fields and fields["digest"] != _digest(rest):
            raise TypeError("the contents are damaged or edited; remove the field 'digest' of a line that you edit")
        if "error" in fields:
            convert(fields["error"], dict[str, str])
    except (TypeError, ValueError, RecursionError) as error:
        raise AnswersError(f"{path}, line {number}: {text_of_error(error)}") from None
    return fields


def _reopen(path: Path, unknown: Literal["error", "ask"]) -> RecordedAnswers:
    return RecordedAnswers(path, unknown=unknown)


def _as_json(content: object) -> Any:
    try:
        return json.loads(write_tagged(content, reachable_types([type(content)])))
    except TypeError:
        kind = type(content)
        return {"type": f"{kind.__module__}:{kind.__qualname__}", "fingerprint": fingerprint_value(content)}


def _without_secrets(value: Any) -> Any:
    """Return a value of JSON without the values of fields that have secret names."""
    if value.__class__ is list:
        return [_without_secrets(item) for item in value]
    if value.__class__ is not dict:
        return value
    return {key: _LEFT_OUT if _SECRET_FIELD.fullmatch(key) else _without_secrets(item) for key, item in value.items()}


def _error_of(contents: Mapping[str, str]) -> Exception:
    """Return an error like the one that was recorded."""
    module, _, name = contents.get("type", "").partition(":")
    message = contents.get("message", "")
    # Nothing is imported, and no constructor is called: the file may come from a stranger.
    kind: Any = sys.modules.get(module)
    for part in name.split("."):
        kind = getattr(kind, part, None)
    error: Exception | None = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        built_in: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        with suppress(TypeError):  # such as an ExceptionGroup, which needs more than a message
            error = built_in.__new__(kind, message)
    if error is None:
        # The name alone is restored, so that a replay recognizes the failure.
        stand_in: Any = type(name.rpartition(".")[2] or "HelperError", (HelperError,), {"__module__": module})
        stand_in.__qualname__ = name
        error = stand_in.__new__(stand_in, message)
    assert error is not None
    error.args = (message,)
    return error
