"""`PauseInstrument`: pauses modules between passes, for debuggers."""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Any, Final, Literal, Self, cast
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import checkpoint

from apass.concurrency.backend import backend_name
from apass.concurrency.signal import Signal
from apass.core.context import PassContext, waiting_for
from apass.core.instrument import PassWork, pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.questions import Answer
from apass.core.run import Run, current_run
from apass.errors import PauseError
from apass.instruments.pause.activity_hooks import ActivityHooks
from apass.instruments.pause.breakpoints import Breakpoint, ErrorBreakpoint, WaitBreakpoint, parse_breakpoint
from apass.instruments.pause.pause import Decision, Pause, PauseStage, Replace, Reply, Rerun, Resume, Skip
from apass.instruments.pause.reached import reached_after, reached_before
from apass.instruments.pause.stepping import RUNNING, Stepping
from apass.instruments.reproducer.capture import AnswersByRun, capture, rest_text
from apass.instruments.reproducer.folder import write_reproducer
from apass.instruments.support.activity import ActiveRun

__all__ = ["PauseInstrument"]

_ROUNDS: Final = 20
"""Rounds of the event loop in which a pass that can go on does so, for example between two passes of a pipeline."""


class _Frame:
    """A pass that runs."""

    __slots__ = ("changes", "latest", "position", "reported", "run", "waited", "waiting")

    def __init__(self, run: Run, position: Position, mod: Any) -> None:
        self.run: Final = run
        self.position: Final = position
        self.latest = mod
        """The input, or what the last pass returned that this one has called."""
        self.changes: list[tuple[Any, Any]] = []
        """The modules before and after each change that the pass made itself before it called another one."""
        self.reported: BaseException | None = None
        """The error of a pass within it for which the module was paused."""
        self.waited: set[WaitBreakpoint] = set()
        """The breakpoints on waits at which the module was paused in this pass."""
        self.waiting: Pause | None = None
        """The open pause during a wait of the pass."""


@pass_instrument
class PauseInstrument(ActivityHooks):
    """Pauses modules at breakpoints and step by step, for a debugger.

    Another task takes the pauses from `next_pause()`, or iterates with `async for`, and answers each by a command. The
    iteration ends with the last context that uses the instrument. At the end of `async with`, paused modules continue,
    and none pauses any more. If the run is cancelled, its pauses end.

    Passes are paused on the event loop in which the context was entered. A deadline continues to count.

    Parameters:
        breakpoints: the breakpoints, or their texts (see `parse_breakpoint`).
        others: what other modules do during a pause: `run`, or `stop` at the next pass that begins or ends.
        watch_waits: whether to record what runs and what waits, in `activity`; by default if there is a
            WaitBreakpoint. It takes time for each step of a pass.

    Raises:
        BreakpointError: if the text of a breakpoint has no known form.
        ValueError: if `others` is another text.

    >>> import apass
    >>> @apass.module_pass(opt_level=0)
    ... def Double(mod, ctx):
    ...     return {name: 2 * func for name, func in mod.items()}
    >>> async def main():
    ...     async with PauseInstrument(["changed:f"]) as pauses, anyio.create_task_group() as tasks:
    ...         tasks.start_soon(optimize, pauses)
    ...         async for pause in pauses:
    ...             print(pause.stage, pause.position, pause.reason, pause.before, pause.after)
    ...             pause.replace({"f": 0}) if pause.after["f"] else pause.continue_()
    >>> async def optimize(pauses):
    ...     async with apass.PassContext(instruments=[pauses]):
    ...         print(await apass.Sequential([Double])({"f": 1}))
    >>> anyio.run(main)
    after 0:sequential/0:Double changed:f {'f': 1} {'f': 2}
    after 0:sequential/0:Double replace {'f': 1} {'f': 0}
    {'f': 0}

    """

    not_for_worker: Final = "it cannot pause a pass in another process"

    def __init__(
        self,
        breakpoints: Iterable[Breakpoint | str] = (),
        others: Literal["run", "stop"] = "run",
        *,
        watch_waits: bool | None = None,
    ) -> None:
        if isinstance(breakpoints, str):
            raise ValueError(f"breakpoints must be a list of breakpoints, got {breakpoints!r}; put it into a list")
        self._others: Literal["run", "stop"] = _checked(others)
        self._breakpoints = [_breakpoint(item) for item in breakpoints]
        has_wait = any(isinstance(item, WaitBreakpoint) for item in self._breakpoints)
        self._watch_waits: Final = has_wait if watch_waits is None else watch_waits
        if has_wait and not self._watch_waits:
            raise ValueError("watch_waits must be True or None for a breakpoint on waits, got False")
        super().__init__(is_recorded=self._watch_waits)
        self._positions = PositionTracker()
        self._answers = AnswersByRun()
        self._frames: dict[Run, _Frame] = {}
        self._stepping: WeakKeyDictionary[Run, Stepping] = WeakKeyDictionary()
        """How far each module runs, by its outermost run."""
        self._queue: deque[Pause] = deque()
        self._open: list[Pause] = []
        self._news = Signal()
        """A pause has begun, or the last context was left."""
        self._resumed = Signal()
        """A pause has ended, or breakpoints or `others` have changed."""
        self._interruption: str | None = None
        self._is_closed = False
        self._entered = 0
        self._has_ended = False
        self._thread = 0

    @property
    def others(self) -> Literal["run", "stop"]:
        """What other modules do during a pause; it may be changed at any time.

        Raises:
            ValueError: if it is set to something else than `run` and `stop`.

        """
        return self._others

    @others.setter
    def others(self, others: Literal["run", "stop"]) -> None:
        self._others = _checked(others)
        self._resumed.notify()

    @property
    def breakpoints(self) -> tuple[Breakpoint, ...]:
        """The breakpoints."""
        return tuple(self._breakpoints)

    @property
    def open_pauses(self) -> tuple[Pause, ...]:
        """The pauses that wait for a command, in the order in which they began."""
        return tuple(self._open)

    def add(self, breakpoint_: Breakpoint | str) -> Breakpoint:
        """Add a breakpoint, given as such or by its text, and return it.

        Raises:
            BreakpointError: if the text has no known form.
            PauseError: if it is a breakpoint on waits, and `watch_waits` is not set.

        """
        new = _breakpoint(breakpoint_)
        if isinstance(new, WaitBreakpoint) and not self._watch_waits:
            raise PauseError(f"the breakpoint {new} needs a record of waits; create the instrument with watch_waits")
        if new not in self._breakpoints:
            self._breakpoints.append(new)
        self._resumed.notify()
        return new

    def remove(self, breakpoint_: Breakpoint | str) -> None:
        """Remove a breakpoint.

        Raises:
            PauseError: if there is no such breakpoint.

        """
        old = _breakpoint(breakpoint_)
        if old not in self._breakpoints:
            known = ", ".join(map(str, self._breakpoints)) or "none"
            raise PauseError(f"there is no breakpoint {str(old)!r}; the breakpoints are: {known}")
        self._breakpoints.remove(old)
        self._resumed.notify()

    def interrupt(self) -> None:
        """Pause the first module in which a pass begins or ends."""
        self._interruption = "interrupt"

    async def next_pause(self) -> Pause | None:
        """Return the next pause that waits for a command; None after the last context."""
        while True:
            while self._queue:
                pause = self._queue.popleft()
                if pause.is_open:
                    return pause
            if self._has_ended or self._is_closed:
                return None
            await self._news.wait()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Pause:
        """Return the next pause; the iteration ends when the last context was left."""
        pause = await self.next_pause()
        if pause is None:
            raise StopAsyncIteration
        return pause

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Continue paused modules, and pause none any more."""
        self.close()

    def close(self) -> None:
        """Continue paused modules, and pause none any more."""
        self._is_closed = True
        for pause in self._open:
            pause.reply.close()
        self._resumed.notify()
        self._news.notify()

    def enter_pass_ctx(self) -> None:
        """Count the contexts that use the instrument."""
        self._thread = get_ident()
        self._entered += 1
        self._has_ended = False

    def exit_pass_ctx(self) -> None:
        """End the iteration with the last context."""
        self._leave(1)

    def on_context_failed(self, error: BaseException, is_entered: bool) -> None:
        """End the iteration with the last context."""
        self._leave(is_entered)

    def on_answer(self, answer: Answer) -> None:
        """Keep the answer for a reproducer, until the passes that asked for it have ended."""
        self._answers.add(answer)

    async def run_around_pass(self, mod: Any, info: PassInfo, work: PassWork) -> Any:
        """Run the pass, and pause the module before and after it."""
        run = current_run()
        # A context may list the instrument twice. In another thread, with its own event loop, no module can pause.
        if run is None or run in self._frames or self._is_closed or self._thread != get_ident():
            return await work(mod)
        frame = self._frames[run] = _Frame(run, self._positions.begin(run), mod)
        above = self._frame_above(run)
        if above is not None and above.latest is not mod:
            above.changes.append((above.latest, mod))
        if self._watch_waits:
            self.activity.begin(run)
        has_failed = True
        try:
            result = await self._run(frame, mod, work)
            has_failed = False
        finally:
            if self._watch_waits:
                self.activity.end(run, failed=has_failed)
            del self._frames[run]
        if above is not None:
            above.latest = result
        return result

    async def _run(self, frame: _Frame, mod: Any, work: PassWork) -> Any:
        """Return the result of a pass, after all pauses at it."""
        await self._hold()
        decision = None
        reason = self._reason_before(frame.run, mod)
        module, result = mod, mod
        if reason is not None:
            decision = await self._ask(frame, "before", reason, mod)
            while isinstance(decision, Replace):
                module = frame.latest = decision.mod
                decision = await self._ask(frame, "before", "replace", mod, module)
        while not isinstance(decision, Skip):
            pass_ = decision.pass_ if isinstance(decision, Rerun) else None
            if isinstance(decision, Rerun):
                self._set_stepping(frame.run, Stepping("next", frame.run))
                self._positions.restart(frame.run)
                frame.latest, frame.changes = module, []
            try:
                result, decision = await self._work(frame, module, pass_, work)
            except Exception as error:
                decision = await self._after_error(frame, module, error)
                if not isinstance(decision, Skip | Replace | Rerun):
                    raise
            else:
                if decision is None:
                    await self._hold()
                    reason = self._reason_after(frame, result)
                    if reason is None:
                        return result
                    decision = await self._ask(frame, "after", reason, module, result)
            while isinstance(decision, Replace):
                result = frame.latest = decision.mod
                decision = await self._ask(frame, "after", "replace", module, result)
            if not isinstance(decision, Skip | Rerun):
                return result
        self._set_stepping(frame.run, Stepping("next", frame.run, has_ended=True))
        return module

    async def _work(self, frame: _Frame, mod: Any, pass_: Any, work: PassWork) -> tuple[Any, Decision | None]:
        """Return the result of the work, or a decision that ended it while it waited."""
        if not self._watch_waits:
            return await (work(mod) if pass_ is None else work(mod, pass_)), None
        result: Any = None
        error: BaseException | None = None
        decisions: list[Decision] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, frame, mod, decisions, tasks.cancel_scope)
            try:
                result = await work(mod, pass_)
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as raised:
                # Raised through the task group, it would be in a group.
                error = raised
            if frame.waiting is not None:
                # A command that came before the end of the wait counts.
                frame.waiting.reply.close()
                decision = frame.waiting.reply.decision
                if isinstance(decision, Resume):
                    self._set_stepping(frame.run, decision.stepping)
                elif decision is not None:
                    decisions.append(decision)
            tasks.cancel_scope.cancel()
        if error is not None and not (decisions and isinstance(error, Exception)):
            raise error
        return result, decisions[0] if decisions else None

    async def _watch(self, frame: _Frame, mod: Any, decisions: list[Decision], scope: anyio.CancelScope) -> None:
        """Pause the module if the pass waits for too long.

        If the user decides to end the wait, cancel `scope`.
        """
        while True:
            limits = [item for item in self._breakpoints if isinstance(item, WaitBreakpoint)]
            due = min(
                (item for item in limits if item not in frame.waited), key=lambda item: item.seconds, default=None
            )
            if due is None:
                await self._resumed.wait()
                continue
            longest = self._longest_wait(frame.run)
            left = due.seconds - (0.0 if longest is None else longest.waiting or 0.0)
            if longest is None or left > 0:
                with anyio.move_on_after(max(left, 0.01)):
                    await self._resumed.wait()
                continue
            if not await self._goes_on(longest):
                continue
            frame.waited.add(due)
            decision = await self._ask(frame, "waiting", str(due), mod, waits_for=longest.waits_for)
            if isinstance(decision, Skip | Replace | Rerun):
                decisions.append(decision)
                scope.cancel()
                return

    async def _goes_on(self, wait: ActiveRun) -> bool:
        """Return whether a wait is still on after some rounds of the event loop.

        After a stall, by a pass that computes or by a machine under load, every pass seems to have waited.
        """
        for _ in range(_ROUNDS):
            await checkpoint()
            if all((active.run, active.since) != (wait.run, wait.since) for active in self.activity.running()):
                return False
        return True

    def _longest_wait(self, run: Run) -> ActiveRun | None:
        """Return the longest wait of a pass or of a body of it.

        It is None if the pass runs inner passes.
        """
        # The longest wait comes first.
        waits = (active for active in self.activity.running() if (active.run.body_of or active.run) is run)
        return next((active for active in waits if active.waiting is not None), None)

    async def _after_error(self, frame: _Frame, mod: Any, error: Exception) -> Decision | None:
        """Pause after an error if there is a reason; return the decision."""
        await self._hold()
        is_reported = frame.reported is not None and _is_within(frame.reported, error)
        reason = self._reason_to_step(self._stepping_of(frame.run).stops_after(frame.run), frame.run)
        if reason is None and not is_reported and ErrorBreakpoint() in self._breakpoints and not self._is_closed:
            reason = str(ErrorBreakpoint())
        above = self._frame_above(frame.run)
        if above is not None and (is_reported or reason is not None):
            above.reported = error
        return None if reason is None else await self._ask(frame, "failed", reason, mod, error=error)

    async def _ask(
        self,
        frame: _Frame,
        stage: PauseStage,
        reason: str,
        before: Any,
        after: Any = None,
        *,
        error: Exception | None = None,
        waits_for: tuple[str, ...] = (),
    ) -> Decision | None:
        """Pause the module, and return the decision; None to continue."""
        if self._is_closed:
            return None
        run, position, ctx, backend = frame.run, frame.position, PassContext.current(), backend_name()
        answers = self._answers

        def write(mod: Any, folder: Path, error: Exception | None) -> Path:
            rest = rest_text(run, position, ctx)
            return write_reproducer(folder, *capture(mod, run, position, ctx, backend, rest, error, answers.of(run)))

        pause = Pause(
            stage=stage,
            reason=reason,
            position=position,
            run=run,
            before=before,
            after=after,
            error=error,
            waits_for=waits_for,
            reply=Reply(),
            write=write,
        )
        if stage == "waiting":
            frame.waiting = pause
        else:
            self._set_stepping(run, RUNNING)
        self._open.append(pause)
        self._queue.append(pause)
        self._news.notify()
        try:
            decision = await pause.reply.wait()
        finally:
            # Also after a cancellation: the next reader must not receive it.
            pause.reply.close()
            frame.waiting = None
            self._open.remove(pause)
            with suppress(ValueError):
                self._queue.remove(pause)
            self._resumed.notify()
        if isinstance(decision, Resume):
            self._set_stepping(run, decision.stepping)
        return decision

    async def _hold(self) -> None:
        """Wait while another module is paused, if other modules stop."""
        while self._open and self.others == "stop" and not self._is_closed:
            with waiting_for("a paused module"):
                await self._resumed.wait()

    def _reason_before(self, run: Run, mod: Any) -> str | None:
        """Return why a module pauses before a pass, None if it does not."""
        if self._is_closed:
            return None
        reason = self._reason_to_step(self._stepping_of(run).stops_before(run), run)
        if reason is not None:
            return reason
        reached = reached_before(self._breakpoints, run, mod)
        return None if reached is None else str(reached)

    def _reason_after(self, frame: _Frame, result: Any) -> str | None:
        """Return why a module pauses after a pass, None if it does not."""
        if self._is_closed:
            return None
        reason = self._reason_to_step(self._stepping_of(frame.run).stops_after(frame.run), frame.run)
        if reason is not None:
            return reason
        changes = frame.changes if result is frame.latest else [*frame.changes, (frame.latest, result)]
        reached = reached_after(self._breakpoints, frame.run, changes)
        return None if reached is None else str(reached)

    def _reason_to_step(self, is_step: bool, run: Run) -> str | None:
        """Return the command because of which a module pauses, None if there is none."""
        if is_step and not self._is_closed:
            return self._stepping_of(run).kind
        reason, self._interruption = self._interruption, None
        return reason

    def _stepping_of(self, run: Run) -> Stepping:
        return self._stepping.get(_outermost(run), RUNNING)

    def _set_stepping(self, run: Run, stepping: Stepping) -> None:
        self._stepping[_outermost(run)] = stepping

    def _frame_above(self, run: Run) -> _Frame | None:
        parent = run.parent
        # The passes that a body runs have modules of their own.
        return None if parent is None or parent.function is not None else self._frames.get(parent)

    def _leave(self, contexts: int) -> None:
        self._entered = max(0, self._entered - contexts)
        self._has_ended = not self._entered
        self._news.notify()


def _breakpoint(value: Breakpoint | str) -> Breakpoint:
    return parse_breakpoint(value) if isinstance(value, str) else value


def _checked(others: Literal["run", "stop"]) -> Literal["run", "stop"]:
    if others not in ("run", "stop"):
        raise ValueError(f"others must be 'run' or 'stop', got {others!r}")
    return others


def _outermost(run: Run) -> Run:
    """Return the run of the outermost pass."""
    outermost = run.lineage[-1]
    # The parent of a body is that of its pass.
    return outermost.body_of or outermost


def _is_within(reported: BaseException, error: BaseException) -> bool:
    """Return whether an error is a reported one, or a group that contains it."""
    if error is reported:
        return True
    if not isinstance(error, BaseExceptionGroup):
        return False
    return any(_is_within(reported, inner) for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions)
