"""Unique names of variables, and the text of types."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import Final

from apass.relay.errors import TextLimitError
from apass.relay.ir.ty import (
    DimExpr,
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

__all__ = ["Names", "TypeText"]

_LETTERS: Final = frozenset(ascii_letters)

_MOST_CHARACTERS: Final = 2_000_000
"""Maximum length of the text of a type that the parser must be able to read."""
_MOST_CHARACTERS_CUT: Final = 100_000
"""Length of a type after which its text for people is cut."""
_MOST_CHARACTERS_IN_COMMENT: Final = 10_000
"""Length of a type after which its text in a comment is cut. Each call has such a comment."""


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
    """Printer of types. The text of each type object is cached.

    `may_cut` is whether the text of a very long type is cut, so that the parser rejects it.
    """

    def __init__(self, meta: MetadataWriter, may_cut: bool) -> None:
        self._meta = meta
        self._may_cut = may_cut
        self._comments: dict[int, tuple[Type, str]] = {}
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
            self._comments.clear()
            self._others.clear()  # cached texts may contain the previous name of the variable
        self._names[param] = name
        self._in_scope[name] = param
        return name

    def __call__(self, ty: Type) -> str:
        """Return the text of a type in an annotation.

        Raises:
            TextLimitError: if the text is too long, and it must not be cut.

        """
        if isinstance(ty, TensorType):
            return self._tensor(ty)
        if id(ty) not in self._others:
            text, is_whole = self._limited(ty, _MOST_CHARACTERS_CUT if self._may_cut else _MOST_CHARACTERS)
            if not is_whole and not self._may_cut:
                raise TextLimitError(
                    f"the text of a type has more than {_MOST_CHARACTERS} characters: {text:.100}...; "
                    "call `astext(show_meta_data=False)`, which cuts such a text"
                )
            self._others[id(ty)] = (ty, text)  # the entry keeps the type alive, so its id is unique
        return self._others[id(ty)][1]

    def in_comment(self, ty: Type) -> str:
        """Return the text of a type in a comment, cut if it is long."""
        if isinstance(ty, TensorType):
            return self._tensor(ty)
        if id(ty) not in self._comments:
            self._comments[id(ty)] = (ty, self._limited(ty, _MOST_CHARACTERS_IN_COMMENT)[0])
        return self._comments[id(ty)][1]

    def _limited(self, root: Type, limit: int) -> tuple[str, bool]:
        """Return the text of a type and whether it is whole.

        It is cut after `limit` characters.
        """
        # A type that shares parts can have a text of exponential length, so the text is created piece by piece.
        pieces: list[str] = []
        stack: list[str | Type | _Release] = [root]
        length = 0
        while stack:
            item = stack.pop()
            if isinstance(item, _Release):
                self.release(item.params)
            elif isinstance(item, str):
                pieces.append(item)
                length += len(item)
                if length > limit:
                    for rest in stack:
                        self.release(rest.params if isinstance(rest, _Release) else ())
                    return f"{''.join(pieces)[:limit]}...", False
            else:
                stack += reversed(self._pieces(item))
        return "".join(pieces), True

    def _tensor(self, ty: TensorType) -> str:
        if ty not in self._tensors:
            self._tensors[ty] = self._tensor_text(ty)
        return self._tensors[ty]

    def _tensor_text(self, ty: TensorType) -> str:
        if not any(isinstance(dim, ShapeVar | DimExpr) for dim in ty.shape):
            return str(ty)
        dims = [self._meta.reference(dim) if isinstance(dim, ShapeVar | DimExpr) else str(dim) for dim in ty.shape]
        return f"Tensor[({', '.join(dims)}), {ty.dtype}]"

    def _pieces(self, ty: Type) -> "Sequence[str | Type | _Release]":
        """Return the text of a type as strings and component types, in order."""
        if isinstance(ty, TensorType):
            return (self._tensor(ty),)
        if isinstance(ty, TypeVar):
            return (self._names.get(ty, ty.name_hint),)
        if isinstance(ty, TupleType):
            return ("(", *_separated(ty.fields), ",)" if len(ty.fields) == 1 else ")")
        if isinstance(ty, RefType):
            return ("ref(", ty.value, ")")
        if isinstance(ty, TypeCall):
            return (ty.func, "[", *_separated(ty.args), "]")
        if isinstance(ty, FuncType):
            params = f"[{', '.join(self.bind(ty.type_params))}]" if ty.type_params else ""
            return (f"fn {params}(", *_separated(ty.arg_types), ") -> ", ty.ret_type, _Release(ty.type_params))
        if isinstance(ty, TypeRelation):
            return (f"{ty.func}(", *_separated(ty.args), ")")
        return ("_" if isinstance(ty, IncompleteType) else str(ty),)


@dataclass(frozen=True, slots=True)
class _Release:
    """The end of the scope of type parameters, among the pieces of a text."""

    params: tuple[TypeVar, ...]


def _separated(types: Iterable[Type]) -> Iterator[str | Type]:
    for index, ty in enumerate(types):
        if index:
            yield ", "
        yield ty
