"""The order of the passes of a pipeline: `runs_after` and `runs_before`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from apass.concurrency.run_locals import RunLocal
from apass.core.pass_factories import known_names
from apass.errors import PassOrderError
from apass.passes.base import Pass
from apass.passes.registry import get_pass

__all__ = ["check_order"]

_Place = tuple[tuple[int, int], ...]
"""Where a pass runs: for each level of a pipeline, outermost first, the number of the branch and the index in it."""

_Find = Callable[[str], Any]
"""Returns the registered pass of a name, or None."""

_OPPOSITE: Final = {"after": "before", "before": "after"}

_FINDING: Final[RunLocal[bool]] = RunLocal("finding_required", False)
"""Whether required passes are being created."""


def check_order(pipeline: Pass[Any]) -> None:
    """Check the order of all passes inside a pipeline.

    If a pass has `runs_after=["Q"]` and the pipeline contains Q, at least one Q must come first. `runs_before` is the
    mirror image. For example, `Q,P,Q` is allowed for `runs_after`, and `P,Q` is not.

    This holds for each occurrence of the pass, at any depth. A name may belong to a contained pipeline, whose passes
    then all count. Passes of different branches have no order. A registered pass that another pass requires counts each
    time it runs.

    Raises:
        PassOrderError: if a pass comes too early or too late, or no order is possible.

    """
    # A required pass is created for this check alone. What it requires in turn is part of this check.
    find: _Find = (lambda _name: None) if _FINDING.get() else cache(_find)
    occurrences = list(_occurrences(pipeline, (), (), find))
    if not any(pass_.contract.runs_after or pass_.contract.runs_before for _, pass_ in occurrences):
        return
    places: dict[str, list[_Place]] = {}
    for place, pass_ in occurrences:
        for name in pass_.all_names:
            places.setdefault(name, []).append(place)
    for place, pass_ in occurrences:
        for relation, names in (("after", pass_.contract.runs_after), ("before", pass_.contract.runs_before)):
            for name in names:
                found = {_relation(place, other) for other in places.get(name, ())}
                if name in pass_.all_names or found - {""} == {_OPPOSITE[relation]}:
                    _raise(pipeline, pass_, relation, name, [pass_ for _, pass_ in occurrences])


def _occurrences(
    pipeline: Pass[Any], place: _Place, trail: tuple[str, ...], find: _Find
) -> Iterator[tuple[_Place, Pass[Any]]]:
    """Iterate over the passes inside a pipeline, each time they run.

    `trail` contains the names of the required passes that contain the pipeline.
    """
    for number, passes in enumerate(pipeline.branches()):
        for index, (pass_, inner_trail) in enumerate(_with_required(passes, trail, find)):
            inner = (*place, (number, index))
            yield inner, pass_
            yield from _occurrences(pass_, inner, inner_trail, find)


def _with_required(
    passes: Iterable[Pass[Any]], trail: tuple[str, ...], find: _Find
) -> Iterator[tuple[Pass[Any], tuple[str, ...]]]:
    """Iterate over passes, each after those that it requires, with their trails."""
    for pass_ in passes:
        for name in pass_.info.required:
            # A cycle is an error when the pass runs.
            required = None if name in trail else find(name)
            if required is not None:
                yield from _with_required([required], (*trail, name), find)
        yield pass_, trail


def _find(name: str) -> Any:
    """Return the registered pass of a name; None if there is none so far.

    If it cannot be created, the pipeline raises the error when it runs.
    """
    # The registry would import all plug-ins for the message about an unknown name.
    if name not in known_names():
        return None
    with _FINDING.set_to(True), suppress(Exception):  # a factory may raise anything
        return get_pass(name)
    return None


def _relation(place: _Place, other: _Place) -> str:
    """Return whether the pass at a place runs "before" or "after" the pass at another.

    Return "" if they have no order.
    """
    for (branch, index), (other_branch, other_index) in zip(place, other, strict=False):
        if branch != other_branch:
            return ""
        if index != other_index:
            return "before" if index < other_index else "after"
    return ""  # one contains the other


def _raise(pipeline: Pass[Any], pass_: Pass[Any], relation: str, name: str, passes: Sequence[Pass[Any]]) -> None:
    """Raise the error for a pass that should run before or after the one of a name."""
    owner = pipeline.info.name
    cycle = _cycle(passes)
    if cycle:
        raise PassOrderError(
            f"no order of the passes of {owner!r} is possible, because runs_after and runs_before form a cycle: "
            f"{' > '.join(cycle)}; remove one name from them"
        )
    opposite = _OPPOSITE[relation]
    raise PassOrderError(
        f"pass {pass_.info.name!r} must run {relation} {name!r}, but {owner!r} runs it {opposite}; move one of them"
    )


def _cycle(passes: Sequence[Pass[Any]]) -> list[str]:
    """Return the names of passes each of which must run before the next.

    The list is empty if an order is possible.
    """
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for pass_ in passes:
        for name in pass_.all_names:
            by_name.setdefault(name, []).append(pass_.all_names)
    earlier: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for pass_ in passes:
        for name in pass_.contract.runs_after:
            earlier.setdefault(pass_.all_names, []).extend(by_name.get(name, ()))
        for name in pass_.contract.runs_before:
            for later in by_name.get(name, ()):
                earlier.setdefault(later, []).append(pass_.all_names)
    try:
        TopologicalSorter(earlier).prepare()
    except CycleError as error:
        return [names[-1] for names in error.args[1]]
    return []
