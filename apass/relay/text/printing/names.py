"""Unique names of variables, and the text of types."""

from collections.abc import Iterable
from string import ascii_letters
from typing import Final

from apass.relay.ir.ty import (
    FuncType,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from apass.relay.text.literals import name_text
from apass.relay.text.metadata import MetadataWriter
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["Names", "TypeText"]

_LETTERS: Final = frozenset(ascii_letters)


class Names:
    """Generator of unique names with TVM's suffixes: `x`, `x1`, `x2`."""

    def __init__(self) -> None:
        self._suffixes: dict[str, int] = {}  # the last suffix of each used name

    def unique(self, hint: str) -> str:
        """Return `hint`, with a number appended if the name was used before."""
        suffixes = self._suffixes
        name = hint
        while name in suffixes:
            suffixes[hint] += 1
            name = f"{hint}{suffixes[hint]}"
        suffixes[name] = 0
        return name

    def of_variable(self, hint: str) -> str:
        """Return a unique name with `%` for a variable. It starts with a letter."""
        return f"%{name_text(self.unique(hint if hint[:1] in _LETTERS else f'v{hint}'))}"


class TypeText:
    """Printer of types. The text of each type object is cached."""

    def __init__(self, meta: MetadataWriter) -> None:
        self._meta = meta
        self._tensors: dict[TensorType, str] = {}
        self._others: dict[int, tuple[Type, str]] = {}
        self._names: dict[TypeVar, str] = {}
        self._in_scope: dict[str, TypeVar] = {}

    def bind(self, params: Iterable[TypeVar]) -> list[str]:
        """Return names of type parameters, unique in scope. `release` closes the scope."""
        return [self._bind(param) for param in params]

    def release(self, params: Iterable[TypeVar]) -> None:
        """Close the scope of type parameters."""
        for param in params:
            self._in_scope.pop(self._names[param], None)

    def _bind(self, param: TypeVar) -> str:
        number, name = 0, self._names.get(param, param.name_hint)
        while self._in_scope.get(name, param) is not param:
            number += 1
            name = f"{param.name_hint}{number}"
        if self._names.get(param, name) != name:
            self._others.clear()  # cached texts may contain the previous name of the variable
        self._names[param] = name
        self._in_scope[name] = param
        return name

    def __call__(self, ty: Type) -> str:
        """Return the text of a type."""
        if isinstance(ty, TensorType):
            if ty not in self._tensors:
                self._tensors[ty] = self._tensor(ty)
            return self._tensors[ty]
        if id(ty) in self._others:
            return self._others[id(ty)][1]
        return walk_deep(self._walk(ty))

    def _walk(self, ty: Type) -> Walk[str]:
        """Return the text of a type. A walk, because types may be nested to any depth."""
        if isinstance(ty, TensorType):
            return self(ty)
        if id(ty) not in self._others:
            self._others[id(ty)] = (ty, (yield self._other(ty)))  # the entry keeps the type alive, so its id is unique
        return self._others[id(ty)][1]

    def _tensor(self, ty: TensorType) -> str:
        if not any(isinstance(dim, ShapeVar) for dim in ty.shape):
            return str(ty)
        dims = [self._meta.reference(dim) if isinstance(dim, ShapeVar) else str(dim) for dim in ty.shape]
        return f"Tensor[({', '.join(dims)}), {ty.dtype}]"

    def _other(self, ty: Type) -> Walk[str]:
        if isinstance(ty, TypeVar):
            return self._names.get(ty, ty.name_hint)
        if isinstance(ty, TupleType):
            return f"({(yield self._joined(ty.fields))}{',' if len(ty.fields) == 1 else ''})"
        if isinstance(ty, RefType):
            return f"ref({(yield self._walk(ty.value))})"
        if isinstance(ty, TypeCall):
            return f"{(yield self._walk(ty.func))}[{(yield self._joined(ty.args))}]"
        if isinstance(ty, FuncType):
            return (yield self._function(ty))
        if isinstance(ty, TypeRelation):
            return f"{ty.func}({(yield self._joined(ty.args))})"
        return "_" if isinstance(ty, IncompleteType) else str(ty)

    def _function(self, ty: FuncType) -> Walk[str]:
        params = f"[{', '.join(self.bind(ty.type_params))}]" if ty.type_params else ""
        text = f"fn {params}({(yield self._joined(ty.arg_types))}) -> {(yield self._walk(ty.ret_type))}"
        self.release(ty.type_params)
        return text

    def _joined(self, types: Iterable[Type]) -> Walk[str]:
        texts: list[str] = []
        for ty in types:
            texts += [(yield self._walk(ty))]
        return ", ".join(texts)
