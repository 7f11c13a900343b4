"""`write_job_reproducer`: a failed job as a reproducer, for `apass replay`."""

import builtins
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anyio.to_thread import run_sync

from apass import errors
from apass.concurrency.backend import backend_name
from apass.core.adapter import type_name
from apass.core.context import PassContext
from apass.errors import ReproducerError
from apass.instruments.reproducer.capture import context_fields
from apass.instruments.reproducer.folder import Failure, Reproducer, dump_module, write_reproducer
from apass.service.jobs import JobFailure, JobRecord
from apass.service.work import Work, read_model

__all__ = ["write_job_reproducer"]

SEQUENTIAL: Final = "sequential"
"""The name of a pipeline without a name."""


async def write_job_reproducer(record: JobRecord, model: bytes, pipelines: Mapping[str, str], folder: Path) -> Path:
    """Write what is needed to repeat the failure of a job, and return the folder.

    It is the model with the whole pipeline, because the input of the pass that failed was lost with its worker.

    Parameters:
        record: a job that has failed.
        model: its model.
        pipelines: the texts of named pipelines; an empty text is the default of the model's IR.
        folder: the folder to write; a number is added if it exists.

    Raises:
        ReproducerError: if the job has not failed.
        AdapterError: if the model cannot be read here.

    """
    if record.failure is None:
        raise ReproducerError(f"job {record.id} is {record.state}; a reproducer repeats the failure of a job")
    text = pipelines.get(record.pipeline, record.pipeline)
    return await run_sync(_write, record, record.failure, model, text, backend_name(), folder)


def _write(record: JobRecord, failure: JobFailure, model: bytes, text: str, backend: str, folder: Path) -> Path:
    work = Work(record.id, record.name, record.kind, record.result_kind, model, None, record.options, None, None)
    mod, default = read_model(work)
    suffix, data, facts = dump_module(mod)
    # A job keeps the class name of the error.
    owner = next((module for module in (errors, builtins) if hasattr(module, failure.kind)), None)
    options = record.options
    ctx = PassContext(options.opt_level, options.required_pass, options.disabled_pass, config=options.config)
    reproducer = Reproducer(
        pass_name=failure.pass_name or SEQUENTIAL,
        # A replay runs one pass. The line end closes a comment.
        pipeline=f"Sequential({text or default}\n)",
        rest="",
        defined_in=None,
        module=record.name or None,
        position=f"0:{SEQUENTIAL}",
        function=failure.function,
        failure=Failure(type=f"{owner.__name__}.{failure.kind}" if owner else failure.kind, message=failure.message),
        **context_fields(ctx, backend),
        module_type=type_name(mod),
        module_file=f"module{suffix}",
        facts=facts,
        trouble=None,
    )
    return write_reproducer(folder, reproducer, data, "\n".join([failure.message, *failure.notes, ""]))
