"""`rest_of`: what is left of a pipeline after one of its passes, to go on from a module that was kept there."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from apass.combinators import MAX_ROUNDS, OTHERWISE, If, Race, Repeat
from apass.core.context import PassContext
from apass.core.info import PassInfo
from apass.core.position import Position
from apass.core.run import Run
from apass.errors import ResumeError, did_you_mean
from apass.passes.base import Pass
from apass.passes.registry import get_required
from apass.passes.sequential import Sequential

__all__ = ["is_in_order", "is_row", "rest_of"]

_HINT: Final = "resume from the file of the pass around it"


def rest_of(pass_: Pass[Any], after: Position, ctx: PassContext | None = None) -> Pass[Any]:
    """Return a pass that does what `pass_` would have done after its inner pass at the position `after`.

    It goes by the levels and names of `ctx`, the current context where it is None, which must be those of the run that
    the position is from.

    Raises:
        ResumeError: if the pipeline has no pass there, or cannot be gone on with from there: within a function's body,
            an alternative of a Race, or a pass that calls others in its own code.

    >>> from apass.pipelines.parser import parse_pipeline
    >>> pipeline = parse_pipeline("Sequential{name=a},Repeat{times=3}(Sequential{name=b},Sequential{name=c})")
    >>> print(rest_of(pipeline, Position(None, ((0, "sequential", None), (1, "Repeat", None), (2, "b", None)))))
    Sequential{name=c},Repeat{times=1}(Sequential{name=b},Sequential{name=c})

    """
    rest = _Rest(after, PassContext.current() if ctx is None else ctx)
    _, name, part = after.steps[0]
    if name != pass_.info.name:
        raise rest.error(f"the pipeline is a pass {pass_.info.name!r}")
    left = rest.within(pass_, part, after.steps[1:])
    return Sequential() if left is None else left


def is_row(run: Run) -> bool:
    """Tell whether a run only begins other passes, one after another."""
    return run.function is None and isinstance(run.pass_, Sequential | Repeat | If)


def is_in_order(run: Run) -> bool:
    """Tell whether what is left after a run can be told: all passes around it run others one after another."""
    return all(map(is_row, run.lineage[1:]))


_Steps = Sequence[tuple[int, str, str | None]]


class _Rest:
    """One search for what is left."""

    def __init__(self, after: Position, ctx: PassContext) -> None:
        self.after = after
        self.ctx = ctx

    def error(self, reason: str) -> ResumeError:
        """Return an error that names the position."""
        return ResumeError(f"cannot go on after {self.after.text!r}: {reason}")

    def within(self, pass_: Pass[Any], part: str | None, steps: _Steps) -> Pass[Any] | None:
        """Return what is left of a pass after the way `steps` within a part of it; None if it is done."""
        if not steps:
            return None
        if isinstance(pass_, If):
            return self.of_row(pass_.otherwise if part == OTHERWISE else pass_.passes, steps)
        if isinstance(pass_, Race):
            raise self.error(f"it stands in an alternative of pass {pass_.info.name!r}; {_HINT}")
        if part is not None:
            raise self.error(f"it stands in the body of {part!r} of pass {pass_.info.name!r}; {_HINT}")
        if isinstance(pass_, Repeat):
            return self.of_repeat(pass_, steps)
        if isinstance(pass_, Sequential):
            return self.of_row(pass_.passes, steps)
        raise self.error(f"pass {pass_.info.name!r} calls passes in a way of its own; {_HINT}")

    def of_repeat(self, pass_: Repeat[Any], steps: _Steps) -> Pass[Any]:
        """Return what is left of the round, and the rounds that may follow."""
        (number, name, part), *deeper = steps
        in_round = len(list(self.row(pass_.passes)))
        rounds, number = divmod(number, in_round or 1)
        left = self.of_row(pass_.passes, [(number, name, part), *deeper])
        most = MAX_ROUNDS if pass_.times is None else pass_.times
        if rounds + 1 >= most:
            return left
        times = None if pass_.times is None else pass_.times - rounds - 1
        info = pass_.info
        again = Repeat(pass_.passes, times=times, strict=pass_.strict, opt_level=info.opt_level, name=info.name)
        return Sequential([*_spliced(left), again], opt_level=info.opt_level)

    def of_row(self, passes: Sequence[Pass[Any]], steps: _Steps) -> Sequential[Any]:
        """Return what is left of passes in a row."""
        (number, name, part), *deeper = steps
        runs = list(self.row(passes))
        if number >= len(runs) or runs[number][1].info.name != name:
            there = did_you_mean(name, [pass_.info.name for _, pass_ in runs], listing="; there are ")
            raise self.error(f"the pipeline has no pass {name!r} as number {number} there{there}")
        place, pass_ = runs[number]
        left = self.within(pass_, part, deeper)
        # A pass whose requirements have begun to run is not to ask for them again.
        same = [_Alone(one) for where, one in runs[number + 1 :] if where == place]
        return Sequential([*_spliced(left), *same, *passes[place + 1 :]])

    def row(self, passes: Sequence[Pass[Any]]) -> Iterator[tuple[int, Pass[Any]]]:
        """Go over the runs that passes in a row give: whose place it is, and which pass, itself or what it requires."""
        for place, pass_ in enumerate(passes):
            info = pass_.info
            in_level = info.opt_level <= self.ctx.opt_level or info.name in self.ctx.required_pass
            if in_level and info.name not in self.ctx.disabled_pass:
                yield from ((place, one) for one in _required(info))
                yield place, pass_


def _spliced(left: Pass[Any] | None) -> Sequence[Pass[Any]]:
    """Return what is left as passes in a row."""
    if left is None:
        return ()
    return left.passes if isinstance(left, Sequential) and left.spec == ("Sequential", {}) else (left,)


class _Alone(Pass[Any]):
    """A pass without its requirements, at a level that always runs."""

    def __init__(self, pass_: Pass[Any]) -> None:
        self.pass_ = pass_
        self.info = PassInfo(0, pass_.info.name)

    def transform(self, mod: Any, ctx: PassContext) -> Any:
        return self.pass_.transform(mod, ctx)

    def children(self) -> Sequence[Pass[Any]]:
        return self.pass_.children()


def _required(info: PassInfo) -> Iterator[Pass[Any]]:
    """Go over what a pass requires, depth first."""
    for name in info.required:
        pass_ = get_required(name, info.name)
        yield from _required(pass_.info)
        yield pass_
