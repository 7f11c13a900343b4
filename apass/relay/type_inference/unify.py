"""`TypeUnifier`: what the types that are not known yet stand for, found by making types equal; for type inference."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Final, TypeAlias

from apass.relay.errors import TypeInferenceError
from apass.relay.ty import (
    Any,
    Dim,
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
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["TypeUnifier", "parts_of", "type_text", "with_parts"]

_Unified: TypeAlias = tuple[Type, bool, bool]
"""What two types are when they are equal, and whether that is more general than each of the two."""


class TypeUnifier:
    """What each IncompleteType stands for: union-find, with the type that is known of each class.

    Types may share parts and be nested deeply: no work is done twice on the same object, and nothing recurses.
    """

    def __init__(self) -> None:
        self._stands_for: dict[IncompleteType, Type] = {}
        self._dims: dict[ShapeVar, int] = {}
        self._failed: set[IncompleteType] = set()
        # By identity, as hashing a type goes through all of it; the type is kept so that its id stays its own.
        self._complete: dict[int, tuple[Type, bool]] = {}
        self._settled: dict[int, tuple[Type, Type]] = {}

    def find(self, ty: Type) -> Type:
        """Return what a type stands for as far as is known: itself unless it is incomplete; its parts are let be."""
        if not isinstance(ty, IncompleteType) or ty not in self._stands_for:
            return ty
        root, known = self._root(ty)
        return root if known is None else known

    def root(self, ty: IncompleteType) -> IncompleteType:
        """Return the one that stands for all that are equal to an unknown type, whether or not it is known by now."""
        return self._root(ty)[0]

    def fail(self, ty: Type) -> None:
        """Let an unknown type be one whose error has been told already: it fits everything, and nobody asks for it."""
        found = self.find(ty)
        if isinstance(found, IncompleteType):
            self._failed.add(found)

    @property
    def any_failed(self) -> bool:
        """Whether `fail` was called."""
        return bool(self._failed)

    def has_failed(self, ty: Type) -> bool:
        """Tell whether `fail` was called for what the type stands for."""
        return bool(self._failed) and self.find(ty) in self._failed

    def unify(self, lhs: Type, rhs: Type) -> Type:
        """Make two types equal and return what they are then; a dimension that is known in one alone becomes `Any()`.

        Raises:
            TypeInferenceError: if they cannot be equal; the message says in what they differ.

        """
        if type(lhs) is TensorType and type(rhs) is TensorType:
            return lhs if lhs is rhs else self._unify_tensors(lhs, rhs)
        if type(rhs) is TensorType and isinstance(lhs, IncompleteType) and lhs not in self._stands_for:
            return self._bind(lhs, rhs)
        return walk_deep(self._unify(lhs, rhs))[0]

    def is_complete(self, ty: Type) -> bool:
        """Tell whether there is no IncompleteType in a type."""
        kind = type(ty)
        if kind is TensorType or kind is TypeVar:
            return True
        return kind is not IncompleteType and self._all_complete(ty)

    def resolve(self, ty: Type) -> Type:
        """Return a type with what is known in the place of each IncompleteType."""
        found = self.find(ty)
        if self.is_complete(found) or isinstance(found, IncompleteType):
            return found
        return self._settled[id(found)][1] if id(found) in self._settled else walk_deep(self._rebuild(found, {}, {}))

    def unknowns(self, ty: Type) -> list[IncompleteType]:
        """Return the types on which it depends what a type is, each once."""
        resolved = self.resolve(ty)
        if isinstance(resolved, IncompleteType):
            return [resolved]
        found: dict[IncompleteType, None] = {}
        stack, seen = [resolved], set[int]()
        while stack:
            one = stack.pop()
            if isinstance(one, IncompleteType):
                found[one] = None
            elif not self.is_complete(one) and id(one) not in seen:
                seen.add(id(one))
                stack += reversed(parts_of(one))
        return list(found)

    def changed(self, ty: IncompleteType, became: Type) -> None:
        """Be told that an unknown type became something, another unknown type perhaps, or something more general."""

    def _root(self, ty: IncompleteType) -> tuple[IncompleteType, Type | None]:
        """Return the representative of the class and the type that is known of it."""
        stands_for = self._stands_for
        path: list[IncompleteType] = []
        known: Type | None = stands_for.get(ty)
        while isinstance(known, IncompleteType):
            path.append(ty)
            ty, known = known, stands_for.get(known)
        for one in path:
            stands_for[one] = ty
        return ty, known

    def _bind(self, var: IncompleteType, ty: Type) -> Type:
        """Let an unknown type stand for another type; an unknown one takes over what has failed."""
        if var in self._failed:
            if not isinstance(ty, IncompleteType):
                return ty
            self._failed.add(ty)
        if not isinstance(ty, IncompleteType | TensorType) and var in self.unknowns(ty):
            raise TypeInferenceError(f"a type cannot contain itself: `{var}` is within `{type_text(self.resolve(ty))}`")
        self._stands_for[var] = ty
        self.changed(var, ty)
        return ty

    def _unify(self, given: Type, other: Type) -> Walk[_Unified]:
        lhs, rhs = self.find(given), self.find(other)
        if lhs is rhs:
            return lhs, False, False
        if isinstance(lhs, IncompleteType):
            return self._bind(lhs, rhs), False, False
        if isinstance(rhs, IncompleteType):
            return self._bind(rhs, lhs), False, False
        if isinstance(lhs, TensorType) and isinstance(rhs, TensorType):
            tensor = self._unify_tensors(lhs, rhs)
            result: _Unified = (tensor, tensor != lhs, tensor != rhs)
        else:
            result = yield self._unify_parts(lhs, rhs)
        unified, more_than_lhs, more_than_rhs = result
        if more_than_lhs and isinstance(given, IncompleteType):
            more_than_lhs = self._generalize(given, unified)
        if more_than_rhs and isinstance(other, IncompleteType):
            more_than_rhs = self._generalize(other, unified)
        return unified, more_than_lhs, more_than_rhs

    def _generalize(self, one: IncompleteType, unified: Type) -> bool:
        """Let an unknown type stand for what its type has become; False: what holds it is as general as it must be."""
        root, _ = self._root(one)
        self._stands_for[root] = unified
        self._settled.clear()
        self.changed(root, unified)
        return False

    def _unify_parts(self, lhs: Type, rhs: Type) -> Walk[_Unified]:
        """Unify two types of the same kind, part by part."""
        if isinstance(lhs, FuncType) and isinstance(rhs, FuncType):
            lhs, rhs = self._same_params(lhs, rhs)
        if not _fit(lhs, rhs):
            raise TypeInferenceError(
                f"`{type_text(self.resolve(lhs))}` does not match `{type_text(self.resolve(rhs))}`"
            )
        made: list[_Unified] = []
        for part, one in zip(parts_of(lhs), parts_of(rhs), strict=True):
            made.append((yield self._unify(part, one)))
        if not any(more_than_lhs for _, more_than_lhs, _ in made):
            return lhs, False, any(more_than_rhs for *_, more_than_rhs in made)
        if not any(more_than_rhs for *_, more_than_rhs in made):
            return rhs, True, False
        return with_parts(lhs, [part for part, *_ in made]), True, True

    def _same_params(self, lhs: FuncType, rhs: FuncType) -> tuple[FuncType, FuncType]:
        """Return the types with the same type parameters; those that only one has become unknown types."""
        if not lhs.type_params and not rhs.type_params:
            return lhs, rhs
        more, less = (lhs, rhs) if len(lhs.type_params) >= len(rhs.type_params) else (rhs, lhs)
        kept = len(less.type_params)
        chosen: dict[TypeVar, Type] = dict(zip(more.type_params[:kept], less.type_params, strict=True))
        chosen |= {param: IncompleteType(param.kind) for param in more.type_params[kept:]}
        parts = [self.substitute(one, chosen) for one in parts_of(more)]
        renamed = with_parts(FuncType(more.arg_types, more.ret_type, less.type_params, more.type_constraints), parts)
        assert isinstance(renamed, FuncType), "a type keeps its kind when its parts change"
        return (renamed, less) if more is lhs else (less, renamed)

    def substitute(self, ty: Type, chosen: Mapping[TypeVar, Type]) -> Type:
        """Return a type with types in the places of type variables."""
        if not chosen or type(ty) is TensorType:
            return ty
        if isinstance(ty, TypeVar):
            return chosen.get(ty, ty)
        return walk_deep(self._rebuild(ty, chosen, {}))

    def _rebuild(self, given: Type, chosen: Mapping[TypeVar, Type], done: dict[int, Type]) -> Walk[Type]:
        """Return a type with what is known of it, and what is chosen for its variables, in place."""
        ty = self.find(given)
        if isinstance(ty, TypeVar):
            return chosen.get(ty, ty)
        parts = parts_of(ty)
        if not parts or id(ty) in done or (not chosen and self.is_complete(ty)):
            return done.get(id(ty), ty)
        if not chosen and id(ty) in self._settled:
            return self._settled[id(ty)][1]
        made: list[Type] = []
        for one in parts:
            new = yield self._rebuild(one, chosen, done)
            made.append(new)
        result = ty if all(map(is_, made, parts)) else with_parts(ty, made)
        done[id(ty)] = result
        if not chosen and self.is_complete(result):
            self._settled[id(ty)] = (ty, result)
        return result

    def _unify_tensors(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        if lhs == rhs:
            return lhs
        if lhs.dtype != rhs.dtype:
            raise TypeInferenceError(f"`{lhs}` does not match `{rhs}`: the element types differ")
        if len(lhs.shape) != len(rhs.shape):
            ranks = f"`{lhs}` has {len(lhs.shape)} dimensions, while `{rhs}` has {len(rhs.shape)}"
            raise TypeInferenceError(f"`{lhs}` does not match `{rhs}`: {ranks}")
        shape = [self._unify_dims(one, other) for one, other in zip(lhs.shape, rhs.shape, strict=True)]
        if None in shape:
            conflicts = ", ".join(_conflicts(lhs.shape, rhs.shape, shape))
            raise TypeInferenceError(f"`{lhs}` does not match `{rhs}`: {conflicts}")
        unified = TensorType((dim for dim in shape if dim is not None), lhs.dtype)
        return rhs if unified == rhs else unified

    def _unify_dims(self, lhs: Dim, rhs: Dim) -> Dim | None:
        if isinstance(lhs, ShapeVar):
            lhs = self._dims.get(lhs, lhs)
        if isinstance(rhs, ShapeVar):
            rhs = self._dims.get(rhs, rhs)
        if lhs == rhs:
            return lhs
        if isinstance(lhs, Any) or isinstance(rhs, Any):
            return Any()
        if isinstance(lhs, ShapeVar) and isinstance(rhs, int):
            self._dims[lhs] = rhs
            return rhs
        if isinstance(rhs, ShapeVar) and isinstance(lhs, int):
            self._dims[rhs] = lhs
            return lhs
        return None

    def _all_complete(self, ty: Type) -> bool:
        """Find out of a type, and of all its parts, whether there is no IncompleteType in them."""
        known = self._complete
        stack = [ty]
        while stack:
            one = stack[-1]
            below = [part for part in parts_of(one) if id(part) not in known]
            if id(one) not in known and below:
                stack += below
                continue
            stack.pop()
            whole = not isinstance(one, IncompleteType) and all(known[id(part)][1] for part in parts_of(one))
            known[id(one)] = (one, whole)
        return known[id(ty)][1]


_SHOWN: Final = 100
_NO_PARTS: Final[tuple[Type, ...]] = ()


def parts_of(ty: Type) -> Sequence[Type]:
    """Return the types directly within a type; the type parameters of a function type are none of them."""
    if isinstance(ty, TensorType):
        return _NO_PARTS
    if isinstance(ty, TupleType):
        return ty.fields
    if isinstance(ty, FuncType):
        return (*ty.arg_types, ty.ret_type, *ty.type_constraints)
    if isinstance(ty, RefType):
        return (ty.value,)
    if isinstance(ty, TypeCall):
        return ty.args
    return ty.args if isinstance(ty, TypeRelation) else _NO_PARTS


def type_text(ty: Type) -> str:
    """Return Relay's text of a type; of one that is too large to be read, only what kind it is."""
    stack, count = [ty], 0
    while stack and count < _SHOWN:
        count += 1
        stack += parts_of(stack.pop())
    return f"<a large {type(ty).__name__}>" if stack else str(ty)


def with_parts(ty: Type, parts: Iterable[Type]) -> Type:
    """Return a type of the same kind with other parts, as many as `parts_of` gives."""
    made = list(parts)
    if isinstance(ty, TupleType):
        return TupleType(made)
    if isinstance(ty, FuncType):
        count = len(ty.arg_types)
        constraints = [one for one in made[count + 1 :] if isinstance(one, TypeRelation)]
        return FuncType(made[:count], made[count], ty.type_params, constraints)
    if isinstance(ty, RefType):
        return RefType(made[0])
    if isinstance(ty, TypeCall):
        return TypeCall(ty.func, made)
    return TypeRelation(ty.func, made, ty.num_inputs, ty.attrs) if isinstance(ty, TypeRelation) else ty


def _fit(lhs: Type, rhs: Type) -> bool:
    """Tell whether two types are equal if their parts are."""
    if isinstance(lhs, TupleType) and isinstance(rhs, TupleType):
        return len(lhs.fields) == len(rhs.fields)
    if isinstance(lhs, FuncType) and isinstance(rhs, FuncType):
        counts = [(len(one.arg_types), len(one.type_constraints)) for one in (lhs, rhs)]
        return counts[0] == counts[1]
    if isinstance(lhs, TypeCall) and isinstance(rhs, TypeCall):
        return lhs.func == rhs.func and len(lhs.args) == len(rhs.args)
    if isinstance(lhs, TypeRelation) and isinstance(rhs, TypeRelation):
        return lhs.func == rhs.func and len(lhs.args) == len(rhs.args)
    if isinstance(lhs, RefType) and isinstance(rhs, RefType):
        return True
    return not parts_of(lhs) and not parts_of(rhs) and lhs == rhs


def _conflicts(lhs: Sequence[Dim], rhs: Sequence[Dim], shape: Sequence[Dim | None]) -> Iterator[str]:
    for place, (one, other, dim) in enumerate(zip(lhs, rhs, shape, strict=True)):
        if dim is None:
            yield f"dimension {place} conflicts: {one} does not match {other}"
