"""Unique names of variables, and the text of types."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import Final

from apass.relay.errors import TextLimitError
from apass.relay.ir.ty import (
    Compound,
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
"""Maximum length of what repeated parts add to the text of a type that the parser must be able to read."""
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


@dataclass(frozen=True, slots=True)
class _Text:
    """The cached text of a type."""

    ty: Type  # keeps the type alive, so that its id is unique
    text: str
    is_whole: bool
    has_names: bool  # whether it has names of type variables, which depend on the scope


class TypeText:
    """Printer of types. The text of each type object is cached.

    `may_cut` is whether the text of a very long type is cut, so that the parser rejects it.
    """

    def __init__(self, meta: MetadataWriter, may_cut: bool) -> None:
        self._meta = meta
        self._may_cut = may_cut
        self._comments: dict[int, _Text] = {}
        self._tensors: dict[TensorType, str] = {}
        self._others: dict[int, _Text] = {}
        self._names: dict[TypeVar, str] = {}
        self._in_scope: dict[str, TypeVar] = {}
        # For each name hint: a number such that all smaller ones are in use. Without it, a search for the next unused
        # number would start at 1 for each of many type parameters of the same name.
        self._least: dict[str, int] = {}
        self._least_outside: list[int] = []  # the numbers before each type parameter in scope was bound

    def bind(self, params: Iterable[TypeVar]) -> list[str]:
        """Return names of type parameters, unique in scope. `release` closes the scope."""
        return [self._bind(param) for param in params]

    def release(self, params: Sequence[TypeVar]) -> None:
        """Close the scope of the type parameters that were bound last."""
        for param in reversed(params):
            self._in_scope.pop(self._names[param], None)
            self._least[param.name_hint] = self._least_outside.pop()

    def _bind(self, param: TypeVar) -> str:
        hint = param.name_hint
        name, least = self._names.get(param, hint), self._least.get(hint, 1)
        self._least_outside.append(least)
        while self._in_scope.get(name, param) is not param:
            name = f"{hint}{least}"
            least += 1
        self._least[hint] = least
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
        text = self._cached(ty, self._others, _MOST_CHARACTERS_CUT if self._may_cut else None)
        if not text.is_whole and not self._may_cut:
            raise TextLimitError(
                f"the text of a type has more than {_MOST_CHARACTERS} characters: {text.text:.100}...; "
                "call `astext(show_meta_data=False)`, which cuts such a text"
            )
        return text.text

    def in_comment(self, ty: Type) -> str:
        """Return the text of a type in a comment, cut if it is long."""
        if isinstance(ty, TensorType):
            return self._tensor(ty)
        return self._cached(ty, self._comments, _MOST_CHARACTERS_IN_COMMENT).text

    def _cached(self, ty: Type, cache: dict[int, _Text], limit: int | None) -> _Text:
        text = cache.get(id(ty))
        if text is None:
            text = cache[id(ty)] = self._text(ty, cache, limit)
        return text

    def _text(self, root: Type, cache: dict[int, _Text], limit: int | None) -> _Text:
        """Return the text of a type, cut after `limit` characters.

        Without `limit`, it is cut if repeated parts add too many characters. `cache` has texts for the same limit.
        """
        # A type that shares parts can have a text of exponential length, so the text is created piece by piece. The
        # texts of parts are reused, because each type in a long program may contain that of the expression before it.
        pieces: list[str] = []
        stack: list[tuple[str | Type | _Release, bool]] = [(root, limit is not None)]
        seen: set[int] = set()
        has_names, length, most = False, 0, _MOST_CHARACTERS if limit is None else limit
        while stack:
            item, counts = stack.pop()
            if isinstance(item, _Release):
                self.release(item.params)
                continue
            part = None if isinstance(item, str) else cache.get(id(item))
            if part is not None and not part.has_names:
                counts, item = counts or id(item) in seen, part.text if part.is_whole else part.text[:most]
                seen.add(id(part.ty))
            if isinstance(item, str):
                pieces.append(item)
                length += len(item) if counts else 0
                if length > most or not (part is None or part.is_whole):
                    self._release_all(stack)
                    return _Text(root, f"{''.join(pieces)[:most]}...", False, has_names)
                continue
            if isinstance(item, Compound):
                counts = counts or id(item) in seen
                seen.add(id(item))
            has_names = has_names or isinstance(item, TypeVar)
            stack += [(piece, counts) for piece in reversed(self._pieces(item))]
        return _Text(root, "".join(pieces), True, has_names)

    def _release_all(self, stack: "Sequence[tuple[str | Type | _Release, bool]]") -> None:
        """Close the scopes whose ends are on a stack."""
        for item, _ in reversed(stack):
            if isinstance(item, _Release):
                self.release(item.params)

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
