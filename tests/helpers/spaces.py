"""The pipelines of a named space, for tests."""

from random import Random

from apass.search.moves import random_point
from apass.search.space import Space
from apass.search.template import Steps, draw, first_of, render

__all__ = ["alternatives", "random_pipelines"]


def alternatives(text: str) -> list[str]:
    """Return a pipeline for each alternative of a sequence.

    Each option has its first value.
    """
    (steps,) = Space(text).items
    assert isinstance(steps, Steps)
    return [",".join(render(option, draw(option, first_of))) for option in steps.options]


def random_pipelines(text: str, count: int) -> list[str]:
    """Return pipelines of a space; the same ones each time."""
    space, random = Space(text), Random(20)
    return [space.text_of(random_point(space, random)) for _ in range(count)]
