"""`run_work`: reads one model, runs a pipeline on it, and writes the result.

It runs in the event loop of the program, or in a worker. Models are read here only, so that a server never parses one.
"""

import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.to_thread

from apass.batch.formats import ModelFormat, format_of
from apass.concurrency.interruption import is_interruption
from apass.core.adapter import IRAdapter, adapter_by_name, adapter_for, run_in_thread_if_safe, type_name
from apass.core.context import PassContext, current_scope
from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Diagnostic, DiagnosticLevel
from apass.core.instrument import pass_instrument
from apass.core.ir_plugin import plugin_for
from apass.core.run import Run, Whereabouts
from apass.core.store import Store
from apass.core.tracebacks import RemoteTraceback, hide_runner_frames
from apass.errors import AdapterError, PassCancelledError
from apass.executors.pickling import loads
from apass.instruments.report.recorder import is_thread_safe, text_of
from apass.instruments.support.events import Event, EventInstrument, EventKind
from apass.instruments.support.outcomes import inner_errors, leaves_of
from apass.passes.base import Pass
from apass.pipelines.parser import parse_pipeline
from apass.runner.changes import CHANGES, ChangeLog
from apass.service.jobs import JobFailure, JobOptions, JobSummary, is_file_kind
from apass.service.texts import TextEncoder
from apass.util.files import PartFile, completed_later, give_up
from apass.util.identity_cache import IdentityCache
from apass.util.text import shorten, text_of_error

__all__ = ["Emit", "Work", "WorkResult", "describe_failure", "read_model", "remove_files", "run_work"]

R = TypeVar("R")

Emit = Callable[[str, float, Mapping[str, Any]], None]
"""Called with the kind, the time and the data of each event of a job; see `JobEvent`."""

INLINE: Final = 1 << 20
"""Results with more bytes than this are returned in a file, if there is a folder for it."""

SMALL: Final = 1 << 16
"""Models up to this size in bytes are read and written in the event loop: a call in a thread takes longer."""

MOST_DIAGNOSTICS: Final = 100
"""Diagnostics of one job that are kept."""

LONGEST: Final = 10_000
"""Characters of a message, a note or a diagnostic that are kept."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker needs to know about a job."""

    id: str
    """The id of the job."""
    name: str
    """The label of the job."""
    kind: str
    """The suffix of model files, or the name of the class of modules."""
    result_kind: str
    """The suffix or the class of the result."""
    model: bytes | Path
    """The model, or the file that contains it."""
    pipeline: Pass[Any] | bytes | None
    """The pipeline, or its pickle; None for the default pipeline of the model's IR."""
    options: JobOptions
    """The options of the job."""
    seconds: float | None
    """The time until the deadline; None for no limit."""
    folder: Path | None
    """A folder for a large result; None if the worker has no file system in common with the server."""
    in_worker: bool = False
    """Whether the job runs in a worker."""
    has_lost_worker: bool = False
    """Whether an earlier attempt has lost its worker. Its events are then sent at once, to locate the cause."""


@dataclass(frozen=True, slots=True)
class WorkResult:
    """The outcome of a job."""

    result: bytes | Path | None
    """The result, or the file that contains it; None if the job has failed, or its result is the model itself."""
    kind: str
    """The suffix or the class of the result."""
    report: bytes | None
    """The data of the report, for `render_report`."""
    summary: JobSummary | None
    """What the job did; None if it has failed."""
    failure: JobFailure | None
    """Why it has failed; None on success."""
    seconds: float
    """Wall time from reading the model to writing the result."""
    memory: int | None = None
    """Bytes that the job needed at its peak; None if unknown."""


async def run_work(work: Work, emit: Emit, *, store: Store | None = None, executor: Any = None) -> WorkResult:
    """Do the work of a job. Only a cancellation and Ctrl-C are raised.

    Parameters:
        work: the job.
        emit: receives its events.
        store: keeps the results of passes.
        executor: runs the plain bodies of its passes.

    """
    start, remove_paths = perf_counter(), _path_remover(work)
    diagnostics = DiagnosticContext()
    report: Any = None
    instruments: list[object] = [
        _EventSender(emit, functions=work.options.functions, texts=TextEncoder() if work.options.texts else None)
    ]
    if work.options.report:
        # Few jobs write a report.
        from apass.instruments.report.instrument import ReportInstrument

        report = ReportInstrument(work.name)
        instruments.append(report)
    changes = ChangeLog()
    token = CHANGES.set(changes)
    summary, failure, result, kind = None, None, None, work.result_kind
    try:
        ctx = PassContext(
            work.options.opt_level,
            work.options.required_pass,
            work.options.disabled_pass,
            instruments,
            work.options.config,
            diag_ctx=diagnostics,
            deadline=work.seconds,
            store=store,
            executor=executor,
        )
        async with ctx:
            # The server has checked the names of passes. A warning would import all plug-ins to suggest others.
            current_scope().expected.update(ctx.required_pass, ctx.disabled_pass)
            before, after, changed, kind, result = await _transform(work)
        summary = JobSummary(
            before,
            after,
            changed,
            dict(changes.changed),
            dict(changes.stored),
            perf_counter() - start,
            _plain_diagnostics(diagnostics.diagnostics),
        )
    except BaseException as raised:
        error = _error_of_pass(raised, work)
        failure = describe_failure(error, diagnostics.diagnostics)
        notes = tuple(map(remove_paths, failure.notes))
        failure = replace(failure, message=remove_paths(failure.message), notes=notes)
        if report is not None:
            report.fail(work.name, error)
    finally:
        CHANGES.reset(token)
    data = None if report is None else _report_data(report, remove_paths)
    return WorkResult(result, kind, data, summary, failure, perf_counter() - start)


def _error_of_pass(raised: BaseException, work: Work) -> BaseException:
    """Return the error that a job has failed with.

    Raises:
        BaseException: `raised` itself, if the program is interrupted or the task is cancelled.
        PassCancelledError: if the task is cancelled, and a pass has raised an error that would end the program.

    """
    if is_interruption(raised):
        raise raised
    cancelled = anyio.get_cancelled_exc_class()
    # A deadline of -inf means that this task itself is cancelled. Otherwise the pass awaited something, such as a
    # future of asyncio, that was cancelled elsewhere: an error of this job only.
    if anyio.current_effective_deadline() == float("-inf"):
        if isinstance(raised, Exception | GeneratorExit | cancelled) or _is_group_of(raised, cancelled):
            raise raised
        # Jobs of a worker are cancelled only by a pass that ends the event loop, perhaps this one.
        if not work.in_worker:
            raise PassCancelledError(f"the pass raised {type(raised).__name__} when it was cancelled") from raised
    hide_runner_frames(raised)
    message = ""
    if isinstance(raised, cancelled):
        message = "the pass awaited something that was cancelled outside the run"
    elif isinstance(raised, SystemExit):
        message = f"the pass exited with {raised.code!r}; a pass that fails must raise an exception"
    if not message:
        return raised
    error = PassCancelledError(message)
    for note in getattr(raised, "__notes__", ()):
        error.add_note(note)
    return error


def _is_group_of(error: BaseException, kind: type[BaseException]) -> bool:
    """Return whether an exception is a group with exceptions of one kind only."""
    if not isinstance(error, BaseExceptionGroup):
        return False
    return cast("BaseExceptionGroup[BaseException]", error).split(kind)[1] is None


def _path_remover(work: Work) -> Callable[[str], str]:
    """Return a function that removes the paths of temporary files from a text.

    The label of the job replaces them.
    """

    def remove_paths(text: str) -> str:
        # Few texts have one, and to compile the pattern takes longer than some passes.
        if work.id not in text:
            return text
        path = rf"[^\s'\"]*{re.escape(work.id)}[.-]\w+(?:/(?:model|result)[.\w-]*)?"
        return re.sub(path, lambda _: work.name, text)

    return remove_paths


async def _transform(work: Work) -> tuple[int, int, bool, str, bytes | Path | None]:
    """Return nodes before, nodes after, whether the model has changed, kind, result."""
    pipeline = _loaded(work.pipeline) if isinstance(work.pipeline, bytes) else work.pipeline
    is_file = is_file_kind(work.kind)
    if is_file:
        file_format = _format_of(work.kind, work.result_kind, pipeline)
        adapter = file_format.plugin.adapter
        mod = await _call(work, adapter, lambda: _read_file(work, file_format))
    else:
        adapter = _adapter_of(work.kind)
        mod = await _call(work, adapter, lambda: adapter.loads(_bytes_of(work.model)))
        file_format = ModelFormat(plugin_for(mod))
    if pipeline is None:
        pipeline = _parsed(file_format.default_pipeline)
    pipeline = file_format.with_conversions(pipeline)
    before = file_format.size(mod)
    result = await pipeline.run(mod, name=work.name, donate=True)
    if result is mod and work.kind == work.result_kind:
        return before, before, False, work.kind, None
    after = file_format.size(result)
    if is_file:
        data = await _call(work, adapter, lambda: _in_file(work, _file_bytes(work, file_format, result)))
        return before, after, result is not mod, work.result_kind, data
    data = await _call(work, adapter, lambda: _in_file(work, adapter_for(result).dumps(result)))
    return before, after, result is not mod, type_name(result), data


def read_model(work: Work) -> tuple[Any, str]:
    """Return the model of a job, and the text of the default pipeline of its IR."""
    if is_file_kind(work.kind):
        file_format = _format_of(work.kind, work.kind, None)
        return _read_file(work, file_format), file_format.default_pipeline
    mod = _adapter_of(work.kind).loads(_bytes_of(work.model))
    return mod, ModelFormat(plugin_for(mod)).default_pipeline


async def _call(work: Work, adapter: IRAdapter[Any, Any], function: Callable[[], R]) -> R:
    """Call a function that reads or writes a model, in a thread if that is large.

    A worker has no other work meanwhile.
    """
    if work.in_worker or (isinstance(work.model, bytes) and len(work.model) <= SMALL):
        return function()
    return await run_in_thread_if_safe(adapter, None, function)


_parsed: Final = cache(parse_pipeline)
"""Returns the default pipeline of an IR."""

_loaded: Final[Callable[[bytes], Pass[Any]]] = lru_cache(maxsize=100)(loads)
"""Returns a pipeline that the server has pickled."""

_FORMATS: Final[IdentityCache[dict[tuple[str, str], ModelFormat]]] = IdentityCache()
"""The formats that a pipeline reads and writes. Most jobs have the same one."""


def _format_of(kind: str, result_kind: str, pipeline: Pass[Any] | None) -> ModelFormat:
    """Return the format of the files of a job."""
    if pipeline is None:
        return format_of(Path(f"model{kind}"), result_kind)
    known = _FORMATS.get(pipeline) or {}
    if (kind, result_kind) not in known:
        known[kind, result_kind] = format_of(Path(f"model{kind}"), result_kind, pipeline)
        _FORMATS.keep(pipeline, known)
    return known[kind, result_kind]


def _adapter_of(name: str) -> IRAdapter[Any, Any]:
    """Return the adapter of a class of modules.

    Raises:
        AdapterError: if the class has none, or cannot be found by its name.

    """
    adapter = adapter_by_name(name)
    if adapter is None:
        raise AdapterError(f"there is no IR adapter for modules of the class {name!r}")
    return adapter


def _bytes_of(model: bytes | Path) -> bytes:
    return model if isinstance(model, bytes) else model.read_bytes()


def _read_file(work: Work, file_format: ModelFormat) -> Any:
    """Return the model of a job from its file."""
    if isinstance(work.model, bytes):
        # A temporary file takes as long as reading a small model.
        mod = file_format.load_bytes(work.model, work.name)
        if mod is not None:
            return mod
    with _temporary_folder(work) as folder:
        # A model whose parts are in other files finds none of them here.
        path = folder / f"model{work.kind}"
        if isinstance(work.model, bytes):
            path.write_bytes(work.model)
        else:
            path.symlink_to(work.model)
        return file_format.load(path)


def _file_bytes(work: Work, file_format: ModelFormat, mod: Any) -> bytes:
    """Return the bytes of the file of a result."""
    if isinstance(work.model, bytes):
        data = file_format.save_bytes(mod, work.result_kind)
        if data is not None:
            return data
    with ExitStack() as stack:
        folder = stack.enter_context(_temporary_folder(work))
        # The server stores the result durably, so this file need not be.
        parts: list[PartFile] = stack.enter_context(completed_later())
        file_format.save(mod, folder / f"result{work.result_kind}")
        try:
            if len(parts) != 1:
                raise AdapterError(
                    f"the result consists of {len(parts)} files, and a job has one; it is too large for a single file"
                )
            return parts[0].path.read_bytes()
        finally:
            give_up(parts)


@contextmanager
def _temporary_folder(work: Work) -> Generator[Path]:
    """Create a folder for the files of a job.

    If the worker is killed, the server removes it, if it can see it.
    """
    if work.folder is None:
        with tempfile.TemporaryDirectory(prefix=f"apass-{work.id}-") as folder:
            yield Path(folder)
        return
    path = work.folder / f"{work.id}.files"
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_files(work: Work, *, keep_result: bool) -> None:
    """Remove the files that a job may have left in its folder."""
    if work.folder is None:
        return
    if isinstance(work.model, Path):
        work.model.unlink(missing_ok=True)
    if not keep_result:
        _result_path(work.folder, work.id).unlink(missing_ok=True)
        shutil.rmtree(work.folder / f"{work.id}.files", ignore_errors=True)


def _in_file(work: Work, data: bytes) -> bytes | Path:
    if len(data) <= INLINE or work.folder is None:
        return data
    path = _result_path(work.folder, work.id)
    path.write_bytes(data)
    return path


def _result_path(folder: Path, work_id: str) -> Path:
    """Return the file of a large result."""
    return folder / f"{work_id}.result"


def _report_data(report: Any, remove_paths: Callable[[str], str]) -> bytes:
    record = report.record()
    failures = {
        name: replace(
            failure,
            message=remove_paths(failure.message),
            notes=list(map(remove_paths, failure.notes)),
            traceback=remove_paths(failure.traceback),
        )
        for name, failure in record.failures.items()
    }
    # Few jobs write a report.
    from apass.instruments.report.page import page_data

    return page_data(replace(record, failures=failures))


@pass_instrument
class _EventSender(EventInstrument):
    """Passes the events of a job on, and the texts of its module."""

    def __init__(self, emit: Emit, *, functions: bool, texts: TextEncoder | None) -> None:
        kinds: tuple[EventKind, ...] = ("started", "finished", "failed", "waiting", "remark")
        super().__init__(kinds, ("started", "finished", "failed") if functions else ())
        self.reads_modules = texts is not None
        self._on_event = emit
        self._texts = texts
        self._last: tuple[Any, int, int] | None = None
        """The last module with the index and the length of its text."""

    def handle(self, event: Event, subject: Any) -> Awaitable[None] | None:
        """Pass an event on, after the text of the module if that is new."""
        # An event that was recorded in a worker has no module.
        if self._texts is None or event.is_body or subject is None or event.kind not in ("started", "finished"):
            self._send(event)
            return None
        if self._last is not None and subject is self._last[0]:
            self._send(event, text=self._last[1])
            return None
        if self._last is not None and self._last[2] >= SMALL and is_thread_safe(subject):
            return self._send_from_thread(event, subject, None)
        text = text_of(subject)
        if len(text) >= SMALL:
            return self._send_from_thread(event, subject, text)
        self._send_text(event, subject, len(text), *self._texts.add(text))
        return None

    async def _send_from_thread(self, event: Event, mod: Any, text: str | None) -> None:
        """Make and encode a large text in a thread."""
        assert self._texts is not None, "only an instrument with texts calls it"
        texts = self._texts

        def encode() -> tuple[int, int, Mapping[str, Any] | None]:
            made = text_of(mod) if text is None else text
            return len(made), *texts.add(made)

        with anyio.CancelScope(shield=True):
            self._send_text(event, mod, *await anyio.to_thread.run_sync(encode))

    def _send_text(self, event: Event, mod: Any, length: int, index: int, data: Mapping[str, Any] | None) -> None:
        self._last = mod, index, length
        if data is not None:
            self._on_event("text", event.time, data)
        self._send(event, text=index)

    def _send(self, event: Event, **more: Any) -> None:
        data = event.as_json()
        # The job has one module, and its label may be long.
        for name in ("kind", "time", "module"):
            data.pop(name, None)
        for name in ("error", "what", "remark"):
            if name in data:
                data[name] = shorten(data[name], LONGEST)
        self._on_event(event.kind, event.time, data | more)


def describe_failure(error: BaseException, diagnostics: Sequence[Diagnostic] = ()) -> JobFailure:
    """Return an error as text, with the pass and the function that raised it.

    The errors of a group are notes. Tracebacks of workers are left out, as those of this process are.

    Parameters:
        error: the error.
        diagnostics: the diagnostics of the job.

    """
    original: Sequence[str] = getattr(error, "__notes__", ())
    notes = [str(note) for note in original if not isinstance(note, RemoteTraceback)]
    text = text_of_error(error)
    if isinstance(error, MemoryError):
        text = text or "there is not enough memory"
    run = _run_of(error)
    leaves = list(islice(leaves_of(error), 2))
    if len(leaves) == 1 and (run is None or run.function is None):
        # The error of a group may have been raised in a function of the pass.
        run = _run_of(leaves[0]) or run
    return JobFailure(
        type(error).__name__,
        shorten(text, LONGEST),
        tuple(shorten(note, LONGEST) for note in (*notes, *inner_errors(error))),
        None if run is None else run.info.name,
        None if run is None else run.function,
        _plain_diagnostics(diagnostics),
    )


def _run_of(error: BaseException) -> Run | None:
    """Return the run that has raised an error."""
    return next((note.run for note in getattr(error, "__notes__", ()) if isinstance(note, Whereabouts)), None)


def _plain_diagnostics(diagnostics: Sequence[Diagnostic]) -> tuple[Mapping[str, Any], ...]:
    items: list[Mapping[str, Any]] = []
    for item in diagnostics[:MOST_DIAGNOSTICS]:
        values: dict[str, Any] = {"level": DiagnosticLevel(item.level).name.lower(), "message": item.message}
        if item.pass_name is not None:
            values["pass"] = item.pass_name
        if item.span is not None:
            values |= {"source": item.span.source_name, "line": item.span.line, "column": item.span.column}
        items.append(values)
    return tuple(items)
