"""Snapshot cases and FileCheck comments: tests of passes that are text files."""

import io
import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apass.core.adapter import adapter_by_suffix, adapter_for
from apass.core.ir_plugin import file_suffix, known_suffixes
from apass.errors import ApassError, MissingExtraError, did_you_mean
from apass.testing.running import load_model, parse_module, run_pass
from apass.util.files import write_whole
from apass.util.text_diff import diff_texts

__all__ = ["CASE_SUFFIX", "Case", "CaseError", "RunLine", "has_run_lines", "read_run_lines"]

CASE_SUFFIX: Final = ".case"
"""The file name extension of snapshot cases."""

_HEADING: Final = re.compile(r"^-- (pipeline|settings|input(?:\.\w+)?|output) --[ \t]*(?:\n|\Z)", re.MULTILINE)
_SECTIONS: Final = ("pipeline", "settings", "input", "output")
_ANY_HEADING: Final = re.compile(r"^-- (\S+) --[ \t]*$", re.MULTILINE)
_RUN: Final = re.compile(r"\bRUN:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_OPTION: Final = re.compile(r"\s--?(\S+)$")
_COLOR: Final = re.compile("\x1b\\[[0-9;]*m")

_HEAD: Final = 2**16
"""Bytes at the start of a model file in which RUN lines are looked for before the file is read."""


class CaseError(ApassError, ValueError):
    """A case that cannot run, such as one with an invalid section or input."""


@dataclass(frozen=True, slots=True)
class Case:
    r"""A snapshot case: a pipeline, a module, and the text of the result.

    >>> text = '''A comment.
    ... -- pipeline --
    ... Repeat(PrintIR)
    ... -- input.json --
    ... {"f": "x"}
    ... -- output --
    ... f: x
    ... '''
    >>> Case.parse(text, Path("print.case")).output
    'f: x\n'

    """

    path: Path
    """The file."""
    head: str
    """The text before the output, which an update leaves as it is."""
    pipeline: str
    """The text of the pipeline."""
    settings: Mapping[str, Any]
    """`opt_level`, and config options by key."""
    suffix: str
    """The suffix of the format of the input; empty if the input is the path of a model file."""
    input: str
    """The text of the module, or the path of its file."""
    output: str | None
    """The text of the result; None if it has never been written."""

    @classmethod
    def read(cls, path: Path) -> "Case":
        """Read a case from a file.

        Raises:
            CaseError: if the file is not a case.

        """
        return cls.parse(path.read_text(encoding="utf-8"), path)

    @classmethod
    def parse(cls, text: str, path: Path) -> "Case":
        """Parse the text of a case.

        Raises:
            CaseError: if a section is missing, appears twice or has an invalid value. The message gives the path.

        """
        before_output, _, _ = text.partition("\n-- output --")
        marks = [mark for mark in _HEADING.finditer(text) if mark.start() <= len(before_output) + 1]
        sections: dict[str, str] = {}
        for mark, following in zip(marks, [*marks, None][1:], strict=True):
            name, _, suffix = mark[1].partition(".")
            if name in sections:
                raise CaseError(f"{path} has two sections {name!r}; expected one")
            sections[name] = text[mark.end() : len(text) if following is None else following.start()]
            if name == "input":
                sections["suffix"] = f".{suffix}" if suffix else ""
        for word in _ANY_HEADING.findall(before_output):
            near = did_you_mean(word, _SECTIONS)
            if word.partition(".")[0] not in _SECTIONS and near:
                raise CaseError(f"{path} has the unknown section {word!r}{near}")
        for name in ("pipeline", "input"):
            if name not in sections:
                raise CaseError(f"{path} has no section {name!r}; begin one with a line `-- {name} --`")
        settings = dict(_settings(sections.get("settings", ""), path))
        head = text[: marks[-1].start()] if "output" in sections else text
        output = sections.get("output")
        return cls(path, head, sections["pipeline"].strip(), settings, sections["suffix"], sections["input"], output)

    def run(self) -> str:
        """Run the pipeline, and return the text of the result.

        Raises:
            CaseError: if the input cannot be read.
            Exception: any error of the parser of the pipeline, or of the pass.

        """
        with _input_errors(self.path):
            if self.suffix:
                mod = parse_module(self.input, self.suffix)
            else:
                mod = load_model(self.path.parent / self.input.strip())
        return _result_text(self.pipeline, mod, self.settings)

    def check(self) -> None:
        """Assert that the result has the text in the file.

        Raises:
            AssertionError: if it has another one; the message is a diff.

        """
        # Reading a file turns every line end into "\n".
        actual = self.run().replace("\r\n", "\n").replace("\r", "\n")
        if self.output is None:
            raise AssertionError(f"{self.path} has no output; run pytest with --apass-update to write it:\n{actual}")
        if actual.strip("\n") != self.output.strip("\n"):
            diff = diff_texts(self.output.strip("\n"), actual.strip("\n"))
            update = "run pytest with --apass-update if the actual output is right"
            raise AssertionError(f"{self.path} has another output; {update}\n--- expected\n+++ actual\n{diff}")

    def update(self) -> bool:
        """Write the text of the result into the file; return whether the file changed."""
        head = self.head if self.head.endswith("\n") else f"{self.head}\n"
        text = head + "-- output --\n" + self.run().strip("\n") + "\n"
        changed = text != self.path.read_text(encoding="utf-8")
        if changed:
            try:
                write_whole(self.path, text)
            except UnicodeEncodeError as error:  # raised before anything is written
                character = ascii(text[error.start])
                message = f"{self.path}: the result has the lone surrogate {character}, which UTF-8 has no bytes for"
                raise CaseError(message) from None
        return changed


@dataclass(frozen=True, slots=True)
class RunLine:
    """A line `RUN: PIPELINE [--opt-level=N] [OPTIONS]` in a model file.

    The other lines of the file hold the directives of FileCheck. Options other than `--opt-level` are those of
    FileCheck, such as `--check-prefix=FOLD`.
    """

    path: Path
    """The model file."""
    text: str
    """The text after `RUN:`."""

    def check(self) -> None:
        """Assert that the text of the result satisfies the directives in the file.

        Raises:
            AssertionError: if it does not; the message is that of FileCheck.
            MissingExtraError: if filecheck is not installed.
            CaseError: if the model cannot be read, or an option is invalid.
            Exception: any error of the parser of the pipeline, or of the pass.

        """
        pipeline, options = self.text, list[str]()
        while match := _OPTION.search(pipeline):
            options.insert(0, match[0].strip())
            pipeline = pipeline[: match.start()].rstrip()
        levels = [option for option in options if option.startswith("--opt-level=")]
        settings = {"opt_level": _setting("opt_level", levels[-1].partition("=")[2], self.path)} if levels else {}
        with _input_errors(self.path):
            mod = load_model(self.path)
        actual = _result_text(pipeline, mod, settings)
        message = _filecheck(self.path, actual, [option for option in options if option not in levels])
        if message:
            raise AssertionError(f"RUN: {self.text}\n{message}\nthe result is\n{actual}")


def has_run_lines(path: Path) -> bool:
    """Return whether a file is a model file of a known format with `RUN:` lines."""
    with path.open("rb") as file:
        is_candidate = b"RUN:" in file.read(_HEAD)
    suffix = file_suffix(path)
    return is_candidate and (suffix in known_suffixes() or adapter_by_suffix(suffix) is not None)


def read_run_lines(path: Path) -> list[RunLine]:
    """Return the `RUN:` lines of a text file; none if it is a binary file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return []
    return [RunLine(path, match[1]) for match in _RUN.finditer(text)]


@contextmanager
def _input_errors(path: Path) -> Generator[None]:
    """Raise CaseError, which names the case, for any error of a reader."""
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:
        raise CaseError(f"{path}: cannot read the input: {type(error).__name__}: {error}") from error


def _result_text(pipeline: str, mod: Any, settings: Mapping[str, Any]) -> str:
    config = {key: value for key, value in settings.items() if key != "opt_level"}
    result = run_pass(pipeline, mod, opt_level=settings.get("opt_level", 2), config=config)
    return adapter_for(result).to_text(result)


def _settings(text: str, path: Path) -> Iterator[tuple[str, Any]]:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if line.strip() and not colon:
            raise CaseError(f"{path} has the setting {line!r}; expected `key: value`")
        if line.strip():
            yield key.strip(), _setting(key.strip(), value.strip(), path)


def _setting(key: str, value: str, path: Path) -> Any:
    try:
        parsed: object = json.loads(value)
    except json.JSONDecodeError as error:
        raise CaseError(f"{path} sets {key} to {value!r}; expected a JSON value ({error})") from None
    if key == "opt_level" and type(parsed) is not int:
        raise CaseError(f"{path} sets opt_level to {value}; expected an integer")
    return parsed


def _filecheck(path: Path, text: str, options: list[str]) -> str:
    """Return the message of FileCheck; empty if all directives are satisfied."""
    try:
        from filecheck.finput import FInput
        from filecheck.matcher import Matcher
        from filecheck.options import parse_argv_options
        from filecheck.parser import Parser
    except ImportError as error:
        raise MissingExtraError(f"RUN lines need filecheck ({error}): pip install 'apass[testing]'") from error
    try:
        parsed = parse_argv_options(["filecheck", *options, str(path)])
    except (RuntimeError, TypeError) as error:
        raise CaseError(f"{path} has invalid options of FileCheck, {' '.join(options)}: {error}") from None
    matching = Matcher(parsed, FInput("result", text), Parser.from_opts(parsed))
    matching.stderr = io.StringIO()
    failed = matching.run()
    return _COLOR.sub("", matching.stderr.getvalue()).strip() or "FileCheck failed" if failed else ""
