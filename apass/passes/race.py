"""`Race`: runs several passes concurrently and takes the best result."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic

import anyio
from anyio.abc import TaskGroup

from apass.concurrency.coroutines import await_once, metered_task
from apass.concurrency.shielding import flatten_errors
from apass.core.adapter import ModT
from apass.core.context import PassContext, current_scope
from apass.core.named_callables import callable_name
from apass.core.position import in_branch
from apass.core.questions import Question, answer_to, tagged_codec
from apass.errors import PassDefinitionError, PassResultError, UnknownAnswerError
from apass.passes.alternatives import Alternatives
from apass.passes.base import Pass
from apass.passes.sequential import Sequential
from apass.runner.changes import TentativeChanges, tentative_changes

__all__ = ["Race", "score"]


class Race(Alternatives[ModT]):
    """Alternative passes that run concurrently on the same module.

    One result is taken. Each alternative runs in its own task. With a `key`, all alternatives run to completion, and
    the result with the smallest key wins; among equal keys, the first in the list. Without a `key`, the first to finish
    wins, and the others are cancelled. The Race ends when all tasks have ended.

    If an alternative or its key function fails, it is ignored, with a warning in `ctx.diag_ctx`. If all fail, the Race
    raises the error, or one flat group of several. If the deadline of the context has ended one of them, it raises that
    BudgetExceededError.

    Alternatives that a Sequential would not run, by level or `disabled_pass`, do not take part. If there are no others,
    the module is returned unchanged. If `should_run` of an instrument returns False for an alternative, its result is
    the unchanged module.

    Parameters:
        passes: the alternatives; use a Sequential for an alternative of several passes.
        key: a function of the resulting module, `def` or `async def`; smaller is better.
        opt_level: the level of the Race itself as an element of a Sequential.
        name: its name.
        required: the passes that it requires as an element of a Sequential.

    >>> from apass.passes.decorators import module_pass
    >>> double = module_pass(lambda mod, ctx: {"f": 2 * mod["f"]}, opt_level=0, name="Double")
    >>> negate = module_pass(lambda mod, ctx: {"f": -mod["f"]}, opt_level=0, name="Negate")
    >>> anyio.run(Race([double, negate], key=lambda mod: mod["f"]), {"f": 3})
    {'f': -3}

    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        key: Callable[[ModT], Any] | None = None,
        opt_level: int = 0,
        name: str = "Race",
        required: Sequence[str] | None = None,
    ) -> None:
        if key is not None and not callable(key):
            raise PassDefinitionError(f"key must be a function of the module or None, got {key!r}")
        super().__init__(passes, {} if key is None else {"key": key}, opt_level, name, required)
        self.key: Final = key
        """The function that rates a module; None takes the first result."""

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the alternatives and return the winning result."""
        entrants = self.enabled(ctx)
        return await _Contest(self, entrants, mod, ctx).run() if entrants else mod


class _Contest(Generic[ModT]):
    """One execution of a Race."""

    def __init__(self, race: Race[ModT], entrants: list[Sequential[ModT]], mod: ModT, ctx: PassContext) -> None:
        self.race = race
        self.entrants = entrants
        self.mod = mod
        self.ctx = ctx
        # By index in all of these: one pass may be an alternative twice.
        self.group: TaskGroup = anyio.create_task_group()
        self.finished: dict[int, tuple[Any, ModT]] = {}
        self.failures: dict[int, BaseException] = {}
        self.fatal: list[BaseException] = []
        self.changes: dict[int, TentativeChanges] = {}

    async def run(self) -> ModT:
        """Run the alternatives until all have ended, and return the winning result."""
        try:
            return await self.decide()
        finally:
            # The tracebacks of the errors refer to this object: a reference cycle that would keep the modules alive.
            self.failures.clear()
            self.fatal.clear()

    async def decide(self) -> ModT:
        """Implement `run`."""
        try:
            async with self.group:
                self.group.start_soon(self.enter, 0)
        except anyio.get_cancelled_exc_class():
            # The contest cancels its own group, so a fatal error takes precedence over the cancellation.
            if not self.fatal:
                self.race.warn(self.ctx, self.entrants, self.failures)
                raise
        if self.fatal:
            raise flatten_errors("several alternatives failed", self.fatal)
        if not self.finished:
            raise self.race.combined_error(self.failures)
        self.race.warn(self.ctx, self.entrants, self.failures)
        return self.winner()

    async def enter(self, index: int) -> None:
        """Start the task of the next alternative, then run one alternative in this task."""
        # trio starts tasks of one group in random order. A chain of tasks makes alternatives that never suspend finish
        # in the order of the list, on every event loop.
        if index + 1 < len(self.entrants):
            self.group.start_soon(self.enter, index + 1)
        if self.is_decided():
            return
        try:
            outcome = await metered_task(self.compete(index))
        except BaseException as error:
            self.record_failure(index, error)
            return
        if not self.is_decided():
            self.finished[index] = outcome
        if self.is_decided():
            self.group.cancel_scope.cancel()

    def is_decided(self) -> bool:
        """Return whether the remaining alternatives need not run."""
        return bool(self.fatal) or (self.race.key is None and bool(self.finished))

    async def compete(self, index: int) -> tuple[Any, ModT]:
        """Return the key and the result of an alternative."""
        # Only the changes of the winner count. Each alternative has a task of its own.
        with in_branch(str(index + 1)), tentative_changes() as self.changes[index]:
            mod = await self.entrants[index].transform(self.mod, self.ctx)
        if self.race.key is None:
            return (None, mod)
        result = f"the result of {self.entrants[index].passes[0].info.name!r}"
        return (await score(self.race, self.race.key, mod, result), mod)

    def record_failure(self, index: int, error: BaseException) -> None:
        """Record the error of an alternative, or raise it again if it is a cancellation."""
        is_cancellation = isinstance(error, anyio.get_cancelled_exc_class())
        # A cancellation that no scope requested is a failure: the alternative awaited something cancelled elsewhere.
        if isinstance(error, GeneratorExit) or (is_cancellation and anyio.current_effective_deadline() == -math.inf):
            raise error
        if is_cancellation or (isinstance(error, Exception) and not isinstance(error, UnknownAnswerError)):
            self.failures[index] = error
            return
        # KeyboardInterrupt, SystemExit and the like end the whole Race. So does a replay that lacks an answer: in the
        # run that it repeats, the alternative may have won.
        self.fatal.append(error)
        self.group.cancel_scope.cancel()

    def winner(self) -> ModT:
        """Return the result with the smallest key; among equal keys, the first."""
        # `min` returns the first of equal items, so the order of the list decides.
        indices = sorted(self.finished)
        best = min(indices, key=lambda index: self.finished[index][0])
        self.changes[best].accept()
        return self.finished[best][1]


async def score(pass_: Pass[ModT], key: Callable[[ModT], Any], mod: ModT, description: str) -> Any:
    """Return the key that the key function of a pass gives for a module.

    Parameters:
        pass_: the pass.
        key: its key function.
        mod: the module.
        description: a noun phrase for the module, for notes on errors.

    Raises:
        PassResultError: if it returns None or NaN, which cannot be ordered.

    """

    async def call() -> Any:
        return await await_once(key(mod), f"the key of pass {pass_.info.name!r}")

    try:
        state = current_scope().state
        if state.answers is None and not state.hooks.answers:
            value = await call()
        else:
            # A key may measure on a device, and decides which result is taken.
            name = callable_name(key) or str(getattr(key, "__qualname__", type(key).__qualname__))
            question = Question("measurement", name, {"of": state.analyses.fingerprint(mod)})
            value = await answer_to(state, question, call, tagged_codec())
        if value is None or (isinstance(value, float) and math.isnan(value)):
            raise PassResultError(
                f"the key of pass {pass_.info.name!r} returned {value!r}; return a value that can be ordered"
            )
    except Exception as error:
        error.add_note(f"in the key function, for {description}")
        raise
    return value
