"""Relay types with TVM's names: immutable, compared by structure."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, SupportsIndex

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.base import Node
from apass.relay.ir.dim import Any, Dim, DimExpr, ShapeVar, SizeVar
from apass.relay.ir.immediates import IntImm, normal_dtype

__all__ = [
    "Any",
    "Compound",
    "Dim",
    "DimExpr",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "Kind",
    "RefType",
    "ShapeVar",
    "SizeVar",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeKind",
    "TypeRelation",
    "TypeVar",
    "is_dynamic",
    "scalar_type",
    "separated",
]

_MOST_CHARACTERS: Final = 1_000_000
"""Length of repeated parts after which the text of a type is cut."""


class Compound:
    """Base of types with component types.

    Two are equal if their heads and their parts are equal. Bound variables are compared by binding position, not by
    name. Equality, hash and text use an explicit stack, so nesting depth is not limited.

    A subclass must define `head`, `parts` and `pieces`.
    """

    # Not an ABC: `isinstance` takes several times as long with one.

    __slots__ = ()

    @property
    def head(self) -> tuple[Hashable, ...]:
        """The data of this node apart from its parts, with the number of parts."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """The direct components."""
        raise NotImplementedError

    @property
    def binds(self) -> tuple[Hashable, ...]:
        """The variables that this type binds."""
        return ()

    def pieces(self) -> Sequence[object]:
        """Return the text as strings and components, in order."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Compare by structure, up to renaming of bound variables."""
        if self is other:
            return True
        return _equal(self, other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        """Return a hash consistent with `==`."""
        return _hash(self)

    def __str__(self) -> str:
        """Return Relay's text, cut if repeated parts make it very long."""
        pieces: list[str] = []
        length = 0
        for piece, is_repeated in _texts(self):
            pieces.append(piece)
            length += len(piece) if is_repeated else 0
            if length > _MOST_CHARACTERS:  # a type that shares parts can have a text of exponential length
                pieces.append("...")
                break
        return "".join(pieces)

    def __repr__(self) -> str:
        """Return the kind and Relay's text."""
        return f"<relay.{type(self).__name__} {self}>"


def separated(parts: Iterable[object]) -> Iterator[object]:
    """Iterate over parts with commas between them."""
    for index, part in enumerate(parts):
        if index:
            yield ", "
        yield part


def _equal(lhs: object, rhs: object) -> bool:
    stack: list[tuple[object, object] | _End] = [(lhs, rhs)]
    scopes = _Scopes()
    seen = set[tuple[int, int, int]]()
    while stack:
        item = stack.pop()
        if isinstance(item, _End):
            scopes.leave(item)
            continue
        lhs, rhs = item
        if not isinstance(lhs, Compound) or not isinstance(rhs, Compound):
            if not scopes.are_equal(lhs, rhs):
                return False
            continue
        # Compare shared parts once per scope. A type that is exponentially large as a tree may be a small graph.
        key = (id(lhs), id(rhs), scopes.current)
        if key in seen or (lhs is rhs and not scopes.current):
            continue
        seen.add(key)
        if type(lhs) is not type(rhs) or lhs.head != rhs.head:
            return False
        if lhs.binds:
            stack.append(scopes.enter(lhs, rhs))
        stack += zip(lhs.parts, rhs.parts, strict=True)
    return True


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a scope.

    It has the outer scope, and the outer numbers of the variables that the scope binds.
    """

    outer: int
    left: dict[Hashable, int | None]
    right: dict[Hashable, int | None]


class _Scopes:
    """The numbers of the bound variables of two types that are compared."""

    def __init__(self) -> None:
        self.current = 0
        """The number of the current scope; 0 outside of all binders."""
        self._count = 0  # of all scopes so far
        self._bound = 0  # of all bound variables so far
        self._left: dict[Hashable, int | None] = {}
        self._right: dict[Hashable, int | None] = {}

    def enter(self, lhs: Compound, rhs: Compound) -> _End:
        """Bind the variables of two types and return the end of the scope.

        The heads of the types are equal.
        """
        end = _End(self.current, self._bind(self._left, lhs), self._bind(self._right, rhs))
        self._bound += len(lhs.binds)
        self._count += 1
        self.current = self._count
        return end

    def _bind(self, numbers: dict[Hashable, int | None], binder: Compound) -> dict[Hashable, int | None]:
        # Save and restore numbers instead of copying all of them for each of many nested binders.
        outer = {var: numbers.get(var) for var in binder.binds}
        numbers |= {var: self._bound + index for index, var in enumerate(binder.binds)}
        return outer

    def leave(self, end: _End) -> None:
        """Restore the outer scope."""
        self.current = end.outer
        self._left |= end.left
        self._right |= end.right

    def are_equal(self, lhs: object, rhs: object) -> bool:
        """Return whether two leaves are equal. Bound variables are, if their numbers are."""
        # Skip the lookup, which hashes both leaves, if no variable is bound; most types bind none.
        if self.current and isinstance(lhs, Hashable) and isinstance(rhs, Hashable):
            number, other = self._left.get(lhs), self._right.get(rhs)
            if number is not None or other is not None:
                return number == other
        return lhs is rhs or lhs == rhs


def _hash(root: Compound) -> int:
    """Return a hash of the heads and leaves. A shared part is hashed once."""
    hashes: dict[int, int] = {}
    stack: list[Hashable] = [root]
    while stack:
        node = stack[-1]
        pending = [part for part in node.parts if id(part) not in hashes] if isinstance(node, Compound) else []
        if pending and id(node) not in hashes:
            stack += pending
            continue
        stack.pop()
        hashes[id(node)] = _hash_node(node, hashes)
    return hashes[id(root)]


def _hash_node(node: Hashable, hashes: Mapping[int, int]) -> int:
    if isinstance(node, Compound):
        return hash((type(node), node.head, *[hashes[id(part)] for part in node.parts]))
    # A leaf with identity equality may be a bound variable. Bound variables are equal by position, so hash the class.
    return hash(type(node)) if type(node).__eq__ is object.__eq__ else hash(node)


def _texts(root: object) -> Iterator[tuple[str, bool]]:
    """Iterate over the pieces of a text.

    The second item is whether the piece is in a part that occurred before.
    """
    stack = [(root, False)]
    seen = set[int]()
    while stack:
        node, is_repeated = stack.pop()
        if isinstance(node, Compound):
            is_repeated = is_repeated or id(node) in seen
            seen.add(id(node))
            stack += [(piece, is_repeated) for piece in reversed(node.pieces())]
        else:
            yield str(node), is_repeated


class Kind(IntEnum):
    """The kind of a type: TVM's `TypeKind`, with the same numbers."""

    Type = 0
    """The type of a value."""
    ShapeVar = 1
    """A variable for a dimension."""
    BaseType = 2
    """A variable for an element type."""
    Constraint = 4
    """A relation between types."""
    AdtHandle = 5
    """The name of an algebraic data type, not applied to arguments."""
    TypeData = 6
    """The definition of an algebraic data type."""


TypeKind = Kind
"""The name that `tvm.ir` uses."""


class Type(Node):
    """Base of all types. `str()` returns Relay's text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False)
class TensorType(Type):
    """The type of a tensor: shape and element type. A scalar has the empty shape.

    >>> str(TensorType((1, Any(), 3)))
    'Tensor[(1, ?, 3), float32]'
    >>> str(TensorType((), "int64"))
    'int64'
    >>> TensorType((1, 3)).shape[1].value
    3
    """

    shape: tuple[IntImm | Any | ShapeVar | DimExpr, ...]
    """The dimensions, outermost first. An integer is an `IntImm`, which is an int with TVM's `value`."""
    dtype: str
    """The element type in numpy's spelling: `float32`, `int64`, `bool`, ..."""

    def __init__(self, shape: Iterable[Dim] = (), dtype: str = "float32") -> None:
        """Set the shape and element type.

        Integers in the shape become `IntImm`. As in TVM, the element types `int`, `uint` and `float` have 32 bits, and
        `uint1` is `bool`.

        Raises:
            TypeError: if a dimension is neither an integer nor symbolic.

        """
        object.__setattr__(self, "shape", tuple(map(_dim, shape)))
        object.__setattr__(self, "dtype", normal_dtype(str(dtype)))

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as ints.

        Raises:
            TypeError: if a dimension is symbolic.

        """
        if not self.is_static:
            raise TypeError(f"the shape of {self} has a symbolic dimension; expected only integers")
        return tuple(dim for dim in self.shape if isinstance(dim, int))

    @property
    def is_static(self) -> bool:
        """Whether every dimension is an int."""
        return all(isinstance(dim, int) for dim in self.shape)

    def __str__(self) -> str:
        """Return Relay's text."""
        if not self.shape:
            return self.dtype
        return f"Tensor[({', '.join(map(str, self.shape))}), {self.dtype}]"


def _dim(dim: object) -> IntImm | Any | ShapeVar | DimExpr:
    if type(dim) is IntImm or isinstance(dim, Any | ShapeVar | DimExpr):
        return dim
    if isinstance(dim, SupportsIndex):
        return IntImm(dim.__index__())
    raise TypeError(f"a dimension must be an int, Any() or a ShapeVar, got {dim!r}")


def scalar_type(dtype: str) -> TensorType:
    """Return the type of a scalar: a tensor type without dimensions."""
    return TensorType((), dtype)


def is_dynamic(tensor_type: Type) -> bool:
    """Return whether a tensor type has a symbolic dimension, as in TVM."""
    return isinstance(tensor_type, TensorType) and not tensor_type.is_static


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TupleType(Compound, Type):
    """The type of a tuple. The empty tuple type is Relay's unit."""

    fields: tuple[Type, ...]
    """The types of the fields."""

    def __init__(self, fields: Iterable[Type] = ()) -> None:
        object.__setattr__(self, "fields", tuple(fields))

    @property
    def head(self) -> tuple[Hashable, ...]:
        """The number of fields."""
        return (len(self.fields),)

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """The fields."""
        return self.fields

    def pieces(self) -> Sequence[object]:
        """Return the fields in parentheses."""
        return ("(", *separated(self.fields), ",)" if len(self.fields) == 1 else ")")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefType(Compound, Type):
    """The type of a reference to a mutable cell."""

    value: Type
    """The type of the value in the cell."""

    @property
    def head(self) -> tuple[Hashable, ...]:
        """An empty tuple."""
        return ()

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """The type of the value in the cell."""
        return (self.value,)

    def pieces(self) -> Sequence[object]:
        """Return `ref(...)`."""
        return ("ref(", self.value, ")")


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar(Type):
    """A type parameter of a function or data type. Equal only to itself."""

    name_hint: str
    """The printed name."""
    kind: Kind = Kind.Type
    """The kind of type that it can represent."""

    def __call__(self, *args: Type) -> "TypeCall":
        """Return the type variable applied to arguments."""
        return TypeCall(self, args)

    def __str__(self) -> str:
        """Return Relay's text."""
        return self.name_hint


@dataclass(frozen=True, slots=True)
class GlobalTypeVar(Type):
    """The name of an algebraic data type of the module. Equal if the names are equal."""

    name_hint: str
    """The name."""
    kind: Kind = Kind.AdtHandle
    """Always `AdtHandle`."""

    def __call__(self, *args: Type) -> "TypeCall":
        """Return the data type applied to arguments.

        >>> str(GlobalTypeVar("List")(TensorType((), "int32")))
        'List[int32]'
        """
        return TypeCall(self, args)

    def __str__(self) -> str:
        """Return Relay's text."""
        return self.name_hint


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TypeCall(Compound, Type):
    """An algebraic data type applied to arguments: `List[int32]`."""

    func: Type
    """The data type, a `GlobalTypeVar`."""
    args: tuple[Type, ...]
    """The arguments, one for each type variable of the definition."""

    def __init__(self, func: Type, args: Iterable[Type] = ()) -> None:
        object.__setattr__(self, "func", func)
        object.__setattr__(self, "args", tuple(args))

    @property
    def head(self) -> tuple[Hashable, ...]:
        """The number of arguments."""
        return (len(self.args),)

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """The data type, then the arguments."""
        return (self.func, *self.args)

    def pieces(self) -> Sequence[object]:
        """Return the data type and the arguments in brackets."""
        return (self.func, "[", *separated(self.args), "]") if self.args else (self.func,)


@dataclass(frozen=True, slots=True, eq=False)
class IncompleteType(Type):
    """An unknown type, to be found by inference. Equal only to itself."""

    kind: Kind = Kind.Type
    """The kind of type that it can represent."""

    def __str__(self) -> str:
        """Return Relay's text."""
        return "?"


class TypeConstraint(Type):
    """Base of the constraints of a function type on its parameters."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TypeRelation(Compound, TypeConstraint):
    """The named relation of an operator, which types must satisfy."""

    func: str
    """The name of the relation."""
    args: tuple[Type, ...]
    """The related types, inputs first."""
    num_inputs: int
    """The number of inputs in `args`."""
    attrs: Attrs | None
    """The attributes of the call."""

    def __init__(self, func: str, args: Iterable[Type], num_inputs: int, attrs: Attrs | None = None) -> None:
        object.__setattr__(self, "func", func)
        object.__setattr__(self, "args", tuple(args))
        object.__setattr__(self, "num_inputs", num_inputs)
        object.__setattr__(self, "attrs", attrs)

    @property
    def head(self) -> tuple[Hashable, ...]:
        """The name, the attributes, and the numbers of types and of inputs."""
        return (self.func, self.num_inputs, self.attrs, len(self.args))

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """The related types."""
        return self.args

    def pieces(self) -> Sequence[object]:
        """Return the name and the types in parentheses."""
        return (f"{self.func}(", *separated(self.args), ")")


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class FuncType(Compound, Type):
    """The type of a function. Equality ignores the names of type parameters.

    >>> a, b = TypeVar("a"), TypeVar("b")
    >>> FuncType([a], a, [a]) == FuncType([b], b, [b])
    True
    """

    arg_types: tuple[Type, ...]
    """The types of the parameters."""
    ret_type: Type
    """The type of the result."""
    type_params: tuple[TypeVar, ...]
    """The type variables that each call instantiates."""
    type_constraints: tuple[TypeConstraint, ...]
    """The constraints on the types."""

    def __init__(
        self,
        arg_types: Iterable[Type],
        ret_type: Type,
        type_params: Iterable[TypeVar] | None = None,
        type_constraints: Iterable[TypeConstraint] | None = None,
    ) -> None:
        object.__setattr__(self, "arg_types", tuple(arg_types))
        object.__setattr__(self, "ret_type", ret_type)
        object.__setattr__(self, "type_params", tuple(type_params or ()))
        object.__setattr__(self, "type_constraints", tuple(type_constraints or ()))

    @property
    def head(self) -> tuple[Hashable, ...]:
        """The kinds of the type parameters, and the numbers of parameters and constraints."""
        kinds = tuple([param.kind for param in self.type_params])
        return (kinds, len(self.arg_types), len(self.type_constraints))

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """The types of the parameters, the type of the result, then the constraints."""
        return (*self.arg_types, self.ret_type, *self.type_constraints)

    @property
    def binds(self) -> tuple[Hashable, ...]:
        """The type parameters."""
        return self.type_params

    def pieces(self) -> Sequence[object]:
        """Return `fn [...](...) -> ...`."""
        params = f"[{', '.join(map(str, self.type_params))}]" if self.type_params else ""
        return (f"fn {params}(", *separated(self.arg_types), ") -> ", self.ret_type)
