"""`RemoteExecutor`: what executors share whose workers have a memory of their own; for authors of executors."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final, TypeVar, TypeVarTuple, cast
from uuid import uuid4

from anyio import CapacityLimiter
from anyio.lowlevel import current_token

from apass.core.adapter import adapter_for, aside, extract_into
from apass.core.context import PassContext, current_scope
from apass.core.run import Run, current_run
from apass.errors import PassTimeoutError, WorkerLostError
from apass.executors.batching import Batches, Done
from apass.executors.limits import Slots
from apass.executors.messages import ModuleParcel, pack_bodies, pack_pass
from apass.executors.pickling import dumps, loads
from apass.executors.worker import Answer, Reply, Request
from apass.passes.base import Pass
from apass.util.checks import is_count, is_seconds
from apass.waits import waiting_for

__all__ = ["Errand", "RemoteExecutor", "WorkerDiedError", "backend_name", "meet"]

ItemT = TypeVar("ItemT")
R = TypeVar("R")
Args = TypeVarTuple("Args")

BIG: Final = 1 << 16
"""Bytes that are read in a thread, and not in the loop."""


class WorkerDiedError(Exception):
    """A worker ended at its work, or gave no answer in time. For `exchange` to raise; users see WorkerLostError."""

    def __init__(self, reason: str, last_words: str = "", *, is_late: bool = False, is_final: bool = False) -> None:
        super().__init__(reason)
        self.last_words = last_words
        """Where it was when its time was over."""
        self.is_late = is_late
        """Whether its time was over."""
        self.is_final = is_final
        """Whether it was tried again already."""


@dataclass(frozen=True, slots=True, eq=False)
class Errand:
    """What batches of one run have in common."""

    parcel: bytes
    """What a worker must know before the first batch."""
    limit: float | None
    """Seconds for one item."""
    what: str
    """What the work is, for messages."""
    late: str | None = None
    """What to say of an item over its time, where that is no fault of the worker."""
    known: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """What the analyses that the pass requires say of functions under way, by their names."""
    key: str = field(default_factory=lambda: uuid4().hex)
    """Names the parcel."""


class RemoteExecutor(ABC):
    """An Executor whose workers have a memory of their own: modules and passes go to them as bytes.

    A subclass says how bytes get there (`exchange`). Its objects are values: slots belong to the event loop.
    """

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        if not is_count(workers):
            raise ValueError(f"workers must be an int of at least 1, not {workers!r}")
        if timeout is not None and not is_seconds(timeout):
            raise ValueError(f"timeout must be a number of seconds above 0, or None; not {timeout!r}")
        self.workers: Final = workers
        """How many workers there are at most."""
        self.timeout: Final = timeout
        """Seconds that a worker has for one body, call or module; None is no limit."""
        self._slots: Final = Slots(workers)

    @abstractmethod
    async def exchange(self, request: bytes, errand: Errand) -> bytes:
        """Have a worker do `handle(request, errand.parcel)`, and return what that returns.

        Cancelled, it ends or stops the work.

        Raises:
            WorkerDiedError: if the worker ended, or did not answer in time.

        """

    def ends_late_workers(self) -> bool:
        """Tell whether a worker may end itself when an item is over its time: it does nobody else's work meanwhile."""
        return True

    def slots(self) -> CapacityLimiter:
        """Return the slots of the executor in this event loop; each batch holds one."""
        return self._slots.here()

    def bodies(self, pass_: Any, mod: Any, ctx: PassContext) -> "_Bodies":
        """Make ready for the bodies of a function pass on `mod` (see `Executor`)."""
        return _Bodies(self, pass_, mod, ctx)

    async def optimize(self, pass_: Pass[Any], mod: Any, ctx: PassContext) -> Any:
        """Run a whole pass on `mod` in a worker, and return the new module, or `mod` itself if nothing changed.

        Instruments stay where they are and are told nothing. Diagnostics, statistics and remarks come back.
        """
        meet(pass_)
        name = pass_.info.name
        async with self.slots():
            parcel = await aside(adapter_for(mod), partial(pack_pass, pass_, mod, ctx, backend_name()))
            sent = (await self.dispatch(Errand(parcel, self.timeout, f"pass {name!r}"), [None]))[0]
        answer = sent.answers[0]
        if answer.heard is not None:
            answer.heard.repeat(ctx)
        error = sent.error_of(answer)
        if error is not None:
            raise error
        made = None if sent.reply is None else sent.reply.module
        return mod if made is None else await opened(made)

    async def call(self, function: Callable[[*Args], R], *args: *Args) -> R:
        """Return `function(*args)`; function, arguments and result go by pickle.

        Raises:
            ExecutorError: if one of them cannot.
            WorkerLostError: if two workers ended at it, one after the other.
            Exception: what the function raises, with the traceback as a note.

        """
        errand = self._calls(function)
        async with self.slots():
            done = (await self._do_calls(errand, [args]))[0]
        return cast("R", done.unwrap())

    async def map(self, function: Callable[[ItemT], R], items: Iterable[ItemT]) -> list[R]:
        """Return `function(item)` for each of `items`, in order; errors as of `call`. The first ends the others."""
        errand = self._calls(function)

        async def work(batch: Sequence[Any]) -> Sequence[Done[Any]]:
            return await self._do_calls(errand, [(one,) for one in batch])

        async with Batches(work, self.slots()) as batches:
            return await batches.submit_all(items)

    def _calls(self, function: Callable[..., Any]) -> Errand:
        name = getattr(function, "__qualname__", repr(function))
        return Errand(dumps(function, f"function {name!r}"), self.timeout, f"function {name!r}")

    async def _do_calls(self, errand: Errand, items: Sequence[Any]) -> list[Done[Any]]:
        found: list[Done[Any]] = []
        for sent in await self.dispatch(errand, items):
            for answer in sent.answers:
                result = None if answer.value is None else loads(answer.value)
                found.append(Done(result, sent.error_of(answer), answer.seconds))
        return found

    async def dispatch(self, errand: Errand, items: Sequence[Any]) -> list["Sent"]:
        """Have a batch done; where its worker is lost, each of its items once more, by itself. For this module."""
        try:
            return [await self._ask(errand, items)]
        except WorkerDiedError as error:
            if len(items) == 1 and (error.is_final or (error.is_late and errand.late is not None)):
                return [Sent(items, None, _lost(error, errand))]
            return [await self._once_more(errand, item) for item in items]

    async def _once_more(self, errand: Errand, item: Any) -> "Sent":
        try:
            return await self._ask(errand, [item])
        except WorkerDiedError as died:
            return Sent([item], None, _lost(died, errand))

    async def _ask(self, errand: Errand, items: Sequence[Any]) -> "Sent":
        with _last_words(errand.limit if self.ends_late_workers() else None) as file:
            limit = None if file is None else errand.limit
            known = {item: errand.known[item] for item in items} if errand.known else {}
            request = dumps(Request(errand.key, items, limit, str(file), known), "an argument")
            try:
                data = await self.exchange(request, errand)
            except WorkerDiedError as error:
                said = "" if file is None else file.read_text(errors="replace").strip()
                raise _explained(error, errand, said) from None
        return Sent(items, cast("Reply", loads(data)), None)


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that came back, or did not."""

    items: Sequence[Any]
    """What was to be done."""
    reply: Reply | None
    """What the worker answered."""
    error: Exception | None
    """Why there is no answer."""

    @property
    def answers(self) -> list[Answer]:
        """An answer for each item."""
        if self.reply is None:
            return [Answer("failed", None, None, 0.0, None) for _ in self.items]
        # What kept the whole batch from being done is said once.
        every = self.reply.answers
        return every if len(every) == len(self.items) else every * len(self.items)

    def spent(self, now: float) -> dict[str, tuple[str, float, float]]:
        """Return which worker did each item, in order, and from when to when, given that it has just answered."""
        if self.reply is None or len(self.reply.answers) != len(self.items):
            return {}
        found: dict[str, tuple[str, float, float]] = {}
        for item, answer in zip(reversed(self.items), reversed(self.reply.answers), strict=True):
            found[item] = (self.reply.worker, now - answer.seconds, now)
            now -= answer.seconds
        return dict(reversed(found.items()))

    def error_of(self, answer: Answer) -> BaseException | None:
        """Return what an item failed with; None if it did not."""
        return self.error if answer.failure is None else answer.failure.error()


class _Bodies:
    """The bodies of one function pass on one module; gives the async body."""

    def __init__(self, executor: RemoteExecutor, pass_: Any, mod: Any, ctx: PassContext) -> None:
        self._executor = executor
        self._pass = pass_
        self._mod = mod
        self._ctx = ctx

    async def __aenter__(self) -> Callable[..., Awaitable[Any]]:
        parcel = await aside(adapter_for(self._mod), partial(pack_bodies, self._pass, self._mod, self._ctx))
        own, other = self._pass.timeout, self._executor.timeout
        name = self._pass.info.name
        is_own = own is not None and (other is None or own <= other)
        late = f"the body of pass {name!r} took longer than {own:g} s" if is_own else None
        self._errand = Errand(parcel, own if is_own else other, f"the body of pass {name!r}", late)
        self._batches: Batches[str, Answer] = Batches(self._work, self._executor.slots())
        self._made: dict[str, Any] = {}
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
        if answer.heard is not None:
            answer.heard.repeat(ctx)
        if answer.failure is not None:
            raise answer.failure.error()
        if self._errand.late is not None and answer.seconds > (self._errand.limit or 0):
            raise PassTimeoutError(self._errand.late)
        if answer.kind == "new":
            return self._made.pop(run.function)
        return func if answer.kind == "same" else None

    async def _answer(self, name: str, func: Any, ctx: PassContext) -> Answer:
        """Have the body run, with what the analyses say that its pass requires; these stay in the loop."""
        if self._pass.analyses:
            values = [await ctx.get(one, func) for one in self._pass.analyses]
            names = ", ".join(one.name for one in self._pass.analyses)
            self._errand.known[name] = dumps(values, f"what {names} said of function {name!r}")
        with waiting_for("a worker"):
            answer = await self._batches.submit(name)
        # Kept until then, as the work may have to be sent once more.
        self._errand.known.pop(name, None)
        return answer

    async def _work(self, names: Sequence[str]) -> Sequence[Done[Answer]]:
        done: list[Done[Answer]] = []
        for sent in await self._executor.dispatch(self._errand, names):
            raised = self._tell(sent.spent(perf_counter()))
            if sent.reply is not None and sent.reply.module is not None:
                changed = [name for name, one in zip(sent.items, sent.answers, strict=True) if one.kind == "new"]
                made = await opened(sent.reply.module)
                self._made.update(extract_into(adapter_for(self._mod), made, changed, self._mod))
            for name, answer in zip(sent.items, sent.answers, strict=True):
                done.append(Done(answer, raised.get(name, sent.error), answer.seconds))
        return done

    def _tell(self, spent: Mapping[str, tuple[str, float, float]]) -> dict[str, Exception]:
        """Tell instruments what a worker did, in the order in which it did it, and return what they raised.

        The bodies go on in any order.
        """
        raised: dict[str, Exception] = {}
        for name, (worker, start, end) in spent.items():
            try:
                for hook in self._ctx.hooks.work if worker else ():
                    hook(self._runs[name], worker, start, end)
            except Exception as error:
                raised[name] = error
        return raised


async def opened(parcel: ModuleParcel) -> Any:
    """Return the module in a parcel; a big one is read in a thread."""
    return await aside(parcel.adapter, parcel.open) if len(parcel.data) > BIG else parcel.open()


def backend_name() -> str:
    """Return the name of the event loop that runs, as `anyio.run` takes it."""
    native = type(current_token().native_token).__module__
    return "trio" if native.partition(".")[0] == "trio" else "asyncio"


def meet(pass_: Pass[Any]) -> None:
    """Note that a pass and those that it is made of run in the current context, wherever that is."""
    current_scope().meet(pass_.info.name)
    for child in pass_.children():
        meet(child)


@contextmanager
def _last_words(limit: float | None) -> Generator[Path | None]:
    """Give a file for what a worker says when its time is over; None without a limit."""
    if limit is None:
        yield None
        return
    with tempfile.NamedTemporaryFile(prefix="apass-", suffix=".txt") as file:
        yield Path(file.name)


def _lost(died: WorkerDiedError, errand: Errand) -> Exception:
    """Return what to tell of work that is not tried any more."""
    if died.is_late and errand.late is not None:
        return PassTimeoutError(errand.late)
    workers = "workers" if died.is_final else "two workers"
    error = WorkerLostError(f"{errand.what} lost {workers}, one after the other: {died}")
    if died.last_words:
        error.add_note(died.last_words)
    return error


def _explained(error: WorkerDiedError, errand: Errand, said: str) -> WorkerDiedError:
    """Return the error with what the worker said at its end, which it does only when its time is over."""
    if not said:
        return error
    return WorkerDiedError(f"it took longer than {errand.limit:g} s", f"where it was then:\n{said}", is_late=True)
