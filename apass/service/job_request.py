"""`JobRequest`: what a caller asks for, checked before a job is made of it."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import time
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync

from apass.batch.formats import suffixes
from apass.core.adapter import adapter_by_name, adapter_for, run_in_thread_if_safe, type_name
from apass.core.context import PassContext
from apass.core.ir_plugin import file_suffix
from apass.errors import ApassError, did_you_mean
from apass.service.errors import InvalidJobError, ModelTooLargeError
from apass.service.job_store import Blob, blob_of_file
from apass.service.jobs import JobOptions, JobRecord, check_deadline, is_file_kind, job_key, new_job_id
from apass.service.limits import Limits
from apass.service.work import INLINE
from apass.util.checks import check_type
from apass.util.text import shorten

__all__ = ["JobRequest", "context_of", "request_key"]

LONGEST_NAME: Final = 300
"""Characters of names."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What a caller asks for; see `Optimizer.submit`."""

    model: Any
    kind: str | None
    result_kind: str | None
    pipeline: str
    name: str
    tenant: str
    priority: int
    deadline: float | None
    options: JobOptions
    idempotency_key: str | None
    wait: bool
    trace: str | None

    @property
    def is_file(self) -> bool:
        """Whether the model is a file, and not a module."""
        return isinstance(self.model, bytes | Path)

    def check(self, limits: Limits) -> None:
        """Check the values that need no file and no pipeline.

        Raises:
            InvalidJobError: if one is invalid.

        """
        try:
            check_type("kind", self.kind, str | None)
            check_type("result_kind", self.result_kind, str | None)
            check_type("options", self.options, JobOptions)
            check_type("wait", self.wait, bool)
            check_deadline(self.deadline)
            if not isinstance(self.priority, int) or isinstance(self.priority, bool) or abs(self.priority) > 1000:
                raise ValueError(f"priority must be an int between -1000 and 1000, got {self.priority!r}")
            _check_text("name", self.name)
            _check_text("tenant", self.tenant)
            _check_text("idempotency_key", "" if self.idempotency_key is None else self.idempotency_key)
            _check_text("trace", "" if self.trace is None else self.trace)
            if self.options.config:
                json.dumps(self.options.as_json())
        except (TypeError, ValueError) as error:
            raise InvalidJobError(str(error)) from error
        if self.options.config or self.options.required_pass or self.options.disabled_pass:
            context_of(self.options, limits)

    def seconds(self, limits: Limits) -> float | None:
        """Return how long the job may take.

        Raises:
            InvalidJobError: if the deadline exceeds the longest one.

        """
        longest = limits.max_deadline
        seconds = limits.deadline if self.deadline is None else self.deadline
        if longest is not None and (seconds is None or seconds > longest):
            if self.deadline is not None:
                raise InvalidJobError(f"deadline must be at most {longest:g} s here, got {self.deadline:g} s")
            return longest
        return None if seconds == float("inf") else seconds

    async def read(self, limits: Limits) -> tuple[str, str, Blob]:
        """Return the kinds and the bytes of the model.

        Raises:
            InvalidJobError: if the kind is unknown, or the model cannot be read or serialized.
            ModelTooLargeError: if the model exceeds the limit.

        """
        model = self.model
        if not self.is_file:
            kind, data = await self._serialized()
            await _check_size(data, limits.model_bytes)
            return kind, kind, Blob.of(data)
        kind = (file_suffix(model) if isinstance(model, Path) else "") if self.kind is None else self.kind.lower()
        result_kind = kind if self.result_kind is None else self.result_kind.lower()
        known = suffixes()
        for suffix in (kind, result_kind):
            if suffix not in known:
                near = did_you_mean(suffix, known) or f"; known are {', '.join(known)}"
                raise InvalidJobError(f"there is no format of models for the suffix {suffix!r}{near}")
        try:
            size = await _check_size(model, limits.model_bytes)
            if isinstance(model, Path):
                if size > INLINE:
                    return kind, result_kind, await blob_of_file(model)
                model = await anyio.Path(model).read_bytes()
        except OSError as error:
            raise InvalidJobError(f"cannot read {str(model)!r}: {error}") from error
        return kind, result_kind, await run_sync(Blob.of, model) if size > INLINE else Blob.of(model)

    async def _serialized(self) -> tuple[str, bytes]:
        """Return the name of the class of a module, and its bytes."""
        model = self.model
        if isinstance(model, str):
            raise InvalidJobError(
                f"model must be a module, bytes or a path, got the text {shorten(model)!r}; "
                f"write Path(...) for the name of a file, and encode the text of a model"
            )
        if self.kind is not None or self.result_kind is not None:
            raise InvalidJobError(
                f"kind and result_kind are those of bytes and paths; a module has its own, got {type_name(model)}"
            )
        try:
            adapter = adapter_for(model)
            data = await run_in_thread_if_safe(adapter, model, partial(adapter.dumps, model))
        except ApassError as error:
            hint = "submit the bytes of a model's file with kind='.suffix', or its path, or a module of a known type"
            raise InvalidJobError(f"an object of {type_name(model)} cannot be a job; {hint}; {error}") from error
        if adapter_by_name(type_name(model)) is None:
            raise InvalidJobError(f"the class {type_name(model)} of the module cannot be found by its name")
        return type_name(model), data

    def record(self, kind: str, result_kind: str, blob: Blob, pipeline_key: str, seconds: float | None) -> JobRecord:
        """Return the record of a new job.

        Parameters:
            kind: that of the model.
            result_kind: that of the result.
            blob: the model.
            pipeline_key: what results depend on, besides the model and the options.
            seconds: how long it may take.

        """
        now = time()
        # The name of a file may not be valid text.
        file = self.model.name.encode(errors="replace").decode() if isinstance(self.model, Path) else "model"
        return JobRecord(
            id=new_job_id(),
            tenant=self.tenant,
            name=self.name or file[:LONGEST_NAME],
            kind=kind,
            result_kind=result_kind,
            pipeline=self.pipeline,
            options=self.options,
            priority=self.priority,
            deadline=None if seconds is None else now + seconds,
            key=job_key(bytes.fromhex(blob.digest), pipeline_key, self.options.as_json()),
            model_digest=blob.digest,
            model_size=blob.size,
            created=now,
            idempotency_key=self.idempotency_key,
            trace=self.trace,
        )


def context_of(options: JobOptions, limits: Limits) -> PassContext:
    """Return the context of a job with these options, without what depends on the job.

    Raises:
        InvalidJobError: if a config option is unknown, invalid, or not allowed.

    """
    forbidden = sorted(set(options.config) - limits.config)
    if forbidden:
        known = ", ".join(sorted(limits.config)) or "none"
        raise InvalidJobError(f"the config option {forbidden[0]!r} is not allowed here; allowed are: {known}")
    try:
        return PassContext(options.opt_level, options.required_pass, options.disabled_pass, config=options.config)
    except (TypeError, ValueError, ApassError) as error:
        raise InvalidJobError(str(error)) from error


def request_key(record: JobRecord) -> str:
    """Return what the request of a job has asked for.

    It is the same in each process, in contrast to the key of the job: the code of the passes may have changed.
    """
    # The kind of the result of a module is known at its end only.
    kinds = [record.kind, record.result_kind] if is_file_kind(record.kind) else [record.kind]
    return job_key(bytes.fromhex(record.model_digest), record.pipeline, kinds, record.options.as_json())


async def _check_size(model: bytes | Path, most: int | None) -> int:
    """Return the number of bytes of a model.

    Raises:
        ModelTooLargeError: if there are more than permitted.

    """
    size = len(model) if isinstance(model, bytes) else (await anyio.Path(model).stat()).st_size
    if most is not None and size > most:
        raise ModelTooLargeError(f"the model has {size:,} bytes; the limit is {most:,}")
    return size


def _check_text(what: str, text: str) -> None:
    """Check a text that a store keeps as it is."""
    check_type(what, text, str)
    if len(text) > LONGEST_NAME:
        raise ValueError(f"{what} must have at most {LONGEST_NAME} characters, got {len(text)}")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{what} must not contain a null character or a surrogate, got {text!r}")
