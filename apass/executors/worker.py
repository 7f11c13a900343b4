"""What runs in a worker, be it a process, an interpreter or a machine: a request in, a reply out, both as bytes."""

import pickle
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from os import getpid
from time import perf_counter
from typing import Any, Final, Protocol, cast

import anyio

from apass.concurrency.coroutines import is_awaitable
from apass.core.adapter import adapter_for
from apass.core.analysis_manager import give
from apass.core.context import PassContext
from apass.core.diagnostics import Diagnostic, DiagnosticContext
from apass.core.executor import STOPPED, check_cancelled
from apass.core.remarks import Remark
from apass.core.run import RUN, Run, enter_module
from apass.errors import ExecutorError, UnmatchedPassNameWarning
from apass.executors.messages import ModuleParcel, RunParcel, pack_module
from apass.executors.pickling import dumps, loads
from apass.executors.remote_errors import Failure, failure_of

__all__ = ["Answer", "Heard", "Reply", "Request", "handle", "no_watch", "plain", "run_whole_pass", "stop"]

POLL_SECONDS: Final = 0.05
"""How often a whole pass is asked whether it was stopped."""
OPEN_RUNS: Final = 8
"""How many runs a worker keeps the pass and the module of."""


@dataclass(frozen=True, slots=True)
class Request:
    """A batch of work."""

    key: str
    """Names the parcel that says what the work is."""
    items: Sequence[Any]
    """What is to be worked on: names of functions, arguments, or one None for a whole module."""
    limit: float | None
    """Seconds that one item may take before the worker ends itself; None is no limit."""
    last_words: str
    """The file where it then says what it was at."""
    known: Mapping[str, bytes]
    """What the analyses that a pass requires say of functions, by their names."""


@dataclass(slots=True)
class Heard:
    """What passes said while they were at work."""

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    """What they left in `ctx.diag_ctx`."""
    statistics: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    """What they counted."""
    remarks: list[Remark] = field(default_factory=list[Remark])
    """What they remarked."""

    def repeat(self, ctx: PassContext) -> None:
        """Say it all in `ctx`."""
        for diagnostic in self.diagnostics:
            ctx.diag_ctx.emit(diagnostic)
        for name, amount in self.statistics:
            ctx.statistic(name, amount)
        for remark in self.remarks:
            ctx.remark(remark)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one item."""

    kind: str
    """`"same"` for a function or module left as it was, `"new"` for one in `Reply.module`, `"nothing"` for None,
    `"value"` for what a plain function returned, `"failed"`."""
    value: bytes | None
    """What a plain function returned."""
    failure: Failure | None
    """What was raised."""
    seconds: float
    """How long it took."""
    heard: Heard | None
    """What passes said; None for a plain function."""


def _own_name() -> str:
    """Return what a timeline calls this worker; of several in one process each is a thread."""
    process, thread = getpid(), threading.get_native_id()
    return f"process {process}" if process == thread else f"process {process}, thread {thread}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a batch."""

    answers: list[Answer]
    """One for each item."""
    module: ModuleParcel | None
    """The new module, or one of the new functions."""
    worker: str = field(default_factory=_own_name)
    """Who did it."""


_Watch = Callable[[], AbstractContextManager[None]]


class _Work(Protocol):
    """What an opened parcel is. A Protocol, because the two kinds share no code."""

    def do(self, asked: Request, watch: _Watch) -> Reply:
        """Do a batch."""
        ...


def no_watch(_asked: Request) -> AbstractContextManager[None]:
    """Watch over nothing: where a worker cannot be ended."""
    return nullcontext()


def handle(
    request: bytes, parcel: bytes | None, watch: Callable[[Request], AbstractContextManager[None]] = no_watch
) -> bytes:
    """Do what `request` asks, and return the reply; an empty one if the parcel is not here and has to be sent along.

    `watch` is entered for each item, and looks after its time.
    """
    token = STOPPED.set(_never)
    try:
        asked = cast("Request", pickle.loads(request))
        with _LOCK:
            work = _OPEN.get(asked.key)
            if work is None and parcel is not None:
                work = _OPEN[asked.key] = _open(parcel)
            if work is None:
                return b""
            _OPEN.move_to_end(asked.key)
            while len(_OPEN) > OPEN_RUNS:
                _OPEN.popitem(last=False)
        STOPPED.set(partial(_is_stopped, asked.key))
        reply = copy_context().run(work.do, asked, partial(watch, asked))
    except BaseException as error:
        reply = Reply([Answer("failed", None, failure_of(error), 0.0, None)], None)
    finally:
        STOPPED.reset(token)
    return dumps(reply, "a reply")


def stop(key: str) -> None:
    """Tell the work of a run, here, that nobody waits for it any more."""
    _STOPPED_RUNS[key] = None
    while len(_STOPPED_RUNS) > 1000:
        _STOPPED_RUNS.popitem(last=False)


_OPEN: Final[OrderedDict[str, _Work]] = OrderedDict()
_STOPPED_RUNS: Final[OrderedDict[str, None]] = OrderedDict()
_LOCK: Final = threading.Lock()
_HEARD: ContextVar[Heard | None] = ContextVar("apass_heard", default=None)


def _never() -> bool:
    return False


def _is_stopped(key: str) -> bool:
    return key in _STOPPED_RUNS


def _open(parcel: bytes) -> _Work:
    contents = loads(parcel)
    if isinstance(contents, RunParcel):
        return _Bodies(contents) if contents.by_function else _WholePass(contents)
    return _Calls(contents)


class _Calls:
    """A plain function to be called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def do(self, asked: Request, watch: _Watch) -> Reply:
        """Call the function with each of the items, tuples of arguments."""
        return Reply([self._answer(one, watch) for one in asked.items], None)

    def _answer(self, arguments: Any, watch: _Watch) -> Answer:
        start = perf_counter()
        try:
            check_cancelled()
            with watch():
                result = copy_context().run(self._function, *arguments)
            value = dumps(plain(result, "the function"), f"what {self._function!r} returned")
        except BaseException as error:
            return Answer("failed", None, failure_of(error), perf_counter() - start, None)
        return Answer("value", value, None, perf_counter() - start, None)


class _Bodies:
    """A function pass, to run on functions of one module."""

    def __init__(self, parcel: RunParcel) -> None:
        self._parcel = parcel
        self._mod = parcel.module.open()
        self._ctx = parcel.context.open([_Listening()], _HearingContext())
        self._adapter = adapter_for(self._mod)

    def do(self, asked: Request, watch: _Watch) -> Reply:
        """Run the bodies for the functions of those names."""
        items = asked.items
        if self._parcel.module_name is not None:
            enter_module(self._parcel.module_name)
        changed: dict[str, Any] = {}
        answers = [copy_context().run(self._answer, name, asked.known.get(name), changed, watch) for name in items]
        try:
            return Reply(answers, self._packed(changed) if changed else None)
        except Exception:  # some result is no function: which one shows when each is packed alone
            pass
        for place, name in enumerate(items):
            if name in changed:
                answers[place] = self._checked(name, changed, answers[place])
        return Reply(answers, self._packed(changed) if changed else None)

    def _answer(self, name: str, known: bytes | None, changed: dict[str, Any], watch: _Watch) -> Answer:
        heard = Heard()
        _HEARD.set(heard)
        RUN.set(self._parcel.run(name))
        func = self._adapter.get(self._mod, name)
        start = perf_counter()
        try:
            check_cancelled()
            if known is not None:
                give(func, dict(zip(self._parcel.pass_.analyses, loads(known), strict=True)))
            with watch():
                result = self._parcel.pass_.transform_function(func, self._mod, self._ctx)
            result = plain(result, f"the body of pass {self._parcel.pass_.info.name!r}")
        except BaseException as error:
            return Answer("failed", None, failure_of(error), perf_counter() - start, heard)
        kind = "same" if result is func else "nothing" if result is None else "new"
        if kind == "new":
            changed[name] = result
        return Answer(kind, None, None, perf_counter() - start, heard)

    def _packed(self, changed: dict[str, Any]) -> ModuleParcel:
        private = self._adapter.isolate(self._adapter.replace(self._mod, changed), list(changed))
        return pack_module(private, self._parcel.module.adapter)

    def _checked(self, name: str, changed: dict[str, Any], answer: Answer) -> Answer:
        """Return the answer for a function, a failure if its new form cannot be sent; that is then left out."""
        try:
            self._packed({name: changed[name]})
        except Exception as error:
            what = f"what pass {self._parcel.pass_.info.name!r} made of function {name!r}"
            told = ExecutorError(f"{what} cannot come back from a worker: {type(error).__name__}: {error}")
            del changed[name]
            return Answer("failed", None, failure_of(told), answer.seconds, answer.heard)
        return answer


class _WholePass:
    """A pass, to run on one module."""

    def __init__(self, parcel: RunParcel) -> None:
        self._parcel = parcel

    def do(self, asked: Request, watch: _Watch) -> Reply:
        """Run it."""
        heard = Heard()
        _HEARD.set(heard)
        mod = self._parcel.module.open()
        ctx = self._parcel.context.open([_Listening()], _HearingContext())
        start = perf_counter()
        try:
            check_cancelled()
            with watch():
                result = run_whole_pass(self._parcel.pass_, mod, ctx, self._parcel.module_name, self._parcel.backend)
            module = None if result is mod else pack_module(result)
        except BaseException as error:
            return Reply([Answer("failed", None, failure_of(error), perf_counter() - start, heard)], None)
        return Reply([Answer("new" if module else "same", None, None, perf_counter() - start, heard)], module)


def run_whole_pass(pass_: Any, mod: Any, ctx: PassContext, module_name: str | None, backend: str) -> Any:
    """Run a pass in an event loop of its own, in this thread, until it ends or `STOPPED` says so."""

    async def main() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_stopped, group.cancel_scope)
            results.append(await _outcome())
            group.cancel_scope.cancel()

    async def _outcome() -> Callable[[], Any]:
        # Kept, so that the group does not wrap it.
        try:
            async with ctx:
                result = await pass_(mod)
        except Exception as error:
            return partial(_raise, error)
        return lambda: result

    results: list[Callable[[], Any]] = []
    RUN.set(None)
    if module_name is not None:
        enter_module(module_name)
    with warnings.catch_warnings():
        # Which names matched nothing is for the program to say.
        warnings.simplefilter("ignore", UnmatchedPassNameWarning)
        anyio.run(main, backend=backend)
    if not results:
        raise ExecutorError("the run was cancelled")
    return results[0]()


async def _cancel_when_stopped(scope: anyio.CancelScope) -> None:
    is_stopped = STOPPED.get() or _never
    while not is_stopped():  # noqa: ASYNC110  it is another thread that sets it
        await anyio.sleep(POLL_SECONDS)
    scope.cancel()


def _raise(error: Exception) -> None:
    raise error


def plain(result: Any, what: str) -> Any:
    """Return a result; ExecutorError if it is still to be awaited."""
    if not is_awaitable(result):
        return result
    close = getattr(result, "close", None)
    if close is not None:
        close()
    raise ExecutorError(f"{what} returned {result!r}, which is to be awaited; an executor runs plain functions only")


class _HearingContext(DiagnosticContext):
    """Hands on diagnostics to whoever listens in the body at work."""

    def emit(self, diagnostic: Diagnostic) -> None:
        """Hand on."""
        heard = _HEARD.get()
        if heard is not None:
            heard.diagnostics.append(diagnostic)


class _Listening:
    """The instrument that stands for those of the program."""

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        """Hand on."""
        heard = _HEARD.get()
        if heard is not None:
            heard.statistics.append((name, amount))

    def on_remark(self, remark: Remark) -> None:
        """Hand on."""
        heard = _HEARD.get()
        if heard is not None:
            heard.remarks.append(remark)
