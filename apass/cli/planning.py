"""The plan of a run: the models, their pipelines and the paths of the results."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apass.batch.formats import ModelFormat, check_format, format_of, suffixes
from apass.cli.inputs import Job, find_models, names_file, plan_jobs
from apass.cli.optimize import Treatment
from apass.core.ir_plugin import file_suffix
from apass.errors import InputError, MissingExtraError, PipelineSyntaxError, did_you_mean
from apass.passes.base import Pass
from apass.pipelines.parser import is_plain, parse_pipeline
from apass.pipelines.syntax import prefix_of

__all__ = [
    "Plan",
    "check_formats",
    "default_pipeline",
    "default_pipelines",
    "make_plan",
    "pipeline_contents",
    "pipeline_text",
    "plan_files",
    "read_pipeline",
    "result_format",
]

_COMMENT: Final = re.compile(r"#[^\n]*")

MOST_CHARACTERS: Final = 2**20
"""Maximum length of a pipeline in a file; a device may have no end."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The models of a run, and how each is processed."""

    jobs: Sequence[Job]
    """The models and the paths of their results."""
    formats: Mapping[str, ModelFormat]
    """How models are read and written, by file suffix."""
    passes: Mapping[str, Pass[Any]]
    """The pipelines, by file suffix."""

    def treatment_of(self, job: Job) -> Treatment:
        """Return the format and the pipeline of one model."""
        return self.formats[job.suffix], self.passes[job.suffix]


def result_format(output: Path | None, to: str | None) -> str | None:
    """Return the format of the results, which `--to` or the file of `-o` names.

    It is in lower case; None if it is that of each model.

    Raises:
        InputError: if `--to` names no format, both name different ones, or `-o` has a misspelt suffix.

    """
    known = [suffix.removeprefix(".") for suffix in suffixes()]
    if to is not None and to.lower() not in known:
        raise InputError(f"--to {to} names no format of model files; expected one of {', '.join(sorted(known))}")
    if output is None or not names_file(output, suffixes()):
        if output is not None and output.suffix and not output.is_dir():
            hint = did_you_mean(file_suffix(output), suffixes())
            if hint:
                raise InputError(f"-o {output} has the suffix of no model{hint} for a folder, create it first")
        return None if to is None else to.lower()
    if to is not None and file_suffix(output) != f".{to.lower()}":
        raise InputError(f"-o {output} and --to {to} name different formats; leave out --to, or change the suffix")
    return file_suffix(output).removeprefix(".")


def default_pipelines(suffix: str | None) -> Iterator[tuple[str, str | MissingExtraError]]:
    """Iterate over the formats, such as `onnx`, and their default pipelines.

    If `suffix` is None, iterate over all formats. One without its library has the error.

    Raises:
        InputError: if no format has the suffix.
        MissingExtraError: if the library of the format `suffix` is not installed.

    """
    for known in suffixes() if suffix is None else (suffix,):
        name = known.removeprefix(".")
        try:
            model_format = format_of(Path(f"model{known}"))
            default = model_format.default_pipeline if suffix is None else default_pipeline(model_format, known)
            if default and suffix is None:
                read_pipeline(default)  # its passes may need a library or a program
        except MissingExtraError as error:
            if suffix is not None:
                raise
            yield name, error
            continue
        if default:
            yield name, default


def plan_files(models: Sequence[str], output: Path | None, *, in_place: bool, to: str | None) -> list[Job]:
    """Return the models of a run and the paths of their results.

    Nothing is read or imported.

    Parameters:
        models: files, directories and globs.
        output: the directory of the results, or the file of one result; None to write them beside the models.
        in_place: whether results replace their models.
        to: the format of the results; None for that of each model.

    Raises:
        InputError: if models are missing, results cannot be written, or options exclude each other.

    """
    for option, value in (("-o", output), ("--to", to)):
        if in_place and value is not None:
            raise InputError(f"--in-place and {option} cannot be used together")
    suffix, known = None if to is None else f".{to}", suffixes()
    found = find_models(models, known, output)
    file = output if names_file(output, known) else None
    return plan_jobs(found, output, in_place=in_place, suffix=suffix, file=file)


def make_plan(jobs: Sequence[Job], pipeline: str | None, to: str | None) -> Plan:
    """Return the plan of a run. No model is read.

    If `pipeline` is None, each model format uses its default pipeline. The conversions to `to` are added to pipelines.

    Raises:
        InputError: if no format has the suffix of a model.
        PipelineSyntaxError: if the text of the pipeline is empty or does not parse.
        UnknownPassError: if the pipeline names an unknown pass.
        MissingExtraError: if the library for a model format is not installed.

    """
    suffix = None if to is None else f".{to}"
    given = None if pipeline is None else read_pipeline(pipeline)
    formats: dict[str, ModelFormat] = {}
    passes: dict[str, Pass[Any]] = {}
    for source, job in _by_suffix(jobs).items():
        formats[source] = format_of(job.source, suffix, given)
        chosen = given or read_pipeline(default_pipeline(formats[source], source))
        passes[source] = formats[source].with_conversions(chosen)
    return Plan(jobs, formats, passes)


def default_pipeline(model_format: ModelFormat, suffix: str) -> str:
    """Return the pipeline that runs if none is given.

    Raises:
        InputError: if the IR plug-in of the suffix has none.

    """
    if not model_format.default_pipeline:
        raise InputError(f"{suffix} files have no default pipeline; give one with -p")
    return model_format.default_pipeline


def check_formats(jobs: Iterable[Job], to: str | None, pipeline: str | None) -> Mapping[str, str | None]:
    """Return the suffix of results, by that of a file; None if it is the same.

    No format is imported.

    Raises:
        InputError: if no format has the suffix of a model.

    """
    suffix = None if to is None else f".{to}"
    results: dict[str, str | None] = {}
    for source, job in _by_suffix(jobs).items():
        check_format(job.source, suffix, pipeline)
        results[source] = suffix
    return results


def _by_suffix(jobs: Iterable[Job]) -> Mapping[str, Job]:
    """Return one job for each suffix."""
    return {job.suffix: job for job in jobs}


def pipeline_text(text: str, suffixes: Iterable[str] = ()) -> str:
    """Return the text of a pipeline in the language of apass.

    `@FILE` is replaced by the contents of the file, and the language of a compiler is translated.

    Parameters:
        text: the value of the option.
        suffixes: the suffixes of the models, which decide about the language of a text without a prefix.

    Raises:
        InputError: if the file cannot be read, is too large, or contains no pass.
        PipelineSyntaxError: if no language can read the text, or several can.

    """
    contents = pipeline_contents(text)
    if _is_empty(contents[prefix_of(contents)[1] :]):
        return ""
    if is_plain(contents):
        return contents
    # A Sequential without passes has an empty text.
    return str(parse_pipeline(contents, suffixes=sorted(set(suffixes)))) or "Sequential"


def pipeline_contents(text: str) -> str:
    """Return the text of a pipeline; `@FILE` is replaced by the contents of the file.

    Raises:
        InputError: if the file cannot be read, is too large, or contains no pass.

    """
    if not text.startswith("@"):
        return text
    path = text.removeprefix("@")
    try:
        # Some editors begin a file with a byte order mark.
        with Path(path).open(encoding="utf-8-sig") as file:
            contents = file.read(MOST_CHARACTERS + 1)
    except OSError as error:
        raise InputError(f"cannot read the pipeline {text}: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, or a path with a null byte
        raise InputError(f"cannot read the pipeline {text}: {error}") from None
    if len(contents) > MOST_CHARACTERS:
        limit = f"at most {MOST_CHARACTERS:,} characters"
        raise InputError(f"cannot read the pipeline {text}: the file is too large; expected {limit}")
    if _is_empty(contents):
        raise InputError(f"the pipeline {text} is empty; expected the name of a pass in the file")
    return contents


def read_pipeline(text: str) -> Pass[Any]:
    """Return the pass of the option `--pipeline`.

    Raises:
        PipelineSyntaxError: if the text contains no pass, or does not parse.
        UnknownPassError: if it names an unknown pass.

    """
    # `parse_pipeline` accepts such a text: it is that of an empty Sequential. On a command line it is a mistake, such
    # as an unset variable of the shell.
    if _is_empty(text):
        raise PipelineSyntaxError("the pipeline is empty; expected the name of a pass", text, 0)
    return parse_pipeline(text)


def _is_empty(text: str) -> bool:
    return not _COMMENT.sub("", text).strip()
