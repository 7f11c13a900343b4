"""`Coreset`: pipelines that were good for other modules, then changes of the best."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from apass.errors import PipelineSyntaxError, SearchError
from apass.loading.entry_points import plugins
from apass.search.learning import learn_pipelines
from apass.search.strategies.evolution import Evolution
from apass.search.strategies.strategy import StrategySetup
from apass.search.study import is_study, read_table
from apass.search.template import Point
from apass.util.text import shorten

__all__ = ["Coreset", "pipelines_of"]

_GROUP = "apass.coresets"


class Coreset(Evolution):
    """Tries a list of pipelines, and then changes the best points.

    The list is learned on other modules: `coreset:FILE` names a text file with a pipeline in each line, or the study
    of an earlier search. From a study, what was found for the module itself is left out. Without a file, the list is
    the one of the named space. Source: Liang et al., "Learning compiler pass orders using coreset and normalized value
    prediction" (2023).

    Raises:
        SearchError: if there is no list, the file cannot be read, or a pipeline is not one of the space.

    """

    def __init__(self, setup: StrategySetup) -> None:
        super().__init__(setup, [_point(setup, text) for text in pipelines_of(setup)])


def pipelines_of(setup: StrategySetup) -> list[str]:
    """Return the pipelines that a strategy named `coreset` begins with."""
    name = setup.space.name
    if setup.argument:
        path = Path(setup.argument)
        if is_study(path):
            return learn_pipelines(read_table(path, without=setup.module))
        try:
            return _lines(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SearchError(f"cannot read the pipelines of the strategy coreset:{path}: {error}") from None
    offers = plugins(_GROUP)
    if name not in offers:
        known = f"; there are lists for {', '.join(sorted(offers))}" if offers else ""
        message = f"the space {name or setup.space.text!r} has no list of pipelines; write coreset:FILE"
        raise SearchError(f"{message}, with a file of pipelines or the study of an earlier search{known}")
    make: Any = offers[name].load()
    return list(cast("Sequence[str]", make()))


def _lines(text: str) -> list[str]:
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line]


def _point(setup: StrategySetup, text: str) -> Point:
    try:
        point = setup.space.point_of(text)
    except PipelineSyntaxError as error:
        message = f"the strategy coreset cannot read the pipeline {shorten(text, 60)!r}: {error.message}"
        raise SearchError(f"{message}; expected a pipeline in each line of {setup.argument or 'its list'}") from None
    if point is None:
        name = setup.space.name or shorten(setup.space.text)
        raise SearchError(f"the pipeline {text!r} of the strategy coreset is not one of the space {name}")
    return point
