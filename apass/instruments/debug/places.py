"""Places in the user's code: the file and line of a coroutine or a pass."""

import dis
import inspect
import os
from collections.abc import Iterator
from functools import cached_property, partial
from types import CodeType
from typing import Any

from apass.core.places import LIBRARIES, OWN, Place

__all__ = [
    "is_created_by",
    "place_of_coroutine",
    "place_of_pass",
    "place_of_write",
    "state_of",
]


def place_of_coroutine(coroutine: Any) -> Place | None:
    """Return where the user created a coroutine.

    It is None if apass or a library created it, or if its origin was not recorded.
    """
    for file, line, _ in getattr(coroutine, "cr_origin", None) or ():
        if file.startswith(OWN):
            return None
        if not file.startswith(LIBRARIES):
            return Place(file, line)
    return None


def place_of_pass(pass_: object) -> Place | None:
    """Return where the body of a pass is defined."""
    body = next(_bodies(pass_), None)
    return None if body is None else Place(body.co_filename, body.co_firstlineno)


def is_created_by(coroutine: Any, pass_: object) -> bool:
    """Return whether the body of a pass, or its callee, created a coroutine."""
    bodies = {(body.co_filename, body.co_name) for body in _bodies(pass_)}
    return any((file, function) in bodies for file, _, function in getattr(coroutine, "cr_origin", None) or ())


def _bodies(pass_: object) -> Iterator[CodeType]:
    for owner in reversed(_objects(pass_)):
        for name in ("transform_function", "transform_module", "transform"):
            code = _code_of(inspect.getattr_static(owner, name, None))
            if code is not None:
                yield code


def place_of_write(pass_: object, name: str) -> Place | None:
    """Return the line of the pass that assigns to the attribute `name` of an object.

    If there is none, return the line that reads it, whose value is then changed.
    """
    codes = [code for owner in _objects(pass_) for code in _codes(type(owner)) if code.co_name != "__init__"]
    for operations in (("STORE_ATTR", "DELETE_ATTR"), ("LOAD_ATTR", "LOAD_METHOD")):
        for code in codes:
            for step in dis.get_instructions(code):
                if step.opname in operations and step.argval == name and step.positions and step.positions.lineno:
                    return Place(code.co_filename, step.positions.lineno)
    return None


def state_of(pass_: object) -> dict[str, tuple[object, object]]:
    """Return the attributes of a pass by name, each with a copy of its contents.

    The copy is None if the value is not a dict, list or set. Values of cached properties are left out.
    """
    state: dict[str, tuple[object, object]] = {}
    for owner in _objects(pass_):
        names = [*getattr(owner, "__dict__", ()), *(name for kind in type(owner).__mro__ for name in _slots(kind))]
        for name in names:
            if not isinstance(getattr(type(owner), name, None), cached_property) and hasattr(owner, name):
                value = getattr(owner, name)
                state[name] = value, (value.copy() if type(value) in (dict, list, set) else None)
    return state


def _objects(pass_: object) -> list[object]:
    """Return a pass, and the object of the class that it was made from, if any."""
    instance = getattr(pass_, "__dict__", {}).get("_instance")
    return [pass_] if instance is None else [pass_, instance]


def _slots(kind: type) -> tuple[str, ...]:
    slots: Any = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _codes(kind: type) -> Iterator[CodeType]:
    """Iterate over the code of the functions in a class and its bases."""
    for base in kind.__mro__:
        for member in vars(base).values():
            code = _code_of(member)
            if code is not None:
                yield from _with_inner(code)


def _code_of(member: Any) -> CodeType | None:
    """Return the code of a member of a class, unless apass defines it."""
    function = getattr(member, "__func__", member)
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function) if callable(function) else function
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__call__", None), "__code__", None)  # noqa: B004
    return code if isinstance(code, CodeType) and not code.co_filename.startswith(f"{OWN}passes{os.sep}") else None


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
