"""The adapter for the simplest IR: a `dict` of functions by name."""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from pprint import pformat
from typing import Any, Final, cast

from apass.adapters.base import BaseAdapter
from apass.adapters.nodes import Node
from apass.core.adapter import FunctionKind
from apass.core.ir_plugin import IRPlugin
from apass.errors import AdapterError, VerifyError
from apass.util.delta_debugging import Shrinking
from apass.util.fingerprint import fingerprint_value

__all__ = ["ADAPTER", "PLUGIN", "DictAdapter"]

Module = dict[str, Any]
"""Functions by name. A function is any object except None."""

_MARKS: Final = ("SkipOptimization", "attrs", "kind")


class DictAdapter(BaseAdapter[Module, Any]):
    """An IRAdapter for `dict[str, F]` and its subclasses.

    A function may have the marks `SkipOptimization` and `kind` (`"function"` or `"prim_func"`). They are attributes of
    the function, entries of its mapping `attrs`, or entries of the function if it is a mapping. A pass must not modify
    functions in place.
    """

    thread_safe: bool = True
    """True: the methods access only their arguments."""
    suffix: str = ".json"
    """The suffix of a file with the bytes that `dumps` returns."""

    def functions(self, mod: Module) -> Iterable[tuple[str, Any]]:
        """Iterate over the items of the dict."""
        return mod.items()

    def select(self, mod: Module, kind: FunctionKind) -> tuple[list[str], list[Any]]:
        """Return names and functions of a kind that are not skipped."""
        # Most modules have functions of one type that cannot have marks, so check types instead of functions.
        if not any(map(_can_be_marked, set(map(type, mod.values())))):
            return (list(mod), list(mod.values())) if kind == "function" else ([], [])
        chosen = [(name, func) for name, func in mod.items() if self.kind(func) == kind and not self.skips(func)]
        return [name for name, _ in chosen], [func for _, func in chosen]

    def get(self, mod: Module, name: str) -> Any:
        """Return `mod[name]`."""
        return mod[name]

    def replace(self, mod: Module, updates: Mapping[str, Any]) -> Module:
        """Return a copy of the dict, of the same class and order, with `updates`."""
        # `copy` keeps the class and the state of a subclass, such as the factory of a defaultdict.
        result = dict(mod) if type(mod) is dict else copy.copy(mod)
        result.update(updates)
        return result

    def fingerprint(self, x: Any) -> str:
        """Return the fingerprint of the contents (see `fingerprint_value`)."""
        return fingerprint_value(x)

    def exact_fingerprint(self, x: object) -> str:
        """Return a fingerprint that also depends on the order of a module's functions."""
        return fingerprint_value((x, list(cast("dict[str, object]", x)) if isinstance(x, dict) else None))

    def equal(self, a: Any, b: Any) -> bool:
        """Return whether the fingerprints are equal."""
        # `==` on functions is not reliable: for NumPy arrays it returns an array, for most objects it is identity.
        return a is b or fingerprint_value(a) == fingerprint_value(b)

    def to_text(self, x: Any) -> str:
        """Return the name and the `pformat` text of each function."""
        if not isinstance(x, dict):
            return _show(x)
        return "\n".join(self.text_parts(cast("Module", x), cast("Module", x))[1].values())

    def text_parts(self, mod: Module, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
        """Return the name and the `pformat` text of each named function.

        There is no text outside of functions.
        """
        functions = dict(self.functions(mod))
        return "", {name: f"{name}: {_show(functions[name])}" for name in names}

    def verify(self, mod: Module) -> None:
        """Check that names are strings and no function is None.

        Raises:
            VerifyError: if a name or a function is invalid.

        """
        for name, func in mod.items():
            if not isinstance(name, str):
                raise VerifyError(f"a function of a dict module is named {name!r}; names must be strings")
            if func is None:
                raise VerifyError(f"function {name!r} of a dict module is None")

    def dumps(self, mod: Module) -> bytes:
        """Return the module as JSON.

        Raises:
            AdapterError: if the functions contain types that JSON cannot represent.

        """
        try:
            data = json.dumps(mod)
        except (TypeError, ValueError) as error:
            message = f"this dict module cannot be written as JSON ({error}); register an adapter for it"
            raise AdapterError(message) from error
        # JSON changes some values silently: tuples become lists, and keys become strings.
        if fingerprint_value(json.loads(data)) != fingerprint_value(dict(mod)):
            raise AdapterError(
                "this dict module changes when it is written to and read from JSON; register an adapter for it"
            )
        return data.encode()

    def loads(self, data: bytes) -> Module:
        """Return the module that `dumps` wrote."""
        return cast("Module", json.loads(data))

    def shrinkings(self, mod: Module) -> Iterator[Shrinking[Module]]:
        """Iterate over the parts that can be removed.

        These are functions, and then entries of the mappings and lists in the functions.
        """
        names = list(mod)
        yield Shrinking("functions", len(names), lambda removed: _without(mod, [(names[index],) for index in removed]))
        paths = list(_paths(mod, ()))
        yield Shrinking("entries", len(paths), lambda removed: _without(mod, [paths[index] for index in removed]))

    def nodes(self, func: Any) -> Iterator[Node]:
        """Iterate over the entries of a function that is a dict or a list.

        The keys of a dict are names. The items of a list have numbers, such as `[0]`.
        """
        for key, value in _entries(func):
            is_named = isinstance(func, dict)
            name = key if isinstance(key, str) else f"[{key!r}]"
            yield Node(name=name, text=_node_text(value), is_named=is_named, has_location=False)

    def strategy(self) -> Any:
        """Return a Hypothesis strategy for modules whose functions are JSON values."""
        from hypothesis import strategies as st

        leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
        functions = st.recursive(
            leaves,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=8,
        )
        return st.dictionaries(st.text(), functions.filter(lambda func: func is not None), max_size=4)

    def isolate(self, mod: Module, names: Iterable[str]) -> Module:
        """Return a dict with deep copies of the named functions."""
        return {name: copy.deepcopy(mod[name]) for name in names}


def _can_be_marked(kind: type[Any]) -> bool:
    has_dict = bool(getattr(kind, "__dictoffset__", 0))
    return has_dict or issubclass(kind, Mapping) or any(hasattr(kind, name) for name in _MARKS)


def _paths(container: object, parent: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Iterate over the paths of entries in the functions of a module, in pre-order."""
    for key, value in _entries(container):
        if parent:
            yield (*parent, key)
        yield from _paths(value, (*parent, key))


def _entries(container: object) -> list[tuple[Any, Any]]:
    items = cast("Any", container)
    if isinstance(container, dict):
        return list(items.items())
    return [(index, items[index]) for index in range(len(items))] if isinstance(container, list) else []


def _without(container: Any, paths: Iterable[tuple[Any, ...]]) -> Any:
    """Return a mapping or a list without the entries at `paths`."""
    by_key: dict[Any, list[tuple[Any, ...]]] = {}
    for key, *rest in paths:
        by_key.setdefault(key, []).append(tuple(rest))
    # An empty rest of a path removes the entry itself.
    entries = [
        (key, _without(value, by_key[key]) if key in by_key else value)
        for key, value in _entries(container)
        if () not in by_key.get(key, [])
    ]
    return dict(entries) if isinstance(container, dict) else [value for _, value in entries]


def _node_text(value: object) -> str:
    """Return one line that differs for different values."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        # The `repr` of an array leaves out most of its elements.
        return f"{' '.join(repr(value).split())} #{fingerprint_value(value)[:16]}"


def _show(func: object) -> str:
    return func if isinstance(func, str) else pformat(func, width=100)


ADAPTER: Final = DictAdapter()
"""The shared adapter; it has no state."""


def _load(path: Path) -> Module:
    """Return the module in a file."""
    return cast("Module", json.loads(path.read_bytes(), object_pairs_hook=_object))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, none of whose entries is lost."""
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise AdapterError(f"an object has two entries named {twice!r}; rename one of them")
    return result


PLUGIN: Final = IRPlugin(adapter=ADAPTER, module_type=dict, suffixes=(ADAPTER.suffix,), load=_load)
"""The plug-in. Most JSON files are not modules, so the commands read only those that are named."""
