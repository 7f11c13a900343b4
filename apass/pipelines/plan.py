"""`plan`: determines which passes of a pipeline would run, without a module."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from apass.core.context import PassContext
from apass.core.displayed import Displayed
from apass.core.hooks import find_hook
from apass.core.instrument import instrument_name
from apass.core.named_callables import value_text
from apass.core.pass_info import PassInfo
from apass.display.blocks import Line, Span, Style, Tree
from apass.errors import CyclicRequirementError
from apass.passes.alternatives import Alternatives
from apass.passes.base import Pass, is_enabled
from apass.passes.combinator import Combinator
from apass.passes.conditional import If
from apass.passes.first import First
from apass.passes.loop import Loop
from apass.passes.minimum_point import MinimumPoint
from apass.passes.race import Race
from apass.passes.registry import get_required
from apass.passes.sequential import Sequential
from apass.passes.while_ import While
from apass.pipelines.parser import as_pass
from apass.util.checks import check_type
from apass.util.text import count_of, shorten

__all__ = ["Decision", "PlannedPass", "plan"]


class Decision(Enum):
    """Whether a pass would run."""

    RUN = "run"
    """The pass would run."""
    MAYBE = "maybe"
    """The decision is made at run time."""
    SKIP = "skip"
    """The pass would be skipped."""


_STYLES: Final[dict[Decision, Style]] = {Decision.RUN: "good", Decision.MAYBE: "warning", Decision.SKIP: "muted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass(Displayed):
    """The decision for one pass, and for the passes that it contains."""

    info: PassInfo
    """The pass."""
    text: str = ""
    """The pass as an element of a pipeline's text, without contained passes; empty if it is only the name in `info`."""
    decision: Decision
    """Whether the pass would run."""
    reason: str = ""
    """The reason, unless obvious: `"level 3 is above 2"`, `"disabled"`, `"required by FoldConstant"`.

    For a pass that an extension added to the pipeline, also the package or file: `"added by my_package 1.0"`.
    """
    children: tuple["PlannedPass", ...] = ()
    """The contained passes, in order, each after the passes that it requires.

    In an If, the `otherwise` passes come last. Requirements of a skipped pass are not listed.
    """

    def __block__(self) -> Tree:
        name: Style = "muted" if self.decision is Decision.SKIP else "name"
        label: Line = (
            Span(f"{self.decision.value:<5} ", _STYLES[self.decision]),
            Span(self.info.name, name),
            Span(f"  level {self.info.opt_level}", "number"),
        )
        reason = (Span(f"  {self.reason}", "muted"),) if self.reason else ()
        return Tree(label + reason, [child.__block__() for child in self.children])

    def running(self) -> Iterator[tuple[str, ...]]:
        """Iterate over the passes that are certain to run, in order, as paths of names.

        >>> list(plan("Sequential{name=a},Sequential{name=b,opt_level=3}").running())
        [('sequential',), ('sequential', 'a')]
        """
        if self.decision is Decision.RUN:
            yield (self.info.name,)
            for child in self.children:
                yield from ((self.info.name, *path) for path in child.running())

    def as_json(self) -> dict[str, Any]:
        """Return the decisions as values of JSON."""
        return {
            "name": self.info.name,
            "text": self.text or self.info.name,
            "level": self.info.opt_level,
            "decision": self.decision.value,
            "reason": self.reason,
            "passes": [child.as_json() for child in self.children],
        }

    def __str__(self) -> str:
        """Return one line for each pass, indented like the pipeline."""
        rows = list(_rows(self, 0))
        width = min(_WIDEST, max(len(name) for _, name, _ in rows))
        return "\n".join(f"{decision:<5}  {name:<{width}}  {reason}".rstrip() for decision, name, reason in rows)


def plan(pass_: Pass[Any] | str, ctx: PassContext | None = None) -> PlannedPass:
    """Return which passes would run if `pass_` was called in `ctx`.

    `pass_` may be the text of a pipeline. If `ctx` is None, the current context is used.

    Requirements are resolved depth first, as in a Sequential. These decisions depend on the module and are marked as
    made at run time:

    - the branch of an If;
    - the alternative of a First or a Race;
    - the number of rounds of a Repeat, While or MinimumPoint;
    - the result of an instrument's `should_run`.

    A pass that calls others in its own code is not analysed.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text, or `ctx` is not a PassContext.
        CyclicRequirementError: if a pass requires itself, directly or through others.
        UnknownPassError: if a pass that would run requires an unregistered one.

    >>> print(plan("Sequential{name=a},Sequential{name=b,opt_level=3}"))
    run    sequential
    run      a
    skip     b         level 3 is above 2

    """
    the_pass = as_pass("plan(pass_, ctx)", pass_)
    check_type("ctx", ctx, PassContext | None)
    planner = _Planner(PassContext.current() if ctx is None else ctx)
    return planner.planned(the_pass, "", ())


_NOTHING_ADDED: Final[Mapping[int, str]] = MappingProxyType({})

_WIDEST: Final = 48
"""Width up to which the names are padded."""

_LONGEST: Final = 60
"""Characters of the options of a pass that a plan shows."""

_SHOWN_ELSEWHERE: Final = frozenset({"name", "opt_level", "required", "otherwise"})
"""Options of combinators that a plan shows in another way."""

_ROUNDS: Final = "after the first round, until one changes nothing, decided at run time; at most {}"
_ROUNDS_WHILE: Final = "while its predicate holds, decided at run time; at most {}"
_ROUNDS_TO_MINIMUM: Final = "after the first round, until the key gets no smaller, decided at run time; at most {}"


class _Planner:
    """Traverses a pipeline in the order of the runner, for one context."""

    def __init__(self, ctx: PassContext) -> None:
        self.ctx = ctx
        # The instruments that may veto a pass.
        self.deciding = [
            instrument_name(instrument)
            for instrument in ctx.instruments
            if find_hook(instrument, "should_run") is not None
        ]

    def planned(self, pass_: Pass[Any], reason: str, trail: tuple[str, ...]) -> PlannedPass:
        """Return the plan of a pass that is enabled.

        `trail` contains the names of the passes whose requirements are being resolved, outermost first.
        """
        info = pass_.info
        result = PlannedPass(info=info, text=_text(pass_), decision=Decision.RUN, reason=reason)
        if self.deciding and self.ctx.required_pass.isdisjoint(pass_.all_names):
            names = ", ".join(dict.fromkeys(self.deciding))
            result = replace(result, decision=Decision.MAYBE, reason=_joined(reason, f"decided by {names}"))
        children, remark = self.inside(pass_, trail)
        return replace(result, reason=_joined(result.reason, remark), children=tuple(children))

    def inside(self, pass_: Pass[Any], trail: tuple[str, ...]) -> tuple[list[PlannedPass], str]:
        """Return the plans of the contained passes, and a remark about all of them."""
        if isinstance(pass_, Loop):
            plans = self.sequence(pass_.passes, trail)
            limit = count_of(pass_.max_rounds, "round")
            if isinstance(pass_, While):
                return _each(plans, Decision.MAYBE, "if its predicate holds"), _ROUNDS_WHILE.format(limit)
            if pass_.max_rounds == 1:
                return plans, "one round"
            rule = _ROUNDS_TO_MINIMUM if isinstance(pass_, MinimumPoint) else _ROUNDS
            return plans, rule.format(limit)
        if isinstance(pass_, If):
            then_plans = _each(self.sequence(pass_.passes, trail), Decision.MAYBE, "if its predicate holds")
            else_plans = _each(self.sequence(pass_.otherwise, trail), Decision.MAYBE, "if its predicate does not hold")
            return [*then_plans, *else_plans], "decided at run time by its predicate"
        if isinstance(pass_, First):
            return self.alternatives(pass_, trail), "decided at run time: the first to succeed"
        if isinstance(pass_, Race):
            rule = "the first to finish" if pass_.key is None else "the smallest key"
            return self.alternatives(pass_, trail), f"decided at run time: {rule}"
        if isinstance(pass_, Sequential):
            return self.sequence(pass_.passes, trail, pass_.added_by), ""
        # A manager of a compiler may run its passes together, so that they are no branch.
        inner = [child for branch in pass_.branches() for child in branch] or pass_.children()
        return self.sequence(inner, trail), ""

    def alternatives(self, pass_: Alternatives[Any], trail: tuple[str, ...]) -> list[PlannedPass]:
        """Return the plans of alternatives."""
        return _each(self.sequence(pass_.passes, trail), Decision.MAYBE, "an alternative")

    def sequence(
        self, passes: Iterable[Pass[Any]], trail: tuple[str, ...], added_by: Mapping[int, str] = _NOTHING_ADDED
    ) -> list[PlannedPass]:
        """Return the plans of passes by the rules of a Sequential, with requirements."""
        plans: list[PlannedPass] = []
        for index, pass_ in enumerate(passes):
            info = pass_.info
            origin = f"added by {added_by[index]}" if index in added_by else ""
            reason = self.reason_to_skip(pass_)
            if reason:
                plans.append(_skipped(pass_, _joined(reason, origin)))
                continue
            plans += self.required(info.name, info, trail)
            is_above_level = info.opt_level > self.ctx.opt_level
            reason = "required by the context" if is_above_level else ""
            plans.append(self.planned(pass_, _joined(reason, origin), trail))
        return plans

    def reason_to_skip(self, pass_: Pass[Any]) -> str:
        """Return why a Sequential would skip a pass, or "" if it would run."""
        if is_enabled(pass_, self.ctx):
            return ""
        is_disabled = not self.ctx.disabled_pass.isdisjoint(pass_.all_names)
        return "disabled" if is_disabled else f"level {pass_.info.opt_level} is above {self.ctx.opt_level}"

    def required(self, owner: str, info: PassInfo, trail: tuple[str, ...]) -> Iterator[PlannedPass]:
        """Iterate over the plans of the passes that a pass requires, depth first."""
        # `owner` is the name in the registry, which may differ from `info.name`.
        trail = (*trail, owner)
        for name in info.required:
            if name in trail:
                raise CyclicRequirementError.at(name, trail)
            pass_ = get_required(name, owner)
            yield from self.required(name, pass_.info, trail)
            skip_reason = self.reason_to_skip(pass_)
            reason = f"required by {owner}" + (f", although {skip_reason}" if skip_reason else "")
            planned = self.planned(pass_, reason, (*trail, name))
            maybe = "unless an earlier result holds"
            yield from _each([planned], Decision.MAYBE, maybe) if pass_.contract.idempotent else [planned]


def _rows(planned: PlannedPass, depth: int) -> Iterator[tuple[str, str, str]]:
    name = planned.info.name
    shown = name if planned.text.partition("{")[0] in ("", name) else f"{name} = "
    yield planned.decision.value, f"{'  ' * depth}{shown}{planned.text.removeprefix(name)}", planned.reason
    for child in planned.children:
        yield from _rows(child, depth + 1)


def _text(pass_: Any) -> str:
    """Return the registered name and the options of a pass.

    It is empty if this is only the name in its `info`.
    """
    is_combinator = isinstance(pass_, Sequential | Combinator)
    name = pass_.info.name if is_combinator else pass_.all_names[-1]
    options: Mapping[str, object] = {} if pass_.spec is None else pass_.spec[1]
    values = ",".join(
        f"{key}={_value(value)}" for key, value in options.items() if not (is_combinator and key in _SHOWN_ELSEWHERE)
    )
    return name + f"{{{shorten(values, _LONGEST)}}}" if values else "" if name == pass_.info.name else name


def _value(value: object) -> str:
    try:
        return value_text(value)
    except TypeError:
        return getattr(value, "__qualname__", repr(value))


def _skipped(pass_: Pass[Any], reason: str) -> PlannedPass:
    """Return the plan of a skipped pass and of the passes that it contains."""
    inner: Sequence[Pass[Any]] = ()
    if isinstance(pass_, If):
        inner = (*pass_.passes, *pass_.otherwise)
    elif isinstance(pass_, Sequential | Loop | Alternatives):
        inner = pass_.children()
    children = tuple(_skipped(child, f"{pass_.info.name} is skipped") for child in inner)
    return PlannedPass(info=pass_.info, text=_text(pass_), decision=Decision.SKIP, reason=reason, children=children)


def _each(passes: Iterable[PlannedPass], decision: Decision, reason: str) -> list[PlannedPass]:
    """Return the plans with another decision and reason, except for skipped passes."""
    return [
        item
        if item.decision is Decision.SKIP
        else replace(item, decision=decision, reason=_joined(item.reason, reason))
        for item in passes
    ]


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))
