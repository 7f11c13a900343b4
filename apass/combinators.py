"""The passes made of passes: `Repeat`, `If` and `Race` beside `Sequential`; all four are registered here."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic

import anyio
from anyio.abc import TaskGroup

from apass.concurrency.coroutines import is_awaitable, metered_task
from apass.concurrency.shielding import combine
from apass.core.adapter import ModT, adapter_for
from apass.core.context import PassContext, current_scope
from apass.core.diagnostics import Diagnostic, DiagnosticLevel
from apass.core.info import PassInfo
from apass.core.position import in_branch
from apass.core.run import current_module_name
from apass.errors import PassDefinitionError, PassResultError, PipelineCycleError
from apass.passes.base import Pass, check_passes
from apass.passes.registry import register_pass
from apass.passes.sequential import Sequential, is_enabled
from apass.util.checks import is_count

__all__ = ["OTHERWISE", "If", "Race", "Repeat"]

OTHERWISE: Final = "otherwise"
"""How positions tell the other branch of an If from the first, which they do not name."""

MAX_ROUNDS: Final = 100
"""How many rounds a Repeat without `times` may take to settle."""


class _Combinator(Pass[ModT]):
    """Passes within a pass, which run by the rules of a Sequential: levels, `disabled_pass`, requirements."""

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        own: Mapping[str, object],
        opt_level: int,
        name: str,
        required: Sequence[str] | None,
    ) -> None:
        kind = type(self).__name__
        self.passes: tuple[Pass[ModT], ...] = check_passes(kind, passes)
        """The passes, in order."""
        if not self.passes:
            raise PassDefinitionError(f"{kind} takes at least one pass")
        self.info = PassInfo(opt_level, name, required)
        given = {**own, "opt_level": opt_level, "name": name, "required": list(self.info.required)}
        usual: dict[str, object] = {"opt_level": 0, "name": kind, "required": []}
        # Only what is not as usual, so that two that are alike are equal, and `str()` is short.
        self.spec = (kind, {key: value for key, value in given.items() if key not in usual or value != usual[key]})

    def children(self) -> tuple[Pass[ModT], ...]:
        """Return the passes."""
        return self.passes


class Repeat(_Combinator[ModT]):
    """Passes that run one after the other, round after round, until a round changes nothing.

    Nothing has changed if the same module object comes back, or one of the same fingerprint (see `IRAdapter`); then the
    module from before that round is the result. A module that was there in an earlier round means that the passes undo
    each other and would go on for ever, which is an error.

    Parameters:
        passes: the passes of a round, in order, by the rules of a Sequential.
        times: the most rounds that it may take; the result of the last one stands, settled or not. Without it, 100
            rounds, and it is an error not to settle.
        strict: with `times` too, it is an error if the last of the rounds still changed something.
        opt_level: the level of the Repeat itself, where it stands in a Sequential.
        name: its name.
        required: what it requires, where it stands in a Sequential.

    Raises (when it runs):
        PipelineCycleError: if a module comes again, or if it does not settle and must.
        AdapterError: if a pass changes the module and no adapter is known for its type.

    >>> from apass.passes.decorators import module_pass
    >>> halve = module_pass(lambda mod, ctx: {"f": mod["f"] // 2}, opt_level=0, name="Halve")
    >>> anyio.run(Repeat([halve]), {"f": 40}), anyio.run(Repeat([halve], times=3), {"f": 40})
    ({'f': 0}, {'f': 5})

    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        times: int | None = None,
        strict: bool = False,
        opt_level: int = 0,
        name: str = "Repeat",
        required: Sequence[str] | None = None,
    ) -> None:
        if times is not None and not is_count(times):
            raise PassDefinitionError(
                f"times must be an int of at least 1, or None for until it settles; not {times!r}"
            )
        own = {"times": times} if times is not None else {}
        super().__init__(passes, {**own, "strict": True} if strict else own, opt_level, name, required)
        self.times: Final = times
        """The most rounds that it may take; None if it must settle."""
        self.strict: Final = strict
        """Whether it must settle within `times`."""
        self._round = Sequential(self.passes)

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the key of a round, and how many there may be; None if a round has none."""
        inner = self._round.cache_key(ctx)
        return None if inner is None else f"{self.info.name}{{times={self.times},strict={self.strict}}}{inner}"

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the passes until nothing changes."""
        last = MAX_ROUNDS if self.times is None else self.times
        # Holds the modules too: a fingerprint may go by the identity of what lives.
        seen: dict[tuple[type, str], tuple[int, ModT]] = {}
        for rounds in range(1, last + 1):
            new = await self._round.transform(mod, ctx)
            if new is mod:
                return mod
            if not seen:
                seen[_fingerprint(mod)] = (0, mod)
            since, known = seen.setdefault(_fingerprint(new), (rounds, new))
            if known is mod:
                return mod
            if since < rounds:
                raise PipelineCycleError(self._circles(since, rounds))
            mod = new
        if self.strict or self.times is None:
            raise PipelineCycleError(
                f"pass {self.info.name!r} did not settle: round {last}, the last that it may run, still changed the "
                f"module; raise `times`, or take out the pass that never comes to rest"
            )
        return mod

    def _circles(self, since: int, rounds: int) -> str:
        first = f"of round {since}" if since else "that it began with"
        return (
            f"pass {self.info.name!r} goes in circles: round {rounds} gave the module {first} again, a cycle of length "
            f"{rounds - since}; take out the pass that undoes what another does"
        )


class If(_Combinator[ModT]):
    """Passes that run only where a predicate holds, and others, if there are any, where it does not.

    In a pipeline's text the predicate is given as a module and a name, and other passes in parentheses:
    `If{predicate=my_package.rules:is_large,otherwise=(C,D)}(A,B)`.

    Parameters:
        predicate: a function of the module, `def` or `async def`; what it returns is taken as true or false.
        passes: the passes, in order, by the rules of a Sequential.
        otherwise: the passes where the predicate does not hold.
        opt_level: the level of the If itself, where it stands in a Sequential.
        name: its name.
        required: what it requires, where it stands in a Sequential.

    Raises (when it runs):
        PassResultError: if the predicate returns None, having forgotten to say.

    >>> from apass.passes.decorators import module_pass
    >>> clear = module_pass(lambda mod, ctx: {}, opt_level=0, name="Clear")
    >>> large = If(lambda mod: len(mod) > 1, [clear])
    >>> anyio.run(large, {"f": 1}), anyio.run(large, {"f": 1, "g": 2})
    ({'f': 1}, {})

    """

    def __init__(
        self,
        predicate: Callable[[ModT], object],
        passes: Sequence[Pass[ModT]],
        otherwise: Sequence[Pass[ModT]] | None = None,
        opt_level: int = 0,
        name: str = "If",
        required: Sequence[str] | None = None,
    ) -> None:
        if not callable(predicate):
            raise PassDefinitionError(f"If takes first a predicate, a function of the module, not {predicate!r}")
        self.otherwise: tuple[Pass[ModT], ...] = check_passes("If(otherwise=...)", otherwise or ())
        """The passes where the predicate does not hold."""
        own = {"predicate": predicate, "otherwise": list(self.otherwise)}
        super().__init__(passes, own if self.otherwise else {"predicate": predicate}, opt_level, name, required)
        self.predicate: Final = predicate
        """The function of the module."""
        self._then, self._otherwise = Sequential(self.passes), Sequential(self.otherwise)

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Ask the predicate and run what it chooses."""
        answer: Any = self.predicate(mod)
        if is_awaitable(answer):
            answer = await answer
        if answer is None:
            raise PassResultError(f"the predicate of pass {self.info.name!r} returned None; return a bool")
        if answer:
            return await self._then.transform(mod, ctx)
        with in_branch(OTHERWISE):
            return await self._otherwise.transform(mod, ctx)


class Race(_Combinator[ModT]):
    """Alternative passes that run concurrently on the same module, each in a task of its own; one result is taken.

    With a `key`, all of them run to their end and the result of the smallest key wins; of equal ones that of the pass
    listed first. Without, the first to finish wins. The others are cancelled, and the race ends when they have ended.

    An alternative that fails, or that the key fails on, is left out, with a warning in `ctx.diag_ctx`. If all of them
    fail, the error is raised: the one itself, several as one flat group. Alternatives that a Sequential would not run,
    by level or `disabled_pass`, take no part; without any the module comes back as it went in. One that an instrument's
    `should_run` turns down takes part with that module.

    Parameters:
        passes: the alternatives; a Sequential for several passes in a row.
        key: what to judge a resulting module by, the smaller the better; `def` or `async def`.
        opt_level: the level of the Race itself, where it stands in a Sequential.
        name: its name.
        required: what it requires, where it stands in a Sequential.

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
            raise PassDefinitionError(f"key must be a function of the module, or None; not {key!r}")
        super().__init__(passes, {} if key is None else {"key": key}, opt_level, name, required)
        self.key: Final = key
        """What to judge a module by; None takes the first to finish."""
        self._alternatives = [Sequential([pass_]) for pass_ in self.passes]

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the alternatives and return the result of the winner."""
        scope = current_scope()
        entrants: list[Sequential[ModT]] = []
        for alternative in self._alternatives:
            info = alternative.passes[0].info
            scope.meet(info.name)
            if is_enabled(info, ctx):
                entrants.append(alternative)
        return await _Contest(self, entrants, mod, ctx).run() if entrants else mod


class _Contest(Generic[ModT]):
    """One race at work."""

    def __init__(self, race: Race[ModT], entrants: list[Sequential[ModT]], mod: ModT, ctx: PassContext) -> None:
        self.race = race
        self.entrants = entrants
        self.mod = mod
        self.ctx = ctx
        self.group: TaskGroup = anyio.create_task_group()
        self.finished: dict[int, tuple[Any, ModT]] = {}
        self.failures: dict[int, BaseException] = {}
        self.fatal: list[BaseException] = []

    async def run(self) -> ModT:
        """Run the alternatives to the end of all of them, and return the result of the winner."""
        try:
            return await self.decide()
        finally:
            # Their tracebacks lead back here: a circle that would keep the modules.
            self.failures.clear()
            self.fatal.clear()

    async def decide(self) -> ModT:
        """Do what `run` says."""
        try:
            async with self.group:
                self.group.start_soon(self.enter, 0)
        except anyio.get_cancelled_exc_class():
            if not self.fatal:
                self.warn()
                raise
        if self.fatal:
            raise combine("several alternatives failed", self.fatal)
        if not self.finished:
            raise self.defeat()
        self.warn()
        return self.winner()

    async def enter(self, place: int) -> None:
        """Run one alternative in this task, having started the task of the next.

        So those that never suspend finish in the order in which they are listed, on any event loop.
        """
        if place + 1 < len(self.entrants):
            self.group.start_soon(self.enter, place + 1)
        if self.is_decided():
            return
        try:
            outcome = await metered_task(self.compete(place))
        except BaseException as error:
            self.fail(place, error)
            return
        if not self.is_decided():
            self.finished[place] = outcome
        if self.is_decided():
            self.group.cancel_scope.cancel()

    def is_decided(self) -> bool:
        """Tell whether nobody need run any more."""
        return bool(self.fatal) or (self.race.key is None and bool(self.finished))

    async def compete(self, place: int) -> tuple[Any, ModT]:
        """Return what an alternative makes of the module, and its key."""
        with in_branch(str(place + 1)):
            mod = await self.entrants[place].transform(self.mod, self.ctx)
        if self.race.key is None:
            return (None, mod)
        try:
            return (await self.judge(self.race.key, mod), mod)
        except Exception as error:
            error.add_note(f"when judging what {self.name_of(place)!r} made")
            raise

    async def judge(self, key: Callable[[ModT], Any], mod: ModT) -> Any:
        """Return the key of a result."""
        score = key(mod)
        if is_awaitable(score):
            score = await score
        # None, and what is no number, is neither smaller nor greater than anything.
        if score is None or (isinstance(score, float) and math.isnan(score)):
            raise PassResultError(
                f"the key of pass {self.race.info.name!r} returned {score!r}; return what can be ordered"
            )
        return score

    def name_of(self, place: int) -> str:
        """Return the name of an alternative."""
        return self.entrants[place].passes[0].info.name

    def fail(self, place: int, error: BaseException) -> None:
        """Keep the error of an alternative; go on with it if it is no failure but the end."""
        is_cancellation = isinstance(error, anyio.get_cancelled_exc_class())
        # One that no scope asked for is a failure: the alternative awaited what somebody else had cancelled.
        if isinstance(error, GeneratorExit) or (is_cancellation and anyio.current_effective_deadline() == -math.inf):
            raise error
        if is_cancellation or isinstance(error, Exception):
            self.failures[place] = error
            return
        self.fatal.append(error)
        self.group.cancel_scope.cancel()

    def defeat(self) -> BaseException:
        """Return what to raise if every alternative has failed."""
        errors = [self.failures[place] for place in sorted(self.failures)]
        of_their_own = [error for error in errors if isinstance(error, Exception)]
        return combine(f"every alternative of pass {self.race.info.name!r} failed", of_their_own or errors[:1])

    def warn(self) -> None:
        """Leave a warning for each alternative that failed."""
        race = self.race.info.name
        for place, error in sorted(self.failures.items()):
            message = f"pass {race!r} left out its alternative {self.name_of(place)!r}: {type(error).__name__}: {error}"
            self.ctx.diag_ctx.emit(
                Diagnostic(DiagnosticLevel.WARNING, message, None, race, None, current_module_name())
            )

    def winner(self) -> ModT:
        """Return the result of the smallest key; the first of equal ones."""
        places = sorted(self.finished)
        return self.finished[min(places, key=lambda place: self.finished[place][0])][1]


def _fingerprint(mod: object) -> tuple[type, str]:
    return (type(mod), adapter_for(mod).fingerprint(mod))


register_pass("Sequential", Sequential)
register_pass("Repeat", Repeat)
register_pass("If", If)
register_pass("Race", Race)
