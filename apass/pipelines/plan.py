"""`plan`: which passes of a pipeline would run, in which order and why, found out without a module."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from apass.combinators import MAX_ROUNDS, If, Race, Repeat
from apass.core.context import PassContext
from apass.core.info import PassInfo
from apass.core.instrument import instrument_name
from apass.errors import CyclicRequirementError
from apass.passes.base import Pass
from apass.passes.registry import get_required
from apass.passes.sequential import Sequential

__all__ = ["Decision", "PlannedPass", "plan"]


class Decision(Enum):
    """Whether a pass would run."""

    RUN = "run"
    """It would."""
    MAYBE = "maybe"
    """It is decided at run time."""
    SKIP = "skip"
    """It would not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass:
    """What would become of one pass, and of those that it is made of."""

    info: PassInfo
    """The pass."""
    decision: Decision
    """Whether it would run."""
    reason: str = ""
    """Why, where that is not plain: `"level 3 is above 2"`, `"disabled"`, `"required by FoldConstant"`."""
    children: tuple["PlannedPass", ...] = ()
    """The passes that it is made of, in order, with what they require before them; none of a pass that would not run.
    Those of an If where its predicate does not hold stand last."""

    def running(self) -> Iterator[tuple[str, ...]]:
        """Go over the passes that are certain to run, in the order in which they begin, as paths of names.

        >>> from apass.pipelines.parser import parse_pipeline
        >>> list(plan(parse_pipeline("Sequential{name=a},Sequential{name=b,opt_level=3}")).running())
        [('sequential',), ('sequential', 'a')]
        """
        if self.decision is Decision.RUN:
            yield (self.info.name,)
            for child in self.children:
                yield from ((self.info.name, *path) for path in child.running())

    def __str__(self) -> str:
        """Return a line for each pass, nested like the pipeline."""
        rows = list(_rows(self, 0))
        width = max(len(name) for _, name, _ in rows)
        return "\n".join(f"{word:<5}  {name:<{width}}  {reason}".rstrip() for word, name, reason in rows)


def plan(pass_: Pass[Any], ctx: PassContext | None = None) -> PlannedPass:
    """Say which passes would run if `pass_` was called in `ctx`, the current context where it is None.

    Requirements are resolved depth first, as a Sequential does. What depends on the module is decided at run time and
    said to be: the branch of an If, the winner of a Race, how many rounds of a Repeat follow the first, and what an
    instrument's `should_run` answers. A pass that calls others in its own code is not looked into.

    Raises:
        CyclicRequirementError: if requirements lead back to where they came from.
        UnknownPassError: if a pass that would run requires one that is not registered.

    >>> from apass.pipelines.parser import parse_pipeline
    >>> print(plan(parse_pipeline("Sequential{name=a},Sequential{name=b,opt_level=3}")))
    run    sequential
    run      a
    skip     b         level 3 is above 2

    """
    planner = _Planner(PassContext.current() if ctx is None else ctx)
    return planner.planned(pass_, "", ())


_ROUNDS: Final = "after the first round, until one changes nothing, decided at run time; at most {} rounds"


class _Planner:
    """Goes over a pipeline as the runner would in one context."""

    def __init__(self, ctx: PassContext) -> None:
        self.ctx = ctx
        self.askers = [instrument_name(ctx.hooks.instruments[place]) for place, _ in ctx.hooks.should_run]

    def planned(self, pass_: Pass[Any], reason: str, trail: tuple[str, ...]) -> PlannedPass:
        """Return what becomes of a pass that is let run; `trail` has those that are being resolved around it."""
        info = pass_.info
        certain = PlannedPass(info=info, decision=Decision.RUN, reason=reason)
        if self.askers and info.name not in self.ctx.required_pass:
            certain = replace(certain, decision=Decision.MAYBE, reason=_joined(reason, f"asks {_list(self.askers)}"))
        children, remark = self.inside(pass_, trail)
        return replace(certain, reason=_joined(certain.reason, remark), children=tuple(children))

    def inside(self, pass_: Pass[Any], trail: tuple[str, ...]) -> tuple[list[PlannedPass], str]:
        """Return what becomes of the passes that a pass is made of, and what is to be said of them."""
        if isinstance(pass_, Repeat):
            rounds = MAX_ROUNDS if pass_.times is None else pass_.times
            return self.row(pass_.passes, trail), _ROUNDS.format(rounds) if rounds > 1 else "one round"
        if isinstance(pass_, If):
            then = _each(self.row(pass_.passes, trail), Decision.MAYBE, "if its predicate holds")
            otherwise = _each(self.row(pass_.otherwise, trail), Decision.MAYBE, "if its predicate does not hold")
            return [*then, *otherwise], "decided at run time by its predicate"
        if isinstance(pass_, Race):
            how = "the first to finish" if pass_.key is None else "the smallest key"
            return _each(self.row(pass_.passes, trail), Decision.MAYBE, "an alternative"), f"decided at run time: {how}"
        return (self.row(pass_.passes, trail) if isinstance(pass_, Sequential) else []), ""

    def row(self, passes: Iterable[Pass[Any]], trail: tuple[str, ...]) -> list[PlannedPass]:
        """Return what becomes of passes by the rules of a Sequential, each after what it requires."""
        found: list[PlannedPass] = []
        for pass_ in passes:
            info = pass_.info
            hindrance = self.hindrance(info)
            if hindrance:
                found.append(_left_out(pass_, hindrance))
                continue
            found += self.required(info.name, info, trail)
            above = info.opt_level > self.ctx.opt_level
            found.append(self.planned(pass_, "required by the context" if above else "", trail))
        return found

    def hindrance(self, info: PassInfo) -> str:
        """Say why a Sequential would not run a pass; nothing if it would."""
        if info.name in self.ctx.disabled_pass:
            return "disabled"
        if info.opt_level > self.ctx.opt_level and info.name not in self.ctx.required_pass:
            return f"level {info.opt_level} is above {self.ctx.opt_level}"
        return ""

    def required(self, owner: str, info: PassInfo, trail: tuple[str, ...]) -> Iterator[PlannedPass]:
        """Go over what a pass requires, depth first; it goes by the name that it is required by itself."""
        trail = (*trail, owner)
        for name in info.required:
            if name in trail:
                raise CyclicRequirementError.at(name, trail)
            pass_ = get_required(name, owner)
            yield from self.required(name, pass_.info, trail)
            hindrance = self.hindrance(pass_.info)
            reason = f"required by {owner}" + (f", although {hindrance}" if hindrance else "")
            yield self.planned(pass_, reason, (*trail, name))


def _rows(one: PlannedPass, depth: int) -> Iterator[tuple[str, str, str]]:
    yield one.decision.value, f"{'  ' * depth}{one.info.name}", one.reason
    for child in one.children:
        yield from _rows(child, depth + 1)


def _left_out(pass_: Pass[Any], reason: str) -> PlannedPass:
    """Return a pass that would not run, and with it those that it is made of."""
    inner: Sequence[Pass[Any]] = ()
    if isinstance(pass_, If):
        inner = (*pass_.passes, *pass_.otherwise)
    elif isinstance(pass_, Sequential | Repeat | Race):
        inner = pass_.children()
    children = tuple(_left_out(one, f"{pass_.info.name} is left out") for one in inner)
    return PlannedPass(info=pass_.info, decision=Decision.SKIP, reason=reason, children=children)


def _each(passes: Iterable[PlannedPass], decision: Decision, reason: str) -> list[PlannedPass]:
    """Give the passes that would run another decision."""
    return [
        one if one.decision is Decision.SKIP else replace(one, decision=decision, reason=_joined(one.reason, reason))
        for one in passes
    ]


def _joined(*reasons: str) -> str:
    return "; ".join(one for one in reasons if one)


def _list(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
