"""`Pause`: a module that a `PauseInstrument` has paused, and the commands for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from anyio.to_thread import run_sync

from apass.concurrency.signal import Signal
from apass.core.adapter import adapter_for
from apass.core.module_diff import ModuleDiff
from apass.core.pass_info import PassInfo
from apass.core.position import Position
from apass.core.run import Run
from apass.errors import PauseError
from apass.instruments.pause.stepping import Stepping
from apass.pipelines.parser import replace_options

__all__ = ["Decision", "Pause", "PauseStage", "Replace", "Reply", "Rerun", "Resume", "Skip"]

PauseStage = Literal["before", "after", "failed", "waiting"]
"""Where a module is paused: before or after a pass, after its error, or while it waits."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue, and pause again as `stepping` says."""

    stepping: Stepping


@dataclass(frozen=True, slots=True)
class Skip:
    """Take the input of the pass as its result."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Take another module, and pause again."""

    mod: Any


@dataclass(frozen=True, slots=True)
class Rerun:
    """Run a pass on the input, in place of the pass, and pause after it."""

    pass_: Any


Decision = Resume | Skip | Replace | Rerun
"""A command of the user that ends a pause."""


class Reply:
    """Where the decision about a pause arrives."""

    __slots__ = ("_signal", "decision", "is_open")

    def __init__(self) -> None:
        self._signal: Final = Signal()
        self.decision: Decision | None = None
        """The decision, if there is one."""
        self.is_open: bool = True
        """Whether the pause still waits for a decision."""

    def give(self, decision: Decision) -> None:
        """Decide, once.

        Raises:
            PauseError: if the pause has ended.

        """
        if not self.is_open:
            raise PauseError("the pause has ended; take the next one from `next_pause()`")
        self.decision = decision
        self.close()

    def close(self) -> None:
        """End the pause."""
        self.is_open = False
        self._signal.notify()

    async def wait(self) -> Decision | None:
        """Return the decision; None if the pause was closed without one."""
        while self.is_open:
            await self._signal.wait()
        return self.decision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pause:
    """A module that is paused before, after or within a pass; equal only to itself.

    Each pause takes one of the commands `step`, `next`, `finish`, `continue_`, `skip`, `replace` and `rerun`, which
    ends it. `PauseInstrument` has an example.
    """

    stage: PauseStage
    """`before` or `after` the pass, after it `failed`, or while it is `waiting`."""
    reason: str
    """Why the module is paused: the text of a breakpoint, or a command such as `step`."""
    position: Position
    """The position of the pass in the run of its module."""
    run: Run
    """The run of the pass."""
    before: Any
    """The module before the pass."""
    after: Any = None
    """The module after the pass, or the one that replaces its input; None if there is none."""
    error: Exception | None = None
    """What the pass raised, if it failed."""
    waits_for: tuple[str, ...] = ()
    """What the pass waits for, as named by `waiting_for`, if it is waiting."""
    reply: Reply = field(repr=False)
    """Where the command arrives; for the instrument."""
    write: Callable[[Any, Path, Exception | None], Path] = field(repr=False)
    """Writes a reproducer; for `save`."""

    @property
    def info(self) -> PassInfo:
        """The metadata of the pass."""
        return self.run.info

    @property
    def module(self) -> Any:
        """The current module: the result of the pass if there is one, or else its input."""
        return self.before if self.after is None else self.after

    @property
    def input(self) -> Any:
        """The module that the pass receives."""
        return self.module if self.stage == "before" else self.before

    @property
    def diff(self) -> str:
        """The unified diff from `before` to `module`, or "" if their texts are equal."""
        return "" if self.after is None else ModuleDiff.of(self.before, self.after).text()

    @property
    def is_open(self) -> bool:
        """Whether the pause waits for a command: no command came, and no cancellation."""
        return self.reply.is_open

    def step(self) -> None:
        """Continue to the next pass that begins or ends in this module.

        It may be an inner one.

        Raises:
            PauseError: if the pause has ended. All commands raise it.

        """
        self._resume("step")

    def next(self) -> None:
        """Continue to the end of this pass, or after it, to the next one of its level."""
        self._resume("next")

    def finish(self) -> None:
        """Continue to the end of the pass that contains this one."""
        self._resume("finish")

    def continue_(self) -> None:
        """Continue to the next breakpoint."""
        self._resume("run")

    def skip(self) -> None:
        """Take the input of the pass as its result, and pause at the next pass.

        A pass that waits is cancelled, and the error of a failed one is dropped.
        """
        self.reply.give(Skip())

    def replace(self, mod: Any) -> None:
        """Continue with another module, and pause here again.

        Before the pass it is the new input, otherwise the new result. A pass that waits is cancelled, and the error of
        a failed one is dropped.

        Raises:
            AdapterError: if `mod` is no module.

        """
        adapter_for(mod)
        self.reply.give(Replace(mod))

    def rerun(self, options: Mapping[str, object] | str | None = None) -> None:
        """Run the pass on its input, and pause after it; a pass that waits is cancelled.

        Parameters:
            options: options to set for this run, as a mapping or as in the text of a pipeline: `times=3`. The pass must
                be registered, and keeps its other options.

        Raises:
            PauseError: if the pass itself is unknown.
            PipelineSyntaxError: if an option is unknown or invalid.
            UnknownPassError: if there are options, and the pass is not registered.

        """
        pass_: Any = self.run.pass_
        if options:
            if pass_ is None:
                raise PauseError(f"pass {self.info.name!r} cannot run with other options: only its name is known here")
            pass_ = replace_options(pass_, options)
        self.reply.give(Rerun(pass_ if options else None))

    async def save(self, folder: Path | str) -> Path:
        """Write a reproducer of the input, the pass and its context; return its folder.

        `apass.replay` runs the pass on it again. The pause goes on.

        Parameters:
            folder: the folder to create; if it exists, its name gets a number.

        Raises:
            OSError: if it cannot be written.

        """
        mod, error = self.input, self.error
        if adapter_for(mod).thread_safe:
            return await run_sync(self.write, mod, Path(folder), error)
        return self.write(mod, Path(folder), error)

    def _resume(self, kind: Literal["run", "step", "next", "finish"]) -> None:
        self.reply.give(Resume(Stepping(kind, self.run, has_ended=self.stage in ("after", "failed"))))
