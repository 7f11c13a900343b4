"""`apass opt --resume-from`: continues a pipeline after a dumped pass."""

from dataclasses import replace
from pathlib import Path

from apass.batch.formats import format_of
from apass.cli.planning import Plan
from apass.core.context import PassContext
from apass.core.ir_plugin import file_suffix
from apass.errors import InputError
from apass.instruments.dump.tree import read_dumped
from apass.pipelines.resume import rest_of

__all__ = ["resume_plan"]


def resume_plan(plan: Plan, path: Path, context: PassContext) -> Plan:
    """Return the rest of `plan` after the pass whose dumped text file is `path`.

    Raises:
        ResumeError: if the file is not a dump, or the pipeline has no such pass.
        InputError: if the plan has several models.

    """
    if len(plan.jobs) != 1:
        raise InputError(f"--resume-from takes one model, got {len(plan.jobs)}; name the model that was dumped")
    dumped = read_dumped(path)
    job = plan.jobs[0]
    rest = rest_of(plan.passes[job.suffix], dumped.position, context)
    resumed = replace(job, source=dumped.data)
    model_format = format_of(dumped.data, file_suffix(job.target), rest)
    return Plan([resumed], {resumed.suffix: model_format}, {resumed.suffix: rest})
