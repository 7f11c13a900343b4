"""`current_run()`: the execution of a pass that the caller belongs to."""

from collections.abc import Iterator
from contextvars import ContextVar, Token
from operator import length_hint
from time import perf_counter
from typing import Any, Final, Self, final

from apass.core.pass_info import AnyPass, PassInfo

__all__ = [
    "RUN",
    "Run",
    "RunCursor",
    "RunNote",
    "Whereabouts",
    "current_module",
    "current_module_name",
    "current_run",
    "enter_module",
    "functions_to_come",
    "is_whereabouts",
    "leave_module",
    "note_whereabouts",
    "standing_cursor",
    "whereabouts_of",
]


_MODULE: ContextVar[str | None] = ContextVar("apass_module", default=None)
_WHERE: Final = "in pass "
"""The start of the note that names where an error was raised."""
_NO_QUEUE: Final[Iterator[Any]] = iter(())


@final
class Run:
    """One execution of a pass, or of one function's body; equal only to itself.

    A plain class with slots, because a frozen dataclass takes six times as long to make (1.7 against 0.3 us), and the
    runner makes one for each call of a pass.
    """

    __slots__ = ("__weakref__", "body_of", "ended", "function", "info", "module", "parent", "pass_", "started")

    def __init__(
        self,
        info: PassInfo,
        parent: "Run | None",
        function: str | None = None,
        module: str | None = None,
        body_of: "Run | None" = None,
        pass_: AnyPass | None = None,
    ) -> None:
        self.info: Final = info
        """The pass that runs."""
        self.parent: Final = parent
        """The run that called it, None for an outermost one."""
        self.function: Final = function
        """The function whose body runs, None outside of the bodies of a function pass."""
        self.module: Final = module
        """The name by which `optimize_all` and its like know the module."""
        self.body_of: Final = body_of
        """The run of the function pass that the body belongs to; None for a run that is no body."""
        self.pass_: Final = pass_
        """The pass itself; None where only its metadata are known, as in another process."""
        self.started: float = 0.0
        """The `time.perf_counter` at which its work began, after the hooks; 0 if there are no instruments."""
        self.ended: float = 0.0
        """The `time.perf_counter` at which its work ended, before the hooks; 0 if it has not ended."""

    def body(self, function: str) -> "Run":
        """Return the run of the body for one function of this function pass."""
        return Run(self.info, self.parent, function, self.module, self, self.pass_)

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the passes from the outermost down to this one."""
        return (*self.parent.path, self.info.name) if self.parent else (self.info.name,)

    @property
    def seconds(self) -> float:
        """How long its work took, without the hooks around it; 0 if it has not ended."""
        return self.ended - self.started if self.ended else 0.0

    @property
    def lineage(self) -> "tuple[Run, ...]":
        """This run and those that called it, innermost first."""
        return (self, *self.parent.lineage) if self.parent else (self,)

    def __repr__(self) -> str:
        function = "" if self.function is None else f", function={self.function!r}"
        return f"Run({' > '.join(self.path)!r}{function}, module={self.module!r})"


class RunCursor:
    """The current run of a call or a loop; creates the `Run` on request.

    Only the loop writes `item`, between two passes or two bodies. This costs a fraction of a contextvar that is set and
    reset, and no run that no hook asks for is ever made. A loop over passes is a `with` block, in which the cursor is
    current.
    """

    __slots__ = ("_before", "ended", "hooks", "item", "mod", "module", "parent", "queue", "started")

    def __init__(self, parent: Run | None, mod: object = None, queue: Iterator[Any] = _NO_QUEUE) -> None:
        self.parent: Run | None = parent
        """The run that the loop belongs to."""
        self.mod: object = mod
        """The module that the current pass or body works on; None before the first pass."""
        self.hooks: Any = None
        """The hooks of instruments around the current pass; None before the first pass that has some."""
        self.queue: Iterator[Any] = queue
        """The bodies that have not started; an iterator that knows its length."""
        self.item: AnyPass | str | Run | None = None
        """The pass, or the function by name, that runs now; its `Run` after the first request for it."""
        # Read here, because the request may come from a task that works on a module of another name.
        self.module: str | None = _MODULE.get()
        """The name of the module that the passes of the loop work on."""
        self.started: float = 0.0
        """The `started` of the current run, if its `Run` has not been requested."""
        self.ended: float = 0.0
        """The `ended` of the current run, if its `Run` has not been requested."""

    def __enter__(self) -> Self:
        self._before = RUN.get()
        RUN.set(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        RUN.set(self._before)
        # Contexts of callbacks keep the cursor after the loop.
        self.mod = None

    def begin(self) -> None:
        """Record the time at which the work of the current pass begins."""
        # The times stay here until a hook requests the run: most passes between hooks need none.
        (self.item if isinstance(self.item, Run) else self).started = perf_counter()

    def end(self) -> None:
        """Record the time at which the work of the current pass ends, if it has begun."""
        timed = self.item if isinstance(self.item, Run) else self
        # A pass that fails in its after hooks has ended before them, and one that fails in `should_run` never began.
        if timed.started and not timed.ended:
            timed.ended = perf_counter()

    def run(self) -> Run | None:
        """Return the current run: the same object until the loop goes on."""
        item = self.item
        if item is None:
            return self.parent
        if not isinstance(item, Run):
            if not isinstance(item, str):
                # A hook may keep the run: it takes the times so far with it.
                item = Run(item.info, self.parent, None, self.module, None, item)
                item.started, item.ended = self.started, self.ended
            else:
                assert self.parent is not None, "a body belongs to a pass"
                item = self.parent.body(item)
            self.item = item
        return item


class RunNote(str):
    """A note on an error that is about a run."""

    __slots__ = ("run",)

    def __new__(cls, text: str, run: Run) -> Self:
        """Return `text` as a note about `run`."""
        note = super().__new__(cls, text)
        note.run = run
        return note

    def __reduce__(self) -> tuple[Any, ...]:
        # A run stays in its process.
        return str, (str(self),)

    run: Run
    """The run that failed."""


class Whereabouts(RunNote):
    """The note that names where an error was raised; the innermost run adds it, once."""

    __slots__ = ()


def is_whereabouts(note: str) -> bool:
    """Return whether a note names where an error was raised, also in a worker."""
    # Not by its type: a worker sends the text of a note only.
    return note.startswith(_WHERE)


def note_whereabouts(error: BaseException, run: Run) -> None:
    """Add a note to `error` that names pass, function and module.

    If `run`, or a run beneath it, has added its note before, add nothing.
    """
    # A pass may catch the error of an inner pass and raise it again. The inner place is the better one.
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, Whereabouts) and any(run in (inner, inner.body_of) for inner in note.run.lineage):
            return
    error.add_note(Whereabouts(whereabouts_of(run), run))


def whereabouts_of(run: Run) -> str:
    """Return the text that names pass, function and module of a run."""
    where = f"{_WHERE}{' > '.join(run.path)!r}"
    where += f", function {run.function!r}" if run.function is not None else ""
    for caller in run.lineage[1:]:
        where += f", for function {caller.function!r} of {caller.info.name!r}" if caller.function is not None else ""
    return where + (f", module {run.module!r}" if run.module is not None else "")


RUN: ContextVar[Run | RunCursor | None] = ContextVar("apass_run", default=None)
"""The current run of this task, or the cursor that knows it; for the runner alone, others call `current_run`."""


def current_run() -> Run | None:
    """Return the current execution of a pass; None outside of any pass.

    It holds the pass, the path of passes, the function, the name of the module and the parent.

    In a hook it is the run that the hook is about. In `enter_pass_ctx` and `exit_pass_ctx` it is the run of the pass
    that entered the context, if a pass did.
    """
    current = RUN.get()
    return current.run() if isinstance(current, RunCursor) else current


def functions_to_come() -> int:
    """Return how many bodies of the pass are queued; 0 outside of an async body."""
    # The iterator of a list knows how much is left of it, so a fan-out counts nothing for this.
    current = RUN.get()
    return length_hint(current.queue) if isinstance(current, RunCursor) else 0


def current_module() -> object:
    """Return the module of the current pass or body; None outside of any pass."""
    current = RUN.get()
    return current.mod if isinstance(current, RunCursor) else None


def standing_cursor() -> RunCursor:
    """Return a cursor that stays at the current run, for another thread.

    The cursor of the loop may have gone on to the next pass when the thread asks.
    """
    cursor = RunCursor(None, current_module())
    cursor.item = current_run()
    return cursor


def current_module_name() -> str | None:
    """Return the name that `optimize_all` or its like gave the module; None elsewhere."""
    return _MODULE.get()


def enter_module(name: str) -> Token[str | None]:
    """Name the module that this task works on; pass the token to `leave_module`."""
    return _MODULE.set(name)


def leave_module(token: Token[str | None]) -> None:
    """Undo `enter_module`."""
    _MODULE.reset(token)
