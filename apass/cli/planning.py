"""What a command line asks for, worked out before anything is read: which models, how each is treated, and where to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apass.cli.formats import SUFFIXES, ModelFormat, format_of
from apass.cli.inputs import InputError, Job, find_models, plan_jobs
from apass.cli.optimize import Treatment
from apass.passes.base import Pass
from apass.pipelines.parser import parse_pipeline

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done."""

    jobs: Sequence[Job]
    """The models, and where the results go."""
    formats: Mapping[str, ModelFormat]
    """How models are read and written, by the endings of their files."""
    passes: Mapping[str, Pass[Any]]
    """What is done to them, by the same."""

    def treatment_of(self, job: Job) -> Treatment:
        """Return what happens to one model."""
        return self.formats[job.source.suffix], self.passes[job.source.suffix]


def make_plan(
    models: Sequence[str], output: Path | None, pipeline: str | None, *, in_place: bool, to: str | None
) -> Plan:
    """Return what the arguments ask for; without a pipeline, each kind of model gets its own.

    Raises:
        InputError: if models are not there, results have no place to go, or options exclude each other.
        PipelineSyntaxError: if the text of the pipeline does not parse.
        UnknownPassError: if it names a pass that is not there.
        MissingExtraError: if the library for a kind of model is not installed.

    """
    for option, given in (("-o", output), ("--to", to)):
        if in_place and given is not None:
            raise InputError(f"--in-place and {option} exclude each other")
    suffix = None if to is None else f".{to}"
    jobs = plan_jobs(find_models(models, SUFFIXES, output), output, in_place=in_place, suffix=suffix)
    formats = {job.source.suffix: format_of(job.source, suffix) for job in jobs}
    texts = {kind: one.DEFAULT_PIPELINE if pipeline is None else pipeline for kind, one in formats.items()}
    return Plan(jobs, formats, {kind: parse_pipeline(text) for kind, text in texts.items()})
