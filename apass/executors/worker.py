"""Worker side of remote executors: handles serialized requests, returns replies."""

import pickle
import threading
import warnings
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from os import getpid
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol, cast

import anyio
from anyio.from_thread import start_blocking_portal

from apass.concurrency.coroutines import await_once, is_async, is_awaitable
from apass.core.adapter import adapter_for
from apass.core.analysis_manager import give
from apass.core.context import OPENED, PassContext, enter_in_worker, limited_to
from apass.core.deadline import Deadline, TimeLimit
from apass.core.diagnostic_context import DiagnosticContext, located_here
from apass.core.diagnostics import Diagnostic
from apass.core.executor import SENDER, STOPPED, check_cancelled
from apass.core.instrument import instrument_name
from apass.core.pass_setup import PassSetup
from apass.core.remarks import Remark
from apass.core.run import RUN, Run, RunCursor, enter_module
from apass.core.store import SharedStore
from apass.errors import ExecutorError, StoreError, UnmatchedPassNameWarning
from apass.executors.instrument_twins import records_of
from apass.executors.messages import CallMessage, ModuleMessage, RunMessage, pack_module
from apass.executors.pickling import dumps, loads
from apass.executors.remote_errors import SerializedError, failure_of
from apass.executors.trail import Trail
from apass.runner.busy_passes import BusyPasses
from apass.runner.changes import CHANGES, ChangeLog

__all__ = [
    "SAME",
    "Answer",
    "Emitted",
    "Reply",
    "Request",
    "call_transform",
    "check_plain",
    "handle",
    "no_watch",
    "run_whole_pass",
    "stop",
    "transform_message",
]

POLL_SECONDS: Final = 0.05
"""Interval at which a whole pass checks whether its run was stopped."""
OPEN_RUNS: Final = 8
"""Number of runs whose pass and module a worker keeps in memory."""


@dataclass(frozen=True, slots=True)
class Request:
    """A batch of items, sent to a worker."""

    key: str
    """Identifies the message that describes the work."""
    items: Sequence[Any]
    """The items: names of functions, tuples of arguments, or one None for a whole module."""
    limit: float | None
    """Seconds after which the worker ends itself during one item. None is no limit."""
    time_limit: float | None
    """Time limit of a whole pass in seconds, after which the pass that runs in it fails. None is no limit."""
    traceback_path: str | None
    """File for the worker's traceback, written when an item exceeds the limit or crashes a second worker; or None."""
    trail_path: str | None
    """File with the pass that runs, for work that has lost a worker; None for other work."""
    analyses: Mapping[str, bytes]
    """Pickled results of the analyses that the pass requires, by function name."""
    budget: tuple[Deadline, float] | None
    """The deadline of the context, and the seconds left; None without a deadline."""

    def trail(self) -> "list[Trail]":
        """Return the instrument that writes the trail, if there is one."""
        return [] if self.trail_path is None else [Trail(self.trail_path)]

    @contextmanager
    def crash_recorded(self) -> Generator[None]:
        """Write the traceback of a crash, for work that has lost a worker."""
        if self.trail_path is None or self.traceback_path is None:
            yield
            return
        # Subinterpreters cannot import it.
        import faulthandler

        with Path(self.traceback_path).open("w") as file:
            faulthandler.enable(file, all_threads=False)
            try:
                yield
            finally:
                faulthandler.disable()

    def deadline(self) -> Deadline | None:
        """Return the deadline of the context by this machine's clock."""
        # The time that the request travels is lost.
        return None if self.budget is None else self.budget[0].with_left(self.budget[1])


@dataclass(slots=True)
class Emitted:
    """Diagnostics, statistics, remarks and changes of passes in a worker."""

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    """Diagnostics emitted to `ctx.diag_ctx`."""
    statistics: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    """Statistics, as names with amounts."""
    remarks: list[Remark] = field(default_factory=list[Remark])
    """Remarks, in order."""
    changes: ChangeLog = field(default_factory=ChangeLog)
    """The passes that changed the module, for a whole pass."""

    def replay(self, ctx: PassContext) -> None:
        """Emit everything again in `ctx`."""
        for diagnostic in self.diagnostics:
            ctx.diag_ctx.emit(diagnostic)
        for name, amount in self.statistics:
            ctx.statistic(name, amount)
        for remark in self.remarks:
            ctx.remark(remark)
        changes = CHANGES.get()
        if changes is not None:
            changes.add(self.changes)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one item."""

    kind: str
    """The kind of the outcome:

    - `"same"`: the function or module is unchanged.
    - `"new"`: the new function or module is in `Reply.module`.
    - `"nothing"`: the body returned None.
    - `"value"`: a plain function returned `value`.
    - `"failed"`: `failure` holds the exception.
    """
    value: bytes | None
    """The pickled result of a plain function."""
    failure: SerializedError | None
    """The exception, if the item failed."""
    seconds: float
    """The duration in seconds."""
    emitted: Emitted | None
    """What the body or function emitted; None if it did not start."""


def _worker_name() -> str:
    """Return the worker's name for timelines: its process, and its thread if not main."""
    process, thread = getpid(), threading.get_native_id()
    return f"process {process}" if process == thread else f"process {process}, thread {thread}"


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcomes of a batch."""

    answers: list[Answer]
    """One answer for each item."""
    module: ModuleMessage | None
    """The new module, or a module of the new functions."""
    records: Sequence[bytes] | None = None
    """The pickled records of the instruments' twins, for a whole pass that was started."""
    worker: str = field(default_factory=_worker_name)
    """The name of the worker."""


_Watch = Callable[[], AbstractContextManager[None]]


class _Work(Protocol):
    """The work described by a message.

    It is a Protocol because the implementations share no code.
    """

    def run(self, request: Request, watch: _Watch) -> Reply:
        """Process the items of a request."""
        ...


def no_watch(_request: Request) -> _Watch:
    """Return a watch without effect, for workers that cannot be killed."""
    return nullcontext


def handle(
    request: bytes,
    message: bytes | None,
    watch: Callable[[Request], _Watch] = no_watch,
    send: Callable[[bytes], object] | None = None,
) -> bytes:
    """Process a request, and return the pickled reply.

    If the worker has no message with the request's key, return an empty reply. The caller then sends the request again
    with the message. `watch` returns what is entered for each item of the request, and enforces its time limit. `send`
    sends the messages of plain functions to their caller.
    """
    with STOPPED.set_to(_never), SENDER.set_to(send):
        reply = _reply_to(request, message, watch)
    return b"" if reply is None else dumps(reply, "a reply")


def _reply_to(request: bytes, message: bytes | None, watch: Callable[[Request], _Watch]) -> Reply | None:
    """Return the reply to a request; None if the message is missing."""
    try:
        decoded = cast("Request", pickle.loads(request))
        with _LOCK:
            work = _OPEN.get(decoded.key)
            if work is None and message is not None:
                work = _OPEN[decoded.key] = _open(message)
            if work is None:
                return None
            _OPEN.move_to_end(decoded.key)
            while len(_OPEN) > OPEN_RUNS:
                _OPEN.popitem(last=False)
        STOPPED.set(partial(_is_stopped, decoded.key))
        with decoded.crash_recorded():
            return copy_context().run(work.run, decoded, watch(decoded))
    except BaseException as error:
        return Reply([Answer("failed", None, failure_of(error), 0.0, None)], None)


def stop(key: str) -> None:
    """Request that the work of a run in this process stops."""
    _STOPPED_RUNS[key] = None
    while len(_STOPPED_RUNS) > 1000:
        _STOPPED_RUNS.popitem(last=False)


_OPEN: Final[OrderedDict[str, _Work]] = OrderedDict()
_STOPPED_RUNS: Final[OrderedDict[str, None]] = OrderedDict()
_LOCK: Final = threading.Lock()
_EMITTED: ContextVar[Emitted | None] = ContextVar("apass_emitted", default=None)


def _never() -> bool:
    return False


def _is_stopped(key: str) -> bool:
    return key in _STOPPED_RUNS


def _open(message: bytes) -> _Work:
    contents: RunMessage | CallMessage = loads(message)
    if isinstance(contents, CallMessage):
        return _Calls(contents)
    return _Bodies(contents) if contents.by_function else _WholePass(contents)


class _Calls:
    """A plain function to call, in the context of its caller."""

    def __init__(self, message: CallMessage) -> None:
        self._function = message.function
        self._message = message

    def run(self, request: Request, watch: _Watch) -> Reply:
        """Call the function with each item, a tuple of arguments."""
        instruments = [_RecordingInstrument(), *request.trail()]
        enter_in_worker(self._message.context.open(instruments, _RecordingDiagnosticContext()), request.deadline())
        RUN.set(self._message.run())
        if self._message.module_name is not None:
            enter_module(self._message.module_name)
        return Reply([copy_context().run(self._answer, arguments, watch) for arguments in request.items], None)

    def _answer(self, arguments: Any, watch: _Watch) -> Answer:
        emitted = Emitted()
        _EMITTED.set(emitted)
        start = perf_counter()
        try:
            check_cancelled()
            with watch():
                result = self._function(*arguments)
            value = dumps(check_plain(result, "the function"), f"the result of {self._function!r}")
        except BaseException as error:
            return Answer("failed", None, failure_of(error), perf_counter() - start, emitted)
        return Answer("value", value, None, perf_counter() - start, emitted)


@contextmanager
def _opened(pass_: Any, ctx: PassContext, backend: str) -> Generator[None]:
    """Open a pass for plain bodies in this thread, unless it is open.

    An event loop in another thread opens it.
    """
    if not pass_.has_setup or pass_.open in OPENED.get():
        yield
        return
    with start_blocking_portal(backend) as portal:
        setup = PassSetup([pass_], ctx)
        with portal.wrap_async_context_manager(setup), OPENED.set_to(setup.values):
            yield


class _Bodies:
    """A function pass, with the module whose functions it runs on."""

    def __init__(self, message: RunMessage) -> None:
        self._message = message
        self._mod = message.module.open()
        self._ctx = message.context.open([_RecordingInstrument()], _RecordingDiagnosticContext())
        self._adapter = adapter_for(self._mod)

    def run(self, request: Request, watch: _Watch) -> Reply:
        """Run the bodies for the functions named in the request."""
        items = request.items
        enter_in_worker(self._ctx, request.deadline())
        if self._message.module_name is not None:
            enter_module(self._message.module_name)
        pass_ = self._message.pass_
        changed: dict[str, Any] = {}
        with _opened(pass_, self._ctx, self._message.backend):
            pass_.expect_functions(items, self._mod, self._ctx)
            answers = [
                copy_context().run(self._answer, name, request.analyses.get(name), changed, watch) for name in items
            ]
        try:
            return Reply(answers, self._pack(changed) if changed else None)
        except Exception:  # a result is not a function; serializing each function separately finds it
            pass
        for index, name in enumerate(items):
            if name in changed:
                answers[index] = self._check_serializable(name, changed, answers[index])
        return Reply(answers, self._pack(changed) if changed else None)

    def _answer(self, name: str, analyses: bytes | None, changed: dict[str, Any], watch: _Watch) -> Answer:
        emitted = Emitted()
        _EMITTED.set(emitted)
        cursor = RunCursor(None, self._mod)
        cursor.item = self._message.run(name)
        RUN.set(cursor)
        func = self._adapter.get(self._mod, name)
        start = perf_counter()
        try:
            check_cancelled()
            if analyses is not None:
                give(func, dict(zip(self._message.pass_.analyses, loads(analyses), strict=True)))
            with watch():
                result = self._message.pass_.transform_function(func, self._mod, self._ctx)
            result = check_plain(result, f"the body of pass {self._message.pass_.info.name!r}")
        except BaseException as error:
            return Answer("failed", None, failure_of(error), perf_counter() - start, emitted)
        kind = "same" if result is func else "nothing" if result is None else "new"
        if kind == "new":
            changed[name] = result
        return Answer(kind, None, None, perf_counter() - start, emitted)

    def _pack(self, changed: dict[str, Any]) -> ModuleMessage:
        private = self._adapter.isolate(self._adapter.replace(self._mod, changed), list(changed))
        return pack_module(private, self._message.module.adapter)

    def _check_serializable(self, name: str, changed: dict[str, Any], answer: Answer) -> Answer:
        """Return the answer, or a failure if the new function cannot be serialized.

        In the second case, the function is removed from `changed`.
        """
        try:
            self._pack({name: changed[name]})
        except Exception as error:
            label = f"the result of pass {self._message.pass_.info.name!r} for function {name!r}"
            failure = ExecutorError(f"{label} cannot be sent back from a worker: {type(error).__name__}: {error}")
            del changed[name]
            return Answer("failed", None, failure_of(failure), answer.seconds, answer.emitted)
        return answer


class _WholePass:
    """A whole pass, with the module that it runs on."""

    def __init__(self, message: RunMessage) -> None:
        self._message = message

    def run(self, request: Request, watch: _Watch) -> Reply:
        """Run the pass on the module, with the twins of the instruments."""
        emitted = Emitted()
        _EMITTED.set(emitted)
        # Consecutive passes may run as one if it is not recorded which of them changes the module.
        CHANGES.set(emitted.changes if self._message.logs_changes else None)
        mod = self._message.module.open()
        twins = [make() for make in self._message.instruments]
        store = None if self._message.store is None else self._message.store()
        ctx = self._message.context.open([*twins, *request.trail()], _RecordingDiagnosticContext(), store)
        enter_in_worker(ctx, request.deadline())
        start = perf_counter()
        module: ModuleMessage | None = None
        failure: SerializedError | None = None
        try:
            check_cancelled()
            with watch():
                name, backend = self._message.module_name, self._message.backend
                result = run_whole_pass(self._message.pass_, mod, ctx, name, backend, request.time_limit)
            module = None if result is mod else pack_module(result)
        except BaseException as error:
            failure = failure_of(error)
        seconds = perf_counter() - start
        records = [dumps(records_of(twin), f"the records of instrument {instrument_name(twin)!r}") for twin in twins]
        kind = "failed" if failure is not None else "same" if module is None else "new"
        return Reply([Answer(kind, None, failure, seconds, emitted)], module, records)


SAME: Final = "same"
"""The reply of `transform_message` if the module is unchanged."""


def transform_message(pass_: Any, module: ModuleMessage, backend: str) -> Any:
    """Call the body of a module pass on a serialized module, in the current context."""
    mod = module.open()
    result = call_transform(pass_, mod, PassContext.current(), backend)
    return SAME if result is mod else None if result is None else pack_module(result)


def call_transform(pass_: Any, mod: Any, ctx: PassContext, backend: str) -> Any:
    """Return the result of the body of a module pass.

    If the body is async, run it in a new event loop in this thread. It is cancelled when `STOPPED` returns true.
    """
    if not pass_.has_setup:
        result = pass_.body()(mod, ctx)
        if not is_awaitable(result):
            return result
        return _run_until_stopped(partial(await_once, result, f"pass {pass_.info.name!r}"), backend)
    if not is_async(pass_.transform_module):
        with _opened(pass_, ctx, backend):
            return check_plain(pass_.body()(mod, ctx), f"the body of pass {pass_.info.name!r}")

    async def run() -> Any:
        # What the program has opened belongs to another event loop.
        OPENED.set({})
        async with PassSetup([pass_], ctx):
            return await await_once(pass_.body()(mod, ctx), f"pass {pass_.info.name!r}")

    return _run_until_stopped(run, backend)


def run_whole_pass(
    pass_: Any, mod: Any, ctx: PassContext, module_name: str | None, backend: str, limit: float | None
) -> Any:
    """Run a pass in a new event loop in this thread.

    The store of the context, if any, is opened for the run. The pass is cancelled when `STOPPED` returns true. After
    `limit` seconds, the pass that runs fails.
    """
    store = cast("SharedStore | None", ctx.store)

    async def run() -> Any:
        async with AsyncExitStack() as stack:
            if store is not None:
                # The context warns when it uses the store, and computes the results.
                with suppress(StoreError):
                    await stack.enter_async_context(store)
            await stack.enter_async_context(ctx)
            if limit is not None:
                stack.enter_context(limited_to(TimeLimit.from_now(limit)))
            stack.enter_context(BusyPasses().watched(limit))
            return await pass_(mod)

    RUN.set(None)
    # What the program has opened belongs to another event loop.
    OPENED.set({})
    if module_name is not None:
        enter_module(module_name)
    with warnings.catch_warnings():
        # A worker sees one module only. The program itself warns of names that match no pass.
        warnings.simplefilter("ignore", UnmatchedPassNameWarning)
        return _run_until_stopped(run, backend)


def _run_until_stopped(work: Callable[[], Awaitable[Any]], backend: str) -> Any:
    """Return the result of `work` in a new event loop, cancelled once `STOPPED`."""

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_stopped, group.cancel_scope)
            results.append(await outcome())
            group.cancel_scope.cancel()

    async def outcome() -> Callable[[], Any]:
        # Return the error instead of raising it, so that the task group does not wrap it in an ExceptionGroup.
        try:
            result = await work()
        except (Exception, SystemExit) as error:
            return partial(_raise, error)
        return lambda: result

    results: list[Callable[[], Any]] = []
    anyio.run(main, backend=backend)
    if not results:
        raise ExecutorError("the run was cancelled")
    return results[0]()


async def _cancel_when_stopped(scope: anyio.CancelScope) -> None:
    is_stopped = STOPPED.get() or _never
    while not is_stopped():  # noqa: ASYNC110  another thread sets it
        await anyio.sleep(POLL_SECONDS)
    scope.cancel()


def _raise(error: BaseException) -> None:
    raise error


def check_plain(result: Any, label: str) -> Any:
    """Return `result`, unless it is awaitable.

    Raises:
        ExecutorError: if `result` is awaitable.

    """
    if not is_awaitable(result):
        return result
    close = getattr(result, "close", None)
    if close is not None:
        close()
    raise ExecutorError(f"{label} returned the awaitable {result!r}; an executor runs plain functions only")


class _RecordingDiagnosticContext(DiagnosticContext):
    """Records diagnostics for the running body."""

    def emit(self, diagnostic: Diagnostic) -> None:
        """Record a diagnostic."""
        emitted = _EMITTED.get()
        if emitted is not None:
            emitted.diagnostics.append(located_here(diagnostic))


class _RecordingInstrument:
    """Records statistics and remarks, in place of the program's instruments."""

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        """Record a statistic."""
        emitted = _EMITTED.get()
        if emitted is not None:
            emitted.statistics.append((name, amount))

    def on_remark(self, remark: Remark) -> None:
        """Record a remark."""
        emitted = _EMITTED.get()
        if emitted is not None:
            emitted.remarks.append(remark)
