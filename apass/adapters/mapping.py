"""The adapter for the simplest IR: a plain `dict` of functions by name, whatever the functions are."""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from pprint import pformat
from typing import Any, Final, cast

from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, VerifyError
from apass.util.delta_debugging import Shrinking
from apass.util.fingerprint import fingerprint_value

__all__ = ["ADAPTER", "DictAdapter"]

Module = dict[str, Any]
"""Functions by name; a function is any object but None."""

_MARKS: Final = ("SkipOptimization", "attrs", "kind")


class DictAdapter:
    """An IRAdapter for `dict[str, F]` and its subclasses.

    A function carries `SkipOptimization` (and `kind`, `"function"` or `"prim_func"`) as an attribute, in a mapping
    `attrs`, or, if it is itself a mapping, under that key. Functions must not be changed in place by a pass.
    """

    thread_safe: bool = True
    """The adapter touches nothing but the module it is given."""
    suffix: str = ".json"
    """The ending of a file that has what `dumps` returns: JSON."""

    def functions(self, mod: Module) -> Iterable[tuple[str, Any]]:
        """Go over the items of the dict."""
        return mod.items()

    def select(self, mod: Module, kind: FunctionKind) -> tuple[list[str], list[Any]]:
        """Do as `select_functions`; in one glance where no function is of a type that could carry a mark."""
        if not any(map(_can_be_marked, set(map(type, mod.values())))):
            return (list(mod), list(mod.values())) if kind == "function" else ([], [])
        chosen = [(n, f) for n, f in mod.items() if self.kind(f) == kind and not self.skips(f)]
        return [name for name, _ in chosen], [func for _, func in chosen]

    def get(self, mod: Module, name: str) -> Any:
        """Return `mod[name]`."""
        return mod[name]

    def kind(self, func: Any) -> FunctionKind:
        """Return `"prim_func"` if the function says so, else `"function"`."""
        return "prim_func" if _mark(func, "kind") == "prim_func" else "function"

    def replace(self, mod: Module, updates: Mapping[str, Any]) -> Module:
        """Return a copy of the dict, of its own class, with `updates` in their places."""
        made = dict(mod) if type(mod) is dict else copy.copy(mod)
        made.update(updates)
        return made

    def skips(self, func: Any) -> bool:
        """Tell whether the function's `SkipOptimization` is true."""
        return bool(_mark(func, "SkipOptimization"))

    def fingerprint(self, x: Any) -> str:
        """Return the fingerprint of the contents (see `fingerprint_value`)."""
        return fingerprint_value(x)

    def exact_fingerprint(self, x: object) -> str:
        """Return a fingerprint that goes by the order of a module's functions too."""
        return fingerprint_value((x, list(cast("dict[str, object]", x)) if isinstance(x, dict) else None))

    def equal(self, a: Any, b: Any) -> bool:
        """Compare by fingerprint, so arrays and objects that cannot be compared do no harm."""
        return a is b or fingerprint_value(a) == fingerprint_value(b)

    def to_text(self, x: Any) -> str:
        """Return a line or more for each function: its name and its value as Python shows it."""
        if not isinstance(x, dict):
            return _show(x)
        return "\n".join(f"{name}: {_show(func)}" for name, func in cast("Module", x).items())

    def verify(self, mod: Module) -> None:
        """Check that names are strings and no function is None; VerifyError if not."""
        for name, func in mod.items():
            if not isinstance(name, str):
                raise VerifyError(f"a function of a dict module is named {name!r}; names must be strings")
            if func is None:
                raise VerifyError(f"function {name!r} of a dict module is None")

    def dumps(self, mod: Module) -> bytes:
        """Return the module as JSON; AdapterError if its functions are not made of JSON's types."""
        try:
            data = json.dumps(mod)
        except (TypeError, ValueError) as error:
            raise AdapterError(
                f"this dict module cannot be written as JSON ({error}); register an adapter for it"
            ) from error
        if fingerprint_value(json.loads(data)) != fingerprint_value(dict(mod)):
            raise AdapterError("this dict module would not come back from JSON as it is; register an adapter for it")
        return data.encode()

    def loads(self, data: bytes) -> Module:
        """Return the module that `dumps` wrote."""
        return cast("Module", json.loads(data))

    def shrinkings(self, mod: Module) -> Iterator[Shrinking[Module]]:
        """Go over what can be left out: functions, then entries of the mappings and lists that they are made of."""
        names = list(mod)
        yield Shrinking("functions", len(names), lambda gone: _without(mod, [(names[number],) for number in gone]))
        paths = list(_paths(mod, ()))
        yield Shrinking("entries", len(paths), lambda gone: _without(mod, [paths[number] for number in gone]))

    def isolate(self, mod: Module, names: Iterable[str]) -> Module:
        """Return a dict with deep copies of the named functions."""
        return {name: copy.deepcopy(mod[name]) for name in names}

    def extract(self, sub: Module, names: Iterable[str]) -> Mapping[str, Any]:
        """Return the named functions of `sub`."""
        return {name: sub[name] for name in names}


def _can_be_marked(kind: type[Any]) -> bool:
    has_dict = bool(getattr(kind, "__dictoffset__", 0))
    return has_dict or issubclass(kind, Mapping) or any(hasattr(kind, name) for name in _MARKS)


def _paths(holder: object, above: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Go over the ways to all entries within the functions of a module; outer ones first."""
    for key, value in _entries(holder):
        if above:
            yield (*above, key)
        yield from _paths(value, (*above, key))


def _entries(holder: object) -> list[tuple[Any, Any]]:
    known = cast("Any", holder)
    if isinstance(holder, dict):
        return list(known.items())
    return [(place, known[place]) for place in range(len(known))] if isinstance(holder, list) else []


def _without(holder: Any, gone: Iterable[tuple[Any, ...]]) -> Any:
    """Return a mapping or a list without the entries that those ways lead to."""
    here: dict[Any, list[tuple[Any, ...]]] = {}
    for key, *deeper in gone:
        here.setdefault(key, []).append(tuple(deeper))
    kept = [
        (key, _without(value, here[key]) if key in here else value)
        for key, value in _entries(holder)
        if () not in here.get(key, [])
    ]
    return dict(kept) if isinstance(holder, dict) else [value for _, value in kept]


def _mark(func: object, name: str) -> object:
    own = _as_mapping(func)
    attrs = _as_mapping(getattr(func, "attrs", None) if own is None else own.get("attrs"))
    for holder in (own, attrs):
        if holder is not None and name in holder:
            return holder[name]
    return getattr(func, name, None) if own is None else None


def _as_mapping(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _show(func: object) -> str:
    return func if isinstance(func, str) else pformat(func, width=100)


ADAPTER: Final = DictAdapter()
"""The adapter; it has no state."""
