"""`RemoteExecutor`: base class of executors whose workers have separate memory."""

import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final, TypeVar, TypeVarTuple, cast
from uuid import uuid4

from anyio import CapacityLimiter
from anyio.lowlevel import checkpoint

from apass.concurrency.backend import backend_name
from apass.concurrency.limits import Slots
from apass.core.adapter import adapter_for, extract_into, run_in_thread_if_safe
from apass.core.context import PassContext, current_scope, waiting_for
from apass.core.deadline import LATE_SECONDS
from apass.core.places import LIBRARIES, OWN
from apass.core.run import Run, current_run
from apass.errors import ClusterLostError, OutOfMemoryError, PassTimeoutError, WorkerLostError
from apass.executors.batching import Batches, Done
from apass.executors.instrument_twins import Delegates, check_portable
from apass.executors.messages import ModuleMessage, pack_bodies, pack_call, pack_module, pack_pass
from apass.executors.pickling import dumps, loads
from apass.executors.trail import trail_file
from apass.executors.worker import SAME, Answer, Reply, Request, transform_message
from apass.passes.base import Pass
from apass.util.checks import is_count, is_seconds

__all__ = ["Batch", "RemoteExecutor", "WorkerDiedError", "record_passes"]

ItemT = TypeVar("ItemT")
R = TypeVar("R")
Args = TypeVarTuple("Args")

BIG: Final = 1 << 16
"""Modules with more bytes than this are deserialized in a thread, not in the event loop."""


class WorkerDiedError(Exception):
    """A worker died during its work, or did not reply in time.

    `exchange` raises it. Users see a WorkerLostError.
    """

    def __init__(
        self,
        reason: str,
        last_words: str = "",
        *,
        is_late: bool = False,
        is_final: bool = False,
        is_innocent: bool = False,
        used_memory: int = 0,
    ) -> None:
        super().__init__(reason)
        self.last_words = last_words
        """The worker's traceback at its timeout."""
        self.is_late = is_late
        """Whether the time limit was exceeded."""
        self.is_final = is_final
        """Whether it is of no use to send the work again now."""
        self.is_innocent = is_innocent
        """Whether the work cannot be the cause: it had not begun, or was lost with the scheduler of its cluster."""
        self.used_memory = used_memory
        """Bytes that the worker used, if it was ended because it exceeded its limit of memory; else 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What all batches of one run share."""

    message: bytes
    """The serialized work, which a worker needs before the first batch."""
    limit: float | None
    """Seconds after which a worker is ended during one item, or None."""
    label: str
    """Description of the work, for error messages."""
    time_limit: float | None = None
    """Time limit of a whole pass in seconds, which fails a little before its worker is ended; or None."""
    timeout_message: str | None = None
    """Error message if an item exceeds a limit set by its pass, or None."""
    analyses: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Pickled results of required analyses for submitted functions, by function name."""
    on_message: Callable[[bytes], object] | None = None
    """Receives, in the event loop, the messages that a plain function sends with `send_message`."""
    is_retried: bool = True
    """Whether work that has lost its worker is sent once more."""
    key: str = field(default_factory=lambda: uuid4().hex)
    """Identifies the message."""


class RemoteExecutor(ABC):
    """Base class of executors whose workers have separate memory.

    Modules and passes are sent to the workers as bytes. A subclass implements the transport, `exchange`. Executors are
    values: the slots belong to the event loop.
    """

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        if not is_count(workers):
            raise ValueError(f"workers must be a positive int, got {workers!r}")
        if timeout is not None and not is_seconds(timeout):
            raise ValueError(f"timeout must be a positive number of seconds or None, got {timeout!r}")
        self.workers: Final = workers
        """Maximum number of workers."""
        self.timeout: Final = timeout
        """Time limit in seconds for one body, call or module. None is no limit."""
        self._slots: Final = Slots(workers)

    @abstractmethod
    async def exchange(self, request: bytes, batch: Batch) -> bytes:
        """Have a worker call `handle(request, batch.message)`, and return the result.

        If cancelled, kill the worker or stop its work.

        Raises:
            WorkerDiedError: if the worker died, or did not reply in time.

        """

    def ends_late_workers(self) -> bool:
        """Return whether a worker exits when an item exceeds its time limit.

        This requires that a worker is a process of this machine, and processes one batch at a time.
        """
        return True

    def delivers_messages(self) -> bool:
        """Return whether all messages of a call arrive if its result does."""
        return True

    async def connect(self) -> None:
        """Connect to the workers, if that is needed.

        Otherwise, the first work does it.

        Raises:
            ExecutorError: if there are none.

        """
        await checkpoint()

    def slots(self) -> CapacityLimiter:
        """Return the executor's slots in this event loop; each running batch holds one."""
        return self._slots.here()

    def bodies(self, pass_: Any, mod: Any, ctx: PassContext) -> "_Bodies":
        """Prepare to run the bodies of a function pass on `mod` (see `Executor`)."""
        return _Bodies(self, pass_, mod, ctx)

    async def transform(self, pass_: Any, mod: Any, ctx: PassContext) -> Any:
        """Call the body of a module pass in a worker (see `Executor`)."""
        module = await run_in_thread_if_safe(adapter_for(mod), mod, partial(pack_module, mod))
        label = f"pass {pass_.info.name!r}"
        batch = _batch(pack_call(transform_message, label), pass_.timeout, self.timeout, label)
        async with self.slots():
            with waiting_for("a worker"):
                done = (await self._do_calls(batch, [(pass_, module, backend_name())]))[0]
        result: Any = done.unwrap()
        if batch.timeout_message is not None and done.seconds > (batch.limit or 0):
            raise PassTimeoutError(batch.timeout_message)
        return mod if result == SAME else await open_message(result) if isinstance(result, ModuleMessage) else result

    async def optimize(self, pass_: Pass[Any], mod: Any, ctx: PassContext, *, timeout: float | None = None) -> Any:
        """Run a whole pass on `mod` in a worker, and return the new module.

        If nothing changed, return `mod` itself. The hooks of the context's instruments are called in the worker, on
        their twins. Diagnostics are emitted in `ctx`.

        Raises:
            PassContextError: if an instrument cannot be used in a worker.
            PassTimeoutError: if the pass took longer than `timeout` seconds. Its worker is killed if that is possible.

        """
        check_portable(ctx.instruments)
        record_passes(pass_)
        async with self.slots():
            delegates = Delegates.of(pass_, ctx.instruments)
            try:
                sent = await self._send_pass(pass_, mod, ctx, delegates, timeout)
            except BaseException as error:
                delegates.lose(mod, error)
                raise
        answer = sent.answers[0]
        if answer.emitted is not None:
            answer.emitted.replay(ctx)
        failure = sent.error_of(answer)
        if sent.reply is not None and sent.reply.records is not None:
            delegates.merge([loads(record) for record in sent.reply.records])
        else:
            assert failure is not None, "a worker that has run the pass returns records"
            delegates.lose(mod, failure)
        if failure is not None:
            raise failure
        module = None if sent.reply is None else sent.reply.module
        return mod if module is None else await open_message(module)

    async def _send_pass(
        self, pass_: Pass[Any], mod: Any, ctx: PassContext, delegates: Delegates, timeout: float | None
    ) -> "Sent":
        pack = partial(pack_pass, pass_, mod, ctx, delegates, backend_name())
        message = await run_in_thread_if_safe(adapter_for(mod), mod, pack)
        batch = _batch(message, timeout, self.timeout, f"pass {pass_.info.name!r}")
        if batch.timeout_message is not None and batch.limit is not None:
            batch = replace(batch, limit=batch.limit + LATE_SECONDS, time_limit=batch.limit)
        sent = (await self.dispatch(batch, [None]))[0]
        answer = sent.answers[0]
        if batch.timeout_message is not None and answer.failure is None and answer.seconds > (batch.limit or 0):
            raise PassTimeoutError(batch.timeout_message)
        return sent

    async def call(
        self,
        function: Callable[[*Args], R],
        *args: *Args,
        on_message: Callable[[bytes], object] | None = None,
        retry: bool = True,
    ) -> R:
        """Return `function(*args)`, computed by a worker.

        The function, the arguments and the result are pickled. The function runs in a context with the options, the
        deadline and the `current_run()` of the caller. What it emits reaches the caller's context.

        `on_message` receives the bytes that the function sends with `send_message` while it runs. If the function loses
        its worker, it is called again, and sends its messages again. Interpreters send none. Without `retry`, a lost
        worker is an error at once.

        Raises:
            ExecutorError: if one of them, or the config of the context, cannot be pickled.
            WorkerLostError: if the call lost two workers in succession, or one without `retry`.
            OutOfMemoryError: if a worker was ended because it exceeded its limit of memory.
            ClusterLostError: if there is no worker for some time, or, without `retry`, the call was lost without any
                fault of its own.
            Exception: any exception of the function, with its traceback as a note.

        """
        batch = replace(self._calls(function), on_message=on_message, is_retried=retry)
        async with self.slots():
            done = (await self._do_calls(batch, [args]))[0]
        return cast("R", done.unwrap())

    async def map(self, function: Callable[[ItemT], R], items: Iterable[ItemT]) -> list[R]:
        """Return `function(item)` for each of `items`, in order.

        Errors are those of `call`. The first failure cancels the remaining calls.
        """
        batch = self._calls(function)

        async def work(arguments: Sequence[Any]) -> Sequence[Done[Any]]:
            return await self._do_calls(batch, [(argument,) for argument in arguments])

        async with Batches(work, self.slots()) as batches:
            return await batches.submit_all(items)

    def _calls(self, function: Callable[..., Any]) -> Batch:
        # The text of a partial contains addresses, and its arguments.
        named: Any = getattr(function, "func", function)
        label = f"function {getattr(named, '__qualname__', repr(named))!r}"
        return Batch(pack_call(function, label), self.timeout, label)

    async def _do_calls(self, batch: Batch, items: Sequence[Any]) -> list[Done[Any]]:
        done: list[Done[Any]] = []
        for sent in await self.dispatch(batch, items):
            for answer in sent.answers:
                if answer.emitted is not None:
                    answer.emitted.replay(PassContext.current())
                result = None if answer.value is None else loads(answer.value)
                done.append(Done(result, sent.error_of(answer), answer.seconds))
        return done

    async def dispatch(self, batch: Batch, items: Sequence[Any]) -> list["Sent"]:
        """Send items to a worker, for use in this module.

        If the worker is lost, send each item once more separately.
        """
        try:
            return [await self._send_until_begun(batch, items)]
        except WorkerDiedError as error:
            is_known_cause = error.used_memory or (error.is_late and batch.timeout_message is not None)
            if error.is_final or (len(items) == 1 and (is_known_cause or not batch.is_retried)):
                return [Sent(items, None, _loss_error(error, batch))]
            return [await self._retry(batch, item) for item in items]

    async def _send_until_begun(self, batch: Batch, items: Sequence[Any], trail: Path | None = None) -> "Sent":
        """Send items to a worker, again if they are lost without their fault."""
        while True:
            try:
                return await self._send_batch(batch, items, trail)
            except WorkerDiedError as error:
                if error.is_final or not error.is_innocent or not batch.is_retried:
                    raise

    async def _retry(self, batch: Batch, item: Any) -> "Sent":
        with trail_file() if self.ends_late_workers() else nullcontext() as trail:
            try:
                return await self._send_until_begun(batch, [item], trail)
            except WorkerDiedError as died:
                where = "" if trail is None else trail.read_text(encoding="utf-8", errors="replace")
                return Sent([item], None, _loss_error(died, batch, where))

    async def _send_batch(self, batch: Batch, items: Sequence[Any], trail: Path | None = None) -> "Sent":
        deadline = current_scope().deadline
        budget = None if deadline is None else (deadline, deadline.left())
        limit = batch.limit if self.ends_late_workers() else None
        with _traceback_file(is_needed=limit is not None or trail is not None) as file:
            analyses = {item: batch.analyses[item] for item in items} if batch.analyses else {}
            traceback_path, trail_path = (None if path is None else str(path) for path in (file, trail))
            request = Request(batch.key, items, limit, batch.time_limit, traceback_path, trail_path, analyses, budget)
            try:
                data = await self.exchange(dumps(request, "an argument"), batch)
            except WorkerDiedError as error:
                worker_traceback = "" if file is None else file.read_text(errors="replace").strip()
                raise _with_traceback(error, batch, worker_traceback) from None
        return Sent(items, cast("Reply", loads(data)), None)


@dataclass(frozen=True, slots=True)
class Sent:
    """The reply to a batch, or the reason why there is none."""

    items: Sequence[Any]
    """The items of the batch."""
    reply: Reply | None
    """The reply of the worker."""
    error: Exception | None
    """The error, if there is no reply."""

    @property
    def answers(self) -> list[Answer]:
        """One answer for each item."""
        if self.reply is None:
            return [Answer("failed", None, None, 0.0, None) for _ in self.items]
        # An error of the whole batch is sent as a single answer.
        answers = self.reply.answers
        return answers if len(answers) == len(self.items) else answers * len(self.items)

    def spent(self, now: float) -> dict[str, tuple[str, float, float]]:
        """Return the worker, the start and the end for each item, in order.

        The reply arrived at `now`.
        """
        if self.reply is None or len(self.reply.answers) != len(self.items):
            return {}
        intervals: dict[str, tuple[str, float, float]] = {}
        for item, answer in zip(reversed(self.items), reversed(self.reply.answers), strict=True):
            intervals[item] = (self.reply.worker, now - answer.seconds, now)
            now -= answer.seconds
        return dict(reversed(intervals.items()))

    def error_of(self, answer: Answer) -> BaseException | None:
        """Return the exception that an item failed with, or None."""
        return self.error if answer.failure is None else answer.failure.error()


class _Bodies:
    """Context manager that provides the async body of one function pass on one module."""

    def __init__(self, executor: RemoteExecutor, pass_: Any, mod: Any, ctx: PassContext) -> None:
        self._executor = executor
        self._pass = pass_
        self._mod = mod
        self._ctx = ctx

    async def __aenter__(self) -> Callable[..., Awaitable[Any]]:
        message = await run_in_thread_if_safe(
            adapter_for(self._mod), self._mod, partial(pack_bodies, self._pass, self._mod, self._ctx, backend_name())
        )
        label = f"the body of pass {self._pass.info.name!r}"
        self._batch = _batch(message, self._pass.timeout, self._executor.timeout, label)
        self._batches: Batches[str, Answer] = Batches(self._work, self._executor.slots())
        self._changed: dict[str, Any] = {}
        self._runs: dict[str, Run] = {}
        await self._batches.__aenter__()
        return self._body

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._batches.__aexit__(exc_type, exc, traceback)

    async def _body(self, func: Any, mod: Any, ctx: PassContext) -> Any:
        run = current_run()
        assert run is not None, "a body runs within a pass"
        assert run.function is not None, "a body runs on a function"
        self._runs[run.function] = run
        answer = await self._answer(run.function, func, ctx)
        if answer.emitted is not None:
            answer.emitted.replay(ctx)
        if answer.failure is not None:
            raise answer.failure.error()
        if self._batch.timeout_message is not None and answer.seconds > (self._batch.limit or 0):
            raise PassTimeoutError(self._batch.timeout_message)
        if answer.kind == "new":
            return self._changed.pop(run.function)
        return func if answer.kind == "same" else None

    async def _answer(self, name: str, func: Any, ctx: PassContext) -> Answer:
        """Run the body in a worker, with the results of its required analyses.

        The analyses themselves run in this event loop.
        """
        if self._pass.analyses:
            values = [await ctx.get(analysis, func) for analysis in self._pass.analyses]
            names = ", ".join(analysis.name for analysis in self._pass.analyses)
            self._batch.analyses[name] = dumps(values, f"the result of {names} for function {name!r}")
        with waiting_for("a worker"):
            answer = await self._batches.submit(name)
        # Keep the results until the reply, because a lost worker's items are sent again.
        self._batch.analyses.pop(name, None)
        return answer

    async def _work(self, names: Sequence[str]) -> Sequence[Done[Answer]]:
        done: list[Done[Answer]] = []
        for sent in await self._executor.dispatch(self._batch, names):
            raised = self._report_work(sent.spent(perf_counter()))
            if sent.reply is not None and sent.reply.module is not None:
                changed = [name for name, answer in zip(sent.items, sent.answers, strict=True) if answer.kind == "new"]
                module = await open_message(sent.reply.module)
                self._changed.update(extract_into(adapter_for(self._mod), module, changed, self._mod))
            for name, answer in zip(sent.items, sent.answers, strict=True):
                done.append(Done(answer, raised.get(name, sent.error), answer.seconds))
        return done

    def _report_work(self, spent: Mapping[str, tuple[str, float, float]]) -> dict[str, Exception]:
        """Report the work of a worker to the instruments, in order.

        Return the exceptions that the instruments raised, by function. The bodies themselves resume in any order.
        """
        raised: dict[str, Exception] = {}
        for name, (worker, start, end) in spent.items():
            try:
                if worker:
                    self._ctx.report_work(worker, start, end, self._runs[name])
            except Exception as error:
                raised[name] = error
        return raised


def _batch(message: bytes, pass_limit: float | None, executor_limit: float | None, label: str) -> Batch:
    """Return a batch with the smaller one of two time limits."""
    is_pass_limit = pass_limit is not None and (executor_limit is None or pass_limit <= executor_limit)
    timeout_message = f"{label} took longer than {pass_limit:g} s" if is_pass_limit else None
    return Batch(message, pass_limit if is_pass_limit else executor_limit, label, timeout_message=timeout_message)


async def open_message(message: ModuleMessage) -> Any:
    """Deserialize a module; if it is big, in a thread."""
    if len(message.data) <= BIG:
        return message.open()
    return await run_in_thread_if_safe(message.adapter, None, message.open)


def record_passes(pass_: Pass[Any]) -> None:
    """Record in the current context that a pass and the passes inside it run."""
    current_scope().record_pass(pass_)
    for inner in chain.from_iterable(pass_.branches()):
        record_passes(inner)


@contextmanager
def _traceback_file(*, is_needed: bool) -> Generator[Path | None]:
    """Create a temporary file for the worker's traceback, or None if it is not needed."""
    if not is_needed:
        yield None
        return
    with tempfile.NamedTemporaryFile(prefix="apass-", suffix=".txt") as file:
        yield Path(file.name)


def _loss_error(died: WorkerDiedError, batch: Batch, where: str = "") -> Exception:
    """Return the error for work that is not retried; `where` is the worker's trail."""
    error: Exception
    path = _PATH.match(where)
    label = batch.label if path is None else f"pass {path[1].rpartition(' > ')[2]!r}"
    if died.is_late and batch.timeout_message is not None:
        error = PassTimeoutError(batch.timeout_message)
    elif died.used_memory:
        error = OutOfMemoryError(f"{label} ran {died}")
        error.used = died.used_memory
    elif died.is_innocent:
        error = ClusterLostError(f"{label} cannot run: {died}")
    else:
        workers = "two workers in succession" if batch.is_retried else "its worker"
        error = WorkerLostError(f"{label} lost {workers}: {died}")
    if where:
        error.add_note(where)
    if died.last_words:
        error.add_note(died.last_words)
    return error


def _with_traceback(error: WorkerDiedError, batch: Batch, worker_traceback: str) -> WorkerDiedError:
    """Return the error with the worker's traceback, if there is one.

    A worker writes a traceback if its time limit is exceeded, or if it crashes.
    """
    if not worker_traceback:
        return error
    worker_traceback = _of_user(worker_traceback)
    if worker_traceback.startswith(_CRASH):
        return WorkerDiedError(str(error), f"traceback of the crash:\n{worker_traceback}")
    note = f"traceback at the timeout:\n{worker_traceback}"
    return WorkerDiedError(f"it took longer than {batch.time_limit or batch.limit:g} s", note, is_late=True)


_CRASH: Final = "Fatal Python error"
"""The start of the traceback of a crash."""
_PATH: Final = re.compile(r"in pass '([^']*)'")
"""The path of passes in a trail."""


def _of_user(text: str) -> str:
    """Return a traceback without lines of apass and libraries, unless all are."""
    lines = text.splitlines()
    files = {line: found[1] for line in lines if (found := re.match(r'  File "(.+)", line ', line))}
    others = {line for line, file in files.items() if file.startswith((*LIBRARIES, OWN))}
    return "\n".join(lines if len(others) == len(files) else [line for line in lines if line not in others])
