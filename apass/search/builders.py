"""`one_of`, `steps` and `with_choices`: the texts of spaces, written in Python."""

from collections.abc import Sequence
from typing import Any, cast

from apass.core.named_callables import value_text
from apass.errors import SearchError
from apass.passes.base import Pass

__all__ = ["one_of", "steps", "with_choices"]


def one_of(*options: str | Pass[Any] | None) -> str:
    """Return the hole that is one of several passes or pipelines; None is no pass.

    >>> one_of("A", "B,C", None)
    '?(A|B,C|)'
    """
    return f"?({_texts(options)})"


def steps(*options: str | Pass[Any] | None, most: int, least: int = 1, once: bool = False) -> str:
    """Return the hole that is a sequence of passes or pipelines.

    Parameters:
        *options: the alternatives of each step.
        most: the maximum number of steps.
        least: the minimum number.
        once: whether each alternative occurs once at most.

    >>> steps("A", "B", most=12)
    '?{1..12}(A|B)'

    """
    return f"?{{{least}..{most}{',once' if once else ''}}}({_texts(options)})"


def _texts(options: Sequence[str | Pass[Any] | None]) -> str:
    if len(options) < 2:
        raise SearchError(f"a choice needs at least two alternatives, got {len(options)}")
    return "|".join("" if option is None else str(option) for option in options)


def with_choices(name: str, passes: str = "", /, **options: object) -> str:
    """Return a pass whose options are holes.

    Parameters:
        name: the name of the pass.
        passes: the text of the passes that it contains.
        options: a `range` of ints; a pair `(low, high)` of floats; a list of values; `...` for all values of the type;
            or a value that is no choice.

    >>> with_choices("Repeat", "A", times=range(1, 5))
    'Repeat{times=?1..4}(A)'
    >>> with_choices("Scale", by=(0.5, 2.0), mode=["up", "down"], exact=..., name="s")
    'Scale{by=?0.5..2.0,mode=?(up|down),exact=?,name=s}'

    """
    written = ",".join(f"{key}={_option_text(key, value)}" for key, value in options.items())
    head = f"{name}{{{written}}}" if written else name
    return f"{head}({passes})" if passes else head


def _option_text(key: str, value: object) -> str:
    if value is ...:
        return "?"
    if isinstance(value, range) and value.step == 1 and value:
        return f"?{value.start}..{value.stop - 1}"
    if not isinstance(value, list | tuple | range):
        return value_text(value)
    values = list(cast("Sequence[object]", value))
    if isinstance(value, tuple) and len(values) == 2 and all(isinstance(item, float) for item in values):
        return f"?{values[0]}..{values[1]}"
    if isinstance(value, range) or len(values) < 2:
        raise SearchError(f"the choices of option {key!r} must be two or more values, or a range, got {value!r}")
    return f"?({'|'.join(map(value_text, values))})"
