"""`TypeUnifier`: unification of types with unknown types."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Final, TypeAlias

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.ty import (
    Any,
    Dim,
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
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["TypeUnifier", "parts_of", "type_text", "with_parts"]

_Unified: TypeAlias = tuple[Type, bool, bool]
"""The unified type, whether it is more general than the left type, and than the right type."""


class TypeUnifier:
    """Union-find of IncompleteTypes, with the known type of each equivalence class.

    Types may be nested deeply and share parts. Each object is processed once, without recursion.
    """

    def __init__(self) -> None:
        self._parents: dict[IncompleteType, Type] = {}  # the parent in the union-find forest, or the known type
        self._dims: dict[ShapeVar, int] = {}
        self._failed: set[IncompleteType] = set()
        # Keyed by id, because hashing a type visits all of it. The entry keeps the type alive, so its id is unique.
        self._complete: dict[int, tuple[Type, bool]] = {}
        self._settled: dict[int, tuple[Type, Type]] = {}
        # Pairs of types that the current call of `unify` has unified, by their ids, and the results.
        self._pairs: dict[tuple[int, int], tuple[Type, Type, _Unified]] = {}

    def find(self, ty: Type) -> Type:
        """Return the known type of an IncompleteType, or `ty`. Parts are not replaced."""
        if not isinstance(ty, IncompleteType) or ty not in self._parents:
            return ty
        root, known_type = self._root(ty)
        return root if known_type is None else known_type

    def root(self, ty: IncompleteType) -> IncompleteType:
        """Return the representative of the equivalence class of an unknown type."""
        return self._root(ty)[0]

    def fail(self, ty: Type) -> None:
        """Mark an unknown type as failed: it unifies with every type, without new errors."""
        root = self.find(ty)
        if isinstance(root, IncompleteType):
            self._failed.add(root)

    @property
    def any_failed(self) -> bool:
        """Whether `fail` was called."""
        return bool(self._failed)

    def has_failed(self, ty: Type) -> bool:
        """Return whether the type is marked as failed."""
        return bool(self._failed) and self.find(ty) in self._failed

    def unify(self, lhs: Type, rhs: Type) -> Type:
        """Make two types equal and return the unified type.

        A dimension that is `Any()` in either type is `Any()` in the result.

        Raises:
            TypeInferenceError: if the types do not match. The message states the difference.

        """
        # Fast paths for the most frequent cases.
        if type(lhs) is TensorType and type(rhs) is TensorType:
            return lhs if lhs is rhs else self._unify_tensors(lhs, rhs)
        if type(rhs) is TensorType and isinstance(lhs, IncompleteType) and lhs not in self._parents:
            return self._bind(lhs, rhs)
        self._pairs.clear()
        return walk_deep(self._unify(lhs, rhs))[0]

    def is_complete(self, ty: Type) -> bool:
        """Return whether a type contains no IncompleteType."""
        kind = type(ty)
        if kind is TensorType or kind is TypeVar:
            return True
        return kind is not IncompleteType and self._all_complete(ty)

    def resolve(self, ty: Type) -> Type:
        """Return a type with each IncompleteType replaced by its known type."""
        known_type = self.find(ty)
        if self.is_complete(known_type) or isinstance(known_type, IncompleteType):
            return known_type
        return (
            self._settled[id(known_type)][1]
            if id(known_type) in self._settled
            else walk_deep(self._rebuild(known_type, {}, {}))
        )

    def unknowns(self, ty: Type) -> list[IncompleteType]:
        """Return the unknown types in a type, each once."""
        resolved = self.resolve(ty)
        if isinstance(resolved, IncompleteType):
            return [resolved]
        unknowns: dict[IncompleteType, None] = {}
        stack, seen = [resolved], set[int]()
        while stack:
            part = stack.pop()
            if isinstance(part, IncompleteType):
                unknowns[part] = None
            elif not self.is_complete(part) and id(part) not in seen:
                seen.add(id(part))
                stack += reversed(parts_of(part))
        return list(unknowns)

    def changed(self, ty: IncompleteType, became: Type) -> None:
        """Handle a change of an unknown type to another type or to a more general one.

        Subclasses override this hook.
        """

    def _root(self, ty: IncompleteType) -> tuple[IncompleteType, Type | None]:
        """Return the representative of the class and its known type."""
        parents = self._parents
        path: list[IncompleteType] = []
        known_type: Type | None = parents.get(ty)
        while isinstance(known_type, IncompleteType):
            path.append(ty)
            ty, known_type = known_type, parents.get(known_type)
        for node in path:
            parents[node] = ty
        return ty, known_type

    def _bind(self, var: IncompleteType, ty: Type) -> Type:
        """Set the type of an unknown type. If it has failed, another unknown type fails."""
        if var in self._failed:
            if not isinstance(ty, IncompleteType):
                return ty
            self._failed.add(ty)
        if not isinstance(ty, IncompleteType | TensorType) and var in self.unknowns(ty):
            raise TypeInferenceError(
                f"a type cannot contain itself: `{var}` is part of `{type_text(self.resolve(ty))}`"
            )
        self._parents[var] = ty
        self.changed(var, ty)
        return ty

    def _unify(self, left: Type, right: Type) -> Walk[_Unified]:
        lhs, rhs = self.find(left), self.find(right)
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
            key = (id(lhs), id(rhs))
            if key not in self._pairs:
                self._pairs[key] = (lhs, rhs, (yield self._unify_parts(lhs, rhs)))
            result = self._pairs[key][2]
        unified, more_than_lhs, more_than_rhs = result
        if more_than_lhs and isinstance(left, IncompleteType):
            more_than_lhs = self._generalize(left, unified)
        if more_than_rhs and isinstance(right, IncompleteType):
            more_than_rhs = self._generalize(right, unified)
        return unified, more_than_lhs, more_than_rhs

    def _generalize(self, unknown: IncompleteType, unified: Type) -> bool:
        """Set the known type of an unknown type to a more general type.

        Return False: a type that contains the unknown type is now as general as `unified`, and needs no change.
        """
        root, _ = self._root(unknown)
        self._parents[root] = unified
        self._settled.clear()
        self.changed(root, unified)
        return False

    def _unify_parts(self, lhs: Type, rhs: Type) -> Walk[_Unified]:
        """Unify two types of the same class, part by part."""
        if isinstance(lhs, FuncType) and isinstance(rhs, FuncType):
            lhs, rhs = self._same_params(lhs, rhs)
        if not _same_head(lhs, rhs):
            raise TypeInferenceError(
                f"`{type_text(self.resolve(lhs))}` does not match `{type_text(self.resolve(rhs))}`"
            )
        unified: list[_Unified] = []
        for left, right in zip(parts_of(lhs), parts_of(rhs), strict=True):
            unified.append((yield self._unify(left, right)))
        if not any(more_than_lhs for _, more_than_lhs, _ in unified):
            return lhs, False, any(more_than_rhs for *_, more_than_rhs in unified)
        if not any(more_than_rhs for *_, more_than_rhs in unified):
            return rhs, True, False
        return with_parts(lhs, [part for part, *_ in unified]), True, True

    def _same_params(self, lhs: FuncType, rhs: FuncType) -> tuple[FuncType, FuncType]:
        """Return the types with common type parameters. Extra ones become unknown types."""
        if not lhs.type_params and not rhs.type_params:
            return lhs, rhs
        more, less = (lhs, rhs) if len(lhs.type_params) >= len(rhs.type_params) else (rhs, lhs)
        common = len(less.type_params)
        chosen: dict[TypeVar, Type] = dict(zip(more.type_params[:common], less.type_params, strict=True))
        chosen |= {param: IncompleteType(param.kind) for param in more.type_params[common:]}
        parts = [self.substitute(part, chosen) for part in parts_of(more)]
        renamed = with_parts(FuncType(more.arg_types, more.ret_type, less.type_params, more.type_constraints), parts)
        assert isinstance(renamed, FuncType), "`with_parts` preserves the class of a type"
        return (renamed, less) if more is lhs else (less, renamed)

    def substitute(self, ty: Type, chosen: Mapping[TypeVar, Type]) -> Type:
        """Return a type with type variables replaced by the types in `chosen`."""
        if not chosen or type(ty) is TensorType:
            return ty
        if isinstance(ty, TypeVar):
            return chosen.get(ty, ty)
        return walk_deep(self._rebuild(ty, chosen, {}))

    def _rebuild(self, unresolved: Type, chosen: Mapping[TypeVar, Type], done: dict[int, Type]) -> Walk[Type]:
        """Return a type with known types and the types in `chosen` substituted."""
        ty = self.find(unresolved)
        if isinstance(ty, TypeVar):
            return chosen.get(ty, ty)
        parts = parts_of(ty)
        if not parts or id(ty) in done or (not chosen and self.is_complete(ty)):
            return done.get(id(ty), ty)
        if not chosen and id(ty) in self._settled:
            return self._settled[id(ty)][1]
        new_parts: list[Type] = []
        for part in parts:
            new = yield self._rebuild(part, chosen, done)
            new_parts.append(new)
        result = ty if all(map(is_, new_parts, parts)) else with_parts(ty, new_parts)
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
        shape = [self._unify_dims(left, right) for left, right in zip(lhs.shape, rhs.shape, strict=True)]
        if None in shape:
            conflicts = ", ".join(_conflicts(lhs.shape, rhs.shape, shape))
            raise TypeInferenceError(f"`{lhs}` does not match `{rhs}`: {conflicts}")
        unified = TensorType((dim for dim in shape if dim is not None), lhs.dtype)
        return rhs if unified == rhs else unified

    def _unify_dims(self, lhs: Dim, rhs: Dim) -> Dim | None:
        lhs, rhs = self._known_dim(lhs), self._known_dim(rhs)
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

    def _known_dim(self, dim: Dim) -> Dim:
        """Return a dimension with the numbers that variables were unified with."""
        if isinstance(dim, DimExpr) and self._dims:
            return dim.replaced(self._dims)
        return self._dims.get(dim, dim) if isinstance(dim, ShapeVar) else dim

    def _all_complete(self, ty: Type) -> bool:
        """Compute `is_complete` for a type and all its parts, in post-order."""
        results = self._complete
        stack = [ty]
        while stack:
            node = stack[-1]
            pending = [part for part in parts_of(node) if id(part) not in results]
            if id(node) not in results and pending:
                stack += pending
                continue
            stack.pop()
            complete = not isinstance(node, IncompleteType) and all(results[id(part)][1] for part in parts_of(node))
            results[id(node)] = (node, complete)
        return results[id(ty)][1]


_MAX_TEXT_NODES: Final = 100
"""Nodes in a type whose text is shown in messages."""
_NO_PARTS: Final[tuple[Type, ...]] = ()


def parts_of(ty: Type) -> Sequence[Type]:
    """Return the direct components of a type, without type parameters."""
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
    """Return Relay's text of a type, or only its class if it is too large."""
    stack, count = [ty], 0
    while stack and count < _MAX_TEXT_NODES:
        count += 1
        stack += parts_of(stack.pop())
    return f"<a large {type(ty).__name__}>" if stack else str(ty)


def with_parts(ty: Type, parts: Iterable[Type]) -> Type:
    """Return a type of the same class with other parts, as many as `parts_of` returns."""
    new_parts = list(parts)
    if isinstance(ty, TupleType):
        return TupleType(new_parts)
    if isinstance(ty, FuncType):
        count = len(ty.arg_types)
        constraints = [part for part in new_parts[count + 1 :] if isinstance(part, TypeRelation)]
        return FuncType(new_parts[:count], new_parts[count], ty.type_params, constraints)
    if isinstance(ty, RefType):
        return RefType(new_parts[0])
    if isinstance(ty, TypeCall):
        return TypeCall(ty.func, new_parts)
    return TypeRelation(ty.func, new_parts, ty.num_inputs, ty.attrs) if isinstance(ty, TypeRelation) else ty


def _same_head(lhs: Type, rhs: Type) -> bool:
    """Return whether two types are equal if their parts are equal."""
    if isinstance(lhs, TupleType) and isinstance(rhs, TupleType):
        return len(lhs.fields) == len(rhs.fields)
    if isinstance(lhs, FuncType) and isinstance(rhs, FuncType):
        counts = [(len(func.arg_types), len(func.type_constraints)) for func in (lhs, rhs)]
        return counts[0] == counts[1]
    if isinstance(lhs, TypeCall) and isinstance(rhs, TypeCall):
        return lhs.func == rhs.func and len(lhs.args) == len(rhs.args)
    if isinstance(lhs, TypeRelation) and isinstance(rhs, TypeRelation):
        return lhs.func == rhs.func and len(lhs.args) == len(rhs.args)
    if isinstance(lhs, RefType) and isinstance(rhs, RefType):
        return True
    return not parts_of(lhs) and not parts_of(rhs) and lhs == rhs


def _conflicts(lhs: Sequence[Dim], rhs: Sequence[Dim], shape: Sequence[Dim | None]) -> Iterator[str]:
    for axis, (left, right, dim) in enumerate(zip(lhs, rhs, shape, strict=True)):
        if dim is None:
            yield f"dimension {axis} conflicts: {left} does not match {right}"
