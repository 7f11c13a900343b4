"""`BaseAdapter`: an adapter from two methods."""

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from pprint import pformat
from typing import Any, ClassVar, Generic, TypeVar, cast, get_args

from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, VerifyError
from apass.util.delta_debugging import Shrinking
from apass.util.fingerprint import fingerprint_value
from apass.util.tagged_json import reachable_types, read_tagged, write_tagged

__all__ = ["BaseAdapter", "mark_of"]

ModT = TypeVar("ModT")
FuncT = TypeVar("FuncT")
R = TypeVar("R")


class BaseAdapter(ABC, Generic[ModT, FuncT]):
    """An `IRAdapter` that needs two methods, `functions` and `replace`.

    The others have defaults.

    Override the defaults that do not suit the IR. A module whose functions change in place, or whose parts have no text
    and are not dataclasses, needs a `to_text`.

    - `to_text` prints dataclasses, strings, and objects with a `__str__` or a `__repr__` of their own.
    - `fingerprint` and `equal` compare the fields of dataclasses and the contents of collections. Other objects are
      compared by their `to_text`.
    - `dumps` and `loads` use `from_text`, if that is overridden. Otherwise they write the fields of dataclasses as
      JSON, and read only the dataclasses and enums that the type arguments of the base class mention, and `node_types`.
    - `isolate` makes a deep copy.
    - `shrinkings`, for `apass.reduce`, uses `remove`, if that is overridden.

    >>> from dataclasses import dataclass, replace
    >>> @dataclass(frozen=True)
    ... class Program:
    ...     funcs: tuple[tuple[str, str], ...]
    >>> class ProgramAdapter(BaseAdapter[Program, str]):
    ...     def functions(self, mod):
    ...         return mod.funcs
    ...     def replace(self, mod, updates):
    ...         return replace(mod, funcs=tuple((name, updates.get(name, func)) for name, func in mod.funcs))
    >>> adapter, program = ProgramAdapter(), Program((("f", "x + 0"), ("g", "y")))
    >>> adapter.loads(adapter.dumps(program)) == adapter.isolate(program, ["f"]) == program
    True
    >>> adapter.text_parts(program, ["f"])[1]
    {'f': 'x + 0'}

    """

    thread_safe: bool = False
    """Whether worker threads may read modules while the event loop runs."""
    node_types: ClassVar[tuple[type, ...]] = ()
    """Further dataclasses and enums that `dumps` writes and `loads` creates."""

    @abstractmethod
    def functions(self, mod: ModT) -> Iterable[tuple[str, FuncT]]:
        """Iterate over names and functions, in the order of the module."""

    @abstractmethod
    def replace(self, mod: ModT, updates: Mapping[str, FuncT]) -> ModT:
        """Return a module in which the functions of `updates` replace those of that name.

        `mod` itself must not change.
        """

    def get(self, mod: ModT, name: str) -> FuncT:
        """Return one function.

        Raises:
            KeyError: if the module has no function of that name.

        """
        return dict(self.functions(mod))[name]

    def kind(self, func: FuncT) -> FunctionKind:
        """Return the mark `kind` of the function (see `skips`), by default `"function"`."""
        return "prim_func" if mark_of(func, "kind") == "prim_func" else "function"

    def skips(self, func: FuncT) -> bool:
        """Return whether the mark `SkipOptimization` of the function is true.

        A mark is an attribute of the function, an entry of its mapping `attrs`, or an entry of the function itself.
        """
        return bool(mark_of(func, "SkipOptimization"))

    def to_text(self, x: ModT | FuncT) -> str:
        """Return the text of a module or of a function, for people.

        Raises:
            AdapterError: if the object has no text of its own.

        """
        if isinstance(x, str):
            return x
        value: Any = x
        if is_dataclass(value) or isinstance(value, dict | list | tuple | set | frozenset):
            return pformat(x, width=100)
        kind: Any = x.__class__
        if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
            raise AdapterError(
                f"objects of type {kind.__qualname__} have no text; override to_text of {type(self).__qualname__}"
            )
        return str(x)

    def from_text(self, text: str) -> ModT:
        """Return the module that has a text: the inverse of `to_text`, for `loads`.

        Raises:
            AdapterError: if it is not overridden.

        """
        raise AdapterError(f"{type(self).__qualname__} does not read text; override its from_text")

    def fingerprint(self, x: ModT | FuncT) -> str:
        """Return a text that is equal for equal contents."""
        unknown: list[object] = []
        result = fingerprint_value(x, unknown)
        if not unknown:
            return result
        # An object in it is known by its identity only.
        return hashlib.blake2b(self.to_text(x).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def exact_fingerprint(self, x: ModT | FuncT) -> str:
        """Return a text that also depends on the text, and so on the order of names."""
        return fingerprint_value((self.fingerprint(x), self.to_text(x)))

    def equal(self, a: ModT | FuncT, b: ModT | FuncT) -> bool:
        """Return whether the fingerprints are equal."""
        return a is b or self.fingerprint(a) == self.fingerprint(b)

    def verify(self, mod: ModT) -> None:
        """Check that names are different strings, and that no function is None.

        Raises:
            VerifyError: if a name or a function is invalid.

        """
        seen: set[str] = set()
        for name, func in self.functions(mod):
            if not isinstance(name, str):
                raise VerifyError(f"a function has the name {name!r}; names must be strings")
            if name in seen:
                raise VerifyError(f"two functions have the name {name!r}")
            if func is None:
                raise VerifyError(f"function {name!r} is None")
            seen.add(name)

    def dumps(self, mod: ModT) -> bytes:
        """Return the module as bytes for another process or a file.

        Raises:
            AdapterError: if the module contains values that the format does not support.

        """
        if self.reads_text():
            return self.to_text(mod).encode()
        try:
            return self._with_node_types(lambda types: write_tagged(mod, types)).encode()
        except TypeError as error:
            raise AdapterError(
                f"this module cannot be written: {error}; add its dataclass to node_types of "
                f"{type(self).__qualname__}, or override dumps and loads, or from_text"
            ) from error

    def reads_text(self) -> bool:
        """Return whether modules are stored as text: the class defines `from_text`."""
        kind: Any = type(self)
        return kind.from_text is not cast("Any", BaseAdapter).from_text

    def loads(self, data: bytes) -> ModT:
        """Return the module from which `dumps` created `data`.

        Raises:
            AdapterError: if the data is damaged, or names a class that is not among the node types.

        """
        try:
            if self.reads_text():
                return self.from_text(data.decode())
            return cast("ModT", self._with_node_types(lambda types: read_tagged(data, types)))
        except ValueError as error:
            raise AdapterError(f"the bytes of a module cannot be read: {error}") from error

    def isolate(self, mod: ModT, names: Iterable[str]) -> ModT:
        """Return a deep copy of the module."""
        return copy.deepcopy(mod)

    def extract(self, sub: ModT, names: Iterable[str]) -> Mapping[str, FuncT]:
        """Return the named functions of a module."""
        functions = dict(self.functions(sub))
        return {name: functions[name] for name in names}

    def text_parts(self, mod: ModT, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
        """Return the text outside of functions, and that of each named function."""
        functions = dict(self.functions(mod))
        parts = {name: self.to_text(functions[name]) for name in names}
        outside = self.to_text(mod)
        for text in parts.values():
            outside = outside.replace(text, "", 1)
        return outside, parts

    def remove(self, mod: ModT, names: Iterable[str]) -> ModT:
        """Return a module without the named functions, for `shrinkings`.

        Raises:
            AdapterError: if it is not overridden.

        """
        raise AdapterError(
            f"{type(self).__qualname__} does not remove functions, so modules cannot be reduced; override its remove"
        )

    def shrinkings(self, mod: ModT) -> Iterator[Shrinking[ModT]]:
        """Iterate over the parts that can be removed: the functions.

        Raises:
            AdapterError: if `remove` is not overridden.

        """
        names = [name for name, _ in self.functions(mod)]
        self.remove(mod, [])
        yield Shrinking("functions", len(names), lambda removed: self.remove(mod, [names[i] for i in sorted(removed)]))

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for another process, without cached node types."""
        return {key: value for key, value in vars(self).items() if key != "_known_types"}

    def _with_node_types(self, work: Callable[[frozenset[type]], R]) -> R:
        """Call `work` with the dataclasses and enums that the bytes of a module may name."""
        known: frozenset[type] | None = vars(self).get("_known_types")
        if known is not None:
            try:
                return work(known)
            except (TypeError, ValueError):
                # A subclass may have been defined since.
                if known == self._node_types():
                    raise
        types = self._node_types()
        vars(self)["_known_types"] = types
        return work(types)

    def _node_types(self) -> frozenset[type]:
        arguments = [
            argument
            for base in type(self).__mro__
            for generic in vars(base).get("__orig_bases__", ())
            for argument in get_args(generic)
        ]
        return reachable_types([*arguments, *self.node_types])


def mark_of(func: object, name: str) -> object:
    """Return a mark of a function, or None.

    It is an entry of the function if that is a mapping, an entry of its mapping `attrs`, or an attribute.
    """
    entries = _as_mapping(func)
    attrs = _as_mapping(getattr(func, "attrs", None) if entries is None else entries.get("attrs"))
    for marks in (entries, attrs):
        if marks is not None and name in marks:
            return marks[name]
    return getattr(func, name, None) if entries is None else None


def _as_mapping(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None
