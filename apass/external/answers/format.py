"""The file of recorded answers.

It has one JSON object in each line, the first of which names the format.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from apass.core.questions import Answer, Codec, without_secrets
from apass.errors import AnswersError, HelperError
from apass.util.text import shorten, text_of_error
from apass.util.typed_values import convert
from apass.util.version import __version__

__all__ = ["ANSWERS_FILE", "RecordedAnswer", "answers_text", "line_of", "read_answers"]

ANSWERS_FILE: Final = "answers.jsonl"
"""The name of the file in a folder of recorded answers."""

_FORMAT: Final = 1
"""Version of the file format, in the first line."""


def answers_text(lines: Iterable[str]) -> str:
    """Return the text of a file with these lines after the first one."""
    return "".join(f"{line}\n" for line in (json.dumps({"format": _FORMAT, "apass": __version__}), *lines))


def line_of(answer: Answer) -> str:
    """Return the line of a file for an answer, a JSON object.

    An answer that its codec cannot convert is left out, with the reason in its place.
    """
    run = answer.run
    line: dict[str, Any] = {
        "kind": answer.question.kind,
        "name": answer.question.name,
        "question": answer.question.content,
        "module": None if run is None else run.module,
        "passes": [] if run is None else list(run.path),
        "function": None if run is None else run.function,
    }
    if answer.error is not None:
        kind = type(answer.error)
        name = f"{kind.__module__}:{kind.__qualname__}"
        line["error"] = {"type": name, "message": text_of_error(answer.error)}
    else:
        try:
            line["answer"] = without_secrets(answer.codec.dumps(answer.value))
        except (TypeError, ValueError) as reason:
            line["left_out"] = str(reason)
    return json.dumps({**line, "digest": _digest(line)}, ensure_ascii=False)


def _digest(line: Mapping[str, Any]) -> str:
    """Return the digest of the other fields of a line."""
    text = json.dumps(line, sort_keys=True)
    return blake2b(text.encode(), digest_size=8, person=b"apass answers").hexdigest()


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One line of a file."""

    line: int
    """The number of the line."""
    asker: tuple[Any, ...]
    """Module, passes and function that asked."""
    contents: Mapping[str, Any]
    """The fields."""

    def unwrap(self, path: Path, codec: Codec) -> Any:
        """Return the answer, or raise the error."""
        if "error" in self.contents:
            raise _error_of(self.contents["error"])
        try:
            return codec.loads(self.contents["answer"])
        except (TypeError, ValueError) as error:
            raise AnswersError(f"{path}, line {self.line}: the answer cannot be read: {error}") from error


def read_answers(path: Path) -> dict[str, list[RecordedAnswer]]:
    """Return the answers of a file by the key of their question.

    Raises:
        AnswersError: if the file cannot be read or has an invalid line. A last line that was not written to its end is
            left out.

    """
    by_key: dict[str, list[RecordedAnswer]] = {}
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                # The program may have been killed while it wrote the last line.
                if not line.endswith("\n"):
                    break
                contents = _line(path, number, line)
                if number == 1:
                    if contents.get("format") != _FORMAT:
                        raise AnswersError(f"{path} was written by another version of apass; record the run again")
                    continue
                key = json.dumps([contents["kind"], contents["name"], contents["question"]], sort_keys=True)
                asker = (contents["module"], tuple(contents["passes"]), contents["function"])
                by_key.setdefault(key, []).append(RecordedAnswer(number, asker, contents))
    except OSError as error:
        raise AnswersError(f"cannot read the recorded answers in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AnswersError(f"{path} is not a file of recorded answers: {error}") from error
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
