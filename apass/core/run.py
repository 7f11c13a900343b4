"""`current_run()`: where a hook or a pass stands, known by contextvar and so right under concurrency."""

from collections.abc import Iterator, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, replace
from operator import length_hint
from typing import Any, Protocol, Self

from apass.core.info import PassInfo

__all__ = [
    "Run",
    "Steps",
    "current_module_name",
    "current_run",
    "enter_module",
    "functions_to_come",
    "leave_module",
    "module_at_work",
]


class HasInfo(Protocol):
    """What is known of a pass here. A Protocol, because passes lie below."""

    info: PassInfo
    """The metadata."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Run:
    """One execution of a pass. Two runs are equal only if they are the same execution."""

    info: PassInfo
    """The pass that runs."""
    parent: "Run | None"
    """The run that called it, None for an outermost one."""
    function: str | None = None
    """The function whose body runs, None outside of the bodies of a function pass."""
    module: str | None = field(default_factory=lambda: _MODULE.get())
    """The name that `optimize_all` and its like know the module by."""
    body_of: "Run | None" = None
    """The run of the function pass whose body this is; None for anything but a body."""
    pass_: "HasInfo | None" = field(default=None, repr=False)
    """The pass itself; None where only its metadata are known, as in another process."""

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the passes from the outermost down to this one."""
        return (*self.parent.path, self.info.name) if self.parent else (self.info.name,)

    @property
    def lineage(self) -> "tuple[Run, ...]":
        """This run and those that called it, innermost first."""
        return (self, *self.parent.lineage) if self.parent else (self,)


class Steps:
    """Where a Sequential stands: cheaper for each of its passes than a contextvar set and reset.

    Only the Sequential's own loop writes `at`, between two of its passes.
    """

    __slots__ = ("at", "parent")

    def __init__(self, parent: Run | None) -> None:
        self.parent = parent
        """The run of the Sequential itself."""
        self.at: HasInfo | Run | None = None
        """The pass that runs now; a Run once somebody has asked for it."""

    def run(self) -> Run | None:
        """Return the run of the pass at work, the same object for as long as it is."""
        at = self.at
        if at is None:
            return self.parent
        if not isinstance(at, Run):
            self.at = at = Run(at.info, self.parent, pass_=at)
        return at


class Bodies:
    """The bodies of one function pass; a body's `Run` is made only when somebody asks for it."""

    __slots__ = ("_made", "left", "mod", "names", "parent")

    def __init__(self, parent: Run, names: Sequence[str], mod: object = None) -> None:
        self.parent = parent
        """The run of the function pass."""
        self.names = names
        """The functions whose bodies run, by index."""
        self.mod = mod
        """The module whose functions they are."""
        self.left: Iterator[int] = iter(())
        """The indices of the bodies that have not begun; a range's iterator, which knows how many those are."""
        self._made: dict[int, Run] = {}

    def run_of(self, index: int) -> Run:
        """Return the run of one body, the same object every time."""
        if index not in self._made:
            self._made[index] = replace(self.parent, function=self.names[index], body_of=self.parent)
        return self._made[index]


class Place:
    """Where one worker of a fan-out stands: cheaper for each body than a contextvar set and reset.

    Only the worker writes `index`, between two bodies.
    """

    __slots__ = ("bodies", "index", "may_recruit")

    def __init__(self, bodies: Bodies) -> None:
        self.bodies = bodies
        """All bodies of the fan-out."""
        self.index = 0
        """The one at work."""
        self.may_recruit = False
        """Whether the worker is to send for one more."""

    def run(self) -> Run:
        """Return the run of the body at work."""
        return self.bodies.run_of(self.index)


class InlinePlace:
    """Where bodies stand that run one after the other: told by how many items are left, at no cost for each."""

    __slots__ = ("bodies", "left")

    def __init__(self, bodies: Bodies, left: Iterator[Any]) -> None:
        self.bodies = bodies
        """All bodies of the pass."""
        self.left = left
        """The items whose bodies have not begun; a list's iterator, which knows how many those are."""

    def run(self) -> Run:
        """Return the run of the body at work."""
        return self.bodies.run_of(len(self.bodies.names) - length_hint(self.left) - 1)


class RunNote(str):
    """A note on an error that is about a run."""

    __slots__ = ("run",)

    def __new__(cls, text: str, run: Run) -> Self:
        """Return `text` as a note about `run`."""
        made = super().__new__(cls, text)
        made.run = run
        return made

    run: Run
    """What failed."""


class Whereabouts(RunNote):
    """Says where an error was raised; added once, by the innermost run."""

    __slots__ = ()


def note_whereabouts(error: BaseException, run: Run) -> None:
    """Add a note to `error` that names pass, function and module, unless `run` or one beneath it has added its own."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, Whereabouts) and any(run in (one, one.body_of) for one in note.run.lineage):
            return
    where = f"in pass {' > '.join(run.path)!r}"
    where += f", function {run.function!r}" if run.function is not None else ""
    for caller in run.lineage[1:]:
        where += f", for function {caller.function!r} of {caller.info.name!r}" if caller.function is not None else ""
    where += f", module {run.module!r}" if run.module is not None else ""
    error.add_note(Whereabouts(where, run))


_MODULE: ContextVar[str | None] = ContextVar("apass_module", default=None)
RUN: ContextVar[Run | Steps | Place | InlinePlace | None] = ContextVar("apass_run", default=None)
"""Where this task stands; for the runner alone, everybody else asks `current_run`."""


def current_run() -> Run | None:
    """Return where the caller stands: pass, path of passes, function, module name, parent; None outside of any pass.

    From a hook it is the run of the pass that the hook is about; from `enter_pass_ctx` and `exit_pass_ctx` the pass, if
    any, that entered the context.
    """
    at = RUN.get()
    return at.run() if isinstance(at, Steps | Place | InlinePlace) else at


def functions_to_come() -> int:
    """Return how many functions of the pass at work have to wait for their bodies to begin; 0 outside of a body."""
    at = RUN.get()
    return length_hint(at.bodies.left) if isinstance(at, Place) else 0


def module_at_work() -> object:
    """Return the module whose function's body the caller is, None outside of a body."""
    at = RUN.get()
    return at.bodies.mod if isinstance(at, Place | InlinePlace) else None


def current_module_name() -> str | None:
    """Return the name under which the module at work was given to `optimize_all` or its like, None elsewhere."""
    return _MODULE.get()


def enter_module(name: str) -> Token[str | None]:
    """Name the module that this task works on from here; give the token to `leave_module`."""
    return _MODULE.set(name)


def leave_module(token: Token[str | None]) -> None:
    """Undo `enter_module`."""
    _MODULE.reset(token)
