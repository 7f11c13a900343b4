"""`Outside`: what a pass, or an option of a pass, reaches besides the module.

The text of a pipeline may come from a stranger. It names passes, and gives options to them. No such text may read a
file or run a program because a pass has an option for it. An option therefore declares what it reaches, as
`Annotated[str, Outside.NETWORK]`, and a pass by its attribute `outside`. Where the names of passes are limited, what
reaches outside is refused unless it is named; see `parse_pipeline`.
"""

import inspect
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from types import NoneType
from typing import Annotated, Any, Final, Literal, cast, get_args, get_origin

__all__ = ["Outside", "outside_of", "reviewed"]


class Outside(Enum):
    """What a pass or an option reaches besides the module."""

    FILES = "reads or writes files"
    """Files, which the value or the module names. An option of type `Path` reaches them without a declaration."""
    PROGRAMS = "runs programs"
    """Programs, or arguments of one."""
    NETWORK = "uses the network"
    """Services of other machines."""
    CODE = "names passes or code"
    """Other passes with their options, or code."""
    UNKNOWN = "may reach files or programs"
    """Not known: the option of a library was not reviewed, and its value is text or an object."""


_PLAIN: Final = (bool, int, float, NoneType)


def outside_of(tp: Any) -> Outside | None:
    """Return what an option of a type reaches, or None.

    >>> outside_of(Annotated[str, Outside.PROGRAMS]), outside_of(list[PurePath]), outside_of(str)
    (<Outside.PROGRAMS: 'runs programs'>, <Outside.FILES: 'reads or writes files'>, None)
    """
    if isinstance(tp, Outside):
        return tp
    if isinstance(tp, type) and issubclass(cast("type[object]", tp), PurePath):
        return Outside.FILES
    # The arguments of an annotated type include what it is annotated with. The ones of a Literal are values.
    items: tuple[Any, ...] = () if get_origin(tp) is Literal else get_args(tp)
    return next(filter(None, map(outside_of, items)), None)


def reviewed(option: inspect.Parameter, reviews: Mapping[str, Outside | None]) -> inspect.Parameter:
    """Return an option of a library, with what it reaches.

    Numbers and choices reach nothing. Any other option reaches what its review states, and `Outside.UNKNOWN` without a
    review: a new version of the library may have added it.

    Parameters:
        option: the option.
        reviews: what options reach, by name; None is nothing.

    >>> path = inspect.Parameter("path", inspect.Parameter.KEYWORD_ONLY, annotation=str)
    >>> outside_of(reviewed(path, {}).annotation), outside_of(reviewed(path, {"path": None}).annotation)
    (<Outside.UNKNOWN: 'may reach files or programs'>, None)
    """
    outside = None if _is_plain(option.annotation) else reviews.get(option.name, Outside.UNKNOWN)
    return option if outside is None else option.replace(annotation=Annotated[option.annotation, outside])


def _is_plain(tp: Any) -> bool:
    """Return whether the values of a type are numbers or choices."""
    if tp in _PLAIN or get_origin(tp) is Literal or (isinstance(tp, type) and issubclass(tp, Enum)):
        return True
    # For example, `list[int]` and `tuple[bool, ...]` are plain, `list[str]` and a bare `list` are not.
    arguments = [argument for argument in get_args(tp) if argument is not Ellipsis]
    return bool(arguments) and all(map(_is_plain, arguments))
