"""`rest_of`: the remainder of a pipeline after one of its passes."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.core.position import Position
from apass.core.run import Run
from apass.errors import ResumeError, did_you_mean
from apass.passes.alternatives import Alternatives
from apass.passes.base import Pass, is_enabled
from apass.passes.conditional import OTHERWISE, If
from apass.passes.minimum_point import MinimumPoint
from apass.passes.registry import get_required
from apass.passes.repeat import Repeat
from apass.passes.sequential import Sequential
from apass.passes.while_ import While
from apass.pipelines.parser import as_pass
from apass.util.checks import check_type

__all__ = ["is_in_order", "is_row", "rest_of"]

_HINT: Final = "resume from the file of the pass that contains it"


def rest_of(pass_: Pass[Any] | str, after: Position, ctx: PassContext | None = None) -> Pass[Any]:
    """Return a pass that runs the part of `pass_` that follows the position `after`.

    `pass_` may be the text of a pipeline. The levels and names of `ctx` (None is the current context) must be those of
    the run that the position is from.

    Raises:
        TypeError: if an argument is of another type.
        ResumeError: if the pipeline has no pass at the position, or cannot be resumed there. The latter is the case in
            a function's body, in an alternative of a First or Race, in a MinimumPoint, and in a pass that calls others
            in its own code.

    >>> pipeline = "Sequential{name=a},Repeat{times=3}(Sequential{name=b},Sequential{name=c})"
    >>> print(rest_of(pipeline, Position(None, ((0, "sequential", None), (1, "Repeat", None), (2, "b", None)))))
    Sequential{name=c},Repeat{times=1}(Sequential{name=b},Sequential{name=c})

    """
    the_pass = as_pass("rest_of(pass_, after, ctx)", pass_)
    check_type("position", after, Position)
    check_type("ctx", ctx, PassContext | None)
    rest = _Rest(after, PassContext.current() if ctx is None else ctx)
    _, name, part = after.steps[0]
    if name != the_pass.info.name:
        raise rest.error(f"the outermost pass of the pipeline is {the_pass.info.name!r}")
    remainder = rest.within(the_pass, part, after.steps[1:])
    return Sequential() if remainder is None else remainder


def is_row(run: Run) -> bool:
    """Return whether a run only runs other passes, one after another."""
    pass_ = run.pass_
    if run.function is not None or not isinstance(pass_, Pass):
        return False
    return pass_.execution.in_order or isinstance(pass_, Sequential | Repeat | While | If)


def is_in_order(run: Run) -> bool:
    """Return whether a pipeline can be resumed after a run.

    All passes that contain it must run their passes one after another.
    """
    return all(map(is_row, run.lineage[1:]))


_Steps = Sequence[tuple[int, str, str | None]]


class _Rest:
    """Computes the remainder of a pipeline for one position and context."""

    def __init__(self, after: Position, ctx: PassContext) -> None:
        self.after = after
        self.ctx = ctx

    def error(self, reason: str) -> ResumeError:
        """Return an error that contains the position."""
        return ResumeError(f"cannot resume after {self.after.text!r}: {reason}")

    def within(self, pass_: Pass[Any], part: str | None, steps: _Steps) -> Pass[Any] | None:
        """Return the remainder of a pass after the path `steps` in one part; None if done."""
        if not steps:
            return None
        if isinstance(pass_, If):
            return self.of_sequence(pass_.otherwise if part == OTHERWISE else pass_.passes, steps)
        if isinstance(pass_, Alternatives):
            raise self.error(f"it is in an alternative of pass {pass_.info.name!r}; {_HINT}")
        if part is not None:
            raise self.error(f"it is in the body of {part!r} of pass {pass_.info.name!r}; {_HINT}")
        if isinstance(pass_, MinimumPoint):
            raise self.error(f"it is in pass {pass_.info.name!r}, whose best module is unknown; {_HINT}")
        if isinstance(pass_, Repeat | While):
            return self.of_loop(pass_, steps)
        if isinstance(pass_, Sequential):
            return self.of_sequence(pass_.passes, steps)
        if pass_.execution.in_order:
            return self.of_sequence(pass_.branches()[0], steps)
        raise self.error(f"pass {pass_.info.name!r} calls passes in its own code; {_HINT}")

    def of_loop(self, pass_: Repeat[Any] | While[Any], steps: _Steps) -> Pass[Any]:
        """Return the remainder of the round, followed by the remaining rounds."""
        (number, name, part), *deeper = steps
        # Positions count the runs of all rounds together.
        runs_in_round = len(list(self.runs(pass_.passes)))
        rounds, number = divmod(number, runs_in_round or 1)
        remainder = self.of_sequence(pass_.passes, [(number, name, part), *deeper])
        if rounds + 1 >= pass_.max_rounds:
            return remainder
        times = None if pass_.times is None else pass_.times - rounds - 1
        info = pass_.info
        loop: Pass[Any]
        if isinstance(pass_, While):
            loop = While(pass_.predicate, pass_.passes, times, pass_.budget, info.opt_level, info.name)
        else:
            loop = Repeat(pass_.passes, times, pass_.strict, info.opt_level, info.name, budget=pass_.budget)
        return Sequential([*_flatten(remainder), loop], opt_level=info.opt_level)

    def of_sequence(self, passes: Sequence[Pass[Any]], steps: _Steps) -> Sequential[Any]:
        """Return the remainder of a sequence of passes."""
        (number, name, part), *deeper = steps
        runs = list(self.runs(passes))
        if number >= len(runs) or runs[number][1].info.name != name:
            hint = did_you_mean(name, [pass_.info.name for _, pass_ in runs], listing="; there are ")
            raise self.error(f"the pipeline has no pass {name!r} as number {number} there{hint}")
        index, pass_ = runs[number]
        remainder = self.within(pass_, part, deeper)
        # Some requirements of this pass have run already, so it must not resolve them again.
        rest = [_WithoutRequirements(run) for owner, run in runs[number + 1 :] if owner == index]
        return Sequential([*_flatten(remainder), *rest, *passes[index + 1 :]])

    def runs(self, passes: Sequence[Pass[Any]]) -> Iterator[tuple[int, Pass[Any]]]:
        """Iterate over the runs of a sequence, including requirements.

        Each run is given as the index of the pass that causes it, and the pass that runs.
        """
        for index, pass_ in enumerate(passes):
            if is_enabled(pass_, self.ctx):
                yield from ((index, required) for required in _required(pass_.info))
                yield index, pass_


def _flatten(remainder: Pass[Any] | None) -> Sequence[Pass[Any]]:
    """Return the passes of a remainder."""
    if remainder is None:
        return ()
    is_plain = isinstance(remainder, Sequential) and remainder.spec == ("Sequential", {})
    return remainder.children() if is_plain else (remainder,)


class _WithoutRequirements(Pass[Any]):
    """A pass without its requirements, at a level that always runs."""

    def __init__(self, pass_: Pass[Any]) -> None:
        self.pass_ = pass_
        self.info = PassInfo(0, pass_.info.name)

    def transform(self, mod: Any, ctx: PassContext) -> Any:
        return self.pass_.transform(mod, ctx)

    def children(self) -> Sequence[Pass[Any]]:
        return self.pass_.children()


def _required(info: PassInfo) -> Iterator[Pass[Any]]:
    """Iterate over the passes that a pass requires, depth first."""
    for name in info.required:
        pass_ = get_required(name, info.name)
        yield from _required(pass_.info)
        yield pass_
