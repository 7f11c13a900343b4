"""The types of Relay, in TVM's names: immutable, compared by structure."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import SupportsIndex, TypeAlias

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ty import Compound, separated

__all__ = [
    "Any",
    "Dim",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "Kind",
    "RefType",
    "ShapeVar",
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
]


class Kind(IntEnum):
    """What a type is a type of: TVM's `TypeKind`, with its numbers."""

    Type = 0
    """The type of a value."""
    ShapeVar = 1
    """A variable that stands for a dimension."""
    BaseType = 2
    """A variable that stands for an element type."""
    Constraint = 4
    """A relation between types."""
    AdtHandle = 5
    """The name of an algebraic data type, before it is given its arguments."""
    TypeData = 6
    """The definition of an algebraic data type."""


TypeKind = Kind
"""The name that `tvm.ir` uses."""


class Type:
    """The base of all types. `str()` gives Relay's text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Any:
    """A dimension that is known only at run time; printed as `?`. Every `Any()` equals every other."""

    def __str__(self) -> str:
        """Return Relay's text."""
        return "?"


@dataclass(frozen=True, slots=True, eq=False)
class ShapeVar:
    """A named dimension, such as a batch size that is not fixed; equal only to itself. TVM's `te.var` in a shape."""

    name: str
    """What is printed."""

    def __str__(self) -> str:
        """Return Relay's text."""
        return self.name


Dim: TypeAlias = int | Any | ShapeVar
"""A dimension of a tensor."""


@dataclass(frozen=True, slots=True, init=False)
class TensorType(Type):
    """A tensor of a shape and an element type; a scalar has the empty shape.

    >>> str(TensorType((1, Any(), 3)))
    'Tensor[(1, ?, 3), float32]'
    >>> str(TensorType((), "int64"))
    'int64'
    """

    shape: tuple[Dim, ...]
    """The dimensions, outermost first."""
    dtype: str
    """The element type in numpy's spelling: `float32`, `int64`, `bool`, ..."""

    def __init__(self, shape: Iterable[Dim] = (), dtype: str = "float32") -> None:
        """Take the dimensions; numpy integers become ints.

        Raises:
            TypeError: if a dimension is neither an integer nor symbolic.

        """
        object.__setattr__(self, "shape", tuple(map(_dim, shape)))
        object.__setattr__(self, "dtype", str(dtype))

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as ints.

        Raises:
            TypeError: if a dimension is symbolic.

        """
        if not self.is_static:
            raise TypeError(f"the shape of {self} has a dimension that is not known; there is no concrete shape")
        return tuple(dim for dim in self.shape if isinstance(dim, int))

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return all(isinstance(dim, int) for dim in self.shape)

    def __str__(self) -> str:
        """Return Relay's text."""
        if not self.shape:
            return self.dtype
        return f"Tensor[({', '.join(map(str, self.shape))}), {self.dtype}]"


def _dim(dim: object) -> Dim:
    if type(dim) is int or isinstance(dim, Any | ShapeVar):
        return dim
    if isinstance(dim, SupportsIndex):
        return dim.__index__()
    raise TypeError(f"a dimension must be an int, Any() or a ShapeVar, not {dim!r}")


def scalar_type(dtype: str) -> TensorType:
    """Return the type of a scalar: a tensor of no dimensions."""
    return TensorType((), dtype)


def is_dynamic(tensor_type: Type) -> bool:
    """Tell whether a type is one of tensors with a dimension that is not a number; TVM's `relay.ty.is_dynamic`."""
    return isinstance(tensor_type, TensorType) and not tensor_type.is_static


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TupleType(Compound, Type):
    """A tuple of a fixed number of values; the empty one is Relay's unit."""

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
        """Return the fields between parentheses."""
        return ("(", *separated(self.fields), ",)" if len(self.fields) == 1 else ")")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefType(Compound, Type):
    """A reference to a mutable cell."""

    value: Type
    """The type of what the cell holds."""

    @property
    def head(self) -> tuple[Hashable, ...]:
        """Nothing."""
        return ()

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """The type of what the cell holds."""
        return (self.value,)

    def pieces(self) -> Sequence[object]:
        """Return `ref(...)`."""
        return ("ref(", self.value, ")")


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar(Type):
    """A type parameter of a function or of a data type; equal only to itself."""

    name_hint: str
    """What is printed."""
    kind: Kind = Kind.Type
    """What it may stand for."""

    def __call__(self, *args: Type) -> "TypeCall":
        """Return the type that it is when given arguments."""
        return TypeCall(self, args)

    def __str__(self) -> str:
        """Return Relay's text."""
        return self.name_hint


@dataclass(frozen=True, slots=True)
class GlobalTypeVar(Type):
    """The name of an algebraic data type of the module; two of one name are equal."""

    name_hint: str
    """The name."""
    kind: Kind = Kind.AdtHandle
    """Always `AdtHandle`."""

    def __call__(self, *args: Type) -> "TypeCall":
        """Return the data type given its arguments.

        >>> str(GlobalTypeVar("List")(TensorType((), "int32")))
        'List[int32]'
        """
        return TypeCall(self, args)

    def __str__(self) -> str:
        """Return Relay's text."""
        return self.name_hint


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TypeCall(Compound, Type):
    """An algebraic data type given its arguments: `List[int32]`."""

    func: Type
    """What is applied: a `GlobalTypeVar`."""
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
        """What is applied, then the arguments."""
        return (self.func, *self.args)

    def pieces(self) -> Sequence[object]:
        """Return what is applied, and the arguments in brackets."""
        return (self.func, "[", *separated(self.args), "]") if self.args else (self.func,)


@dataclass(frozen=True, slots=True, eq=False)
class IncompleteType(Type):
    """A type that is not known yet; inference finds it. Equal only to itself."""

    kind: Kind = Kind.Type
    """What it may stand for."""

    def __str__(self) -> str:
        """Return Relay's text."""
        return "?"


class TypeConstraint(Type):
    """The base of what a function type may demand of its parameters."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TypeRelation(Compound, TypeConstraint):
    """A relation that the types must satisfy, by name: the one of an operator."""

    func: str
    """The name of the relation."""
    args: tuple[Type, ...]
    """The types that it relates, inputs first."""
    num_inputs: int
    """How many of `args` are inputs."""
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
        """The types that it relates."""
        return self.args

    def pieces(self) -> Sequence[object]:
        """Return the name, and the types in parentheses."""
        return (f"{self.func}(", *separated(self.args), ")")


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class FuncType(Compound, Type):
    """The type of a function; equal to another up to the names of its type parameters.

    >>> a, b = TypeVar("a"), TypeVar("b")
    >>> FuncType([a], a, [a]) == FuncType([b], b, [b])
    True
    """

    arg_types: tuple[Type, ...]
    """The types of the parameters."""
    ret_type: Type
    """The type of the result."""
    type_params: tuple[TypeVar, ...]
    """The type variables that a call chooses."""
    type_constraints: tuple[TypeConstraint, ...]
    """What the types must satisfy."""

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
        """The numbers of type parameters, parameters and constraints."""
        return (len(self.type_params), len(self.arg_types), len(self.type_constraints))

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """The types of the parameters and of the result, then the constraints."""
        return (*self.arg_types, self.ret_type, *self.type_constraints)

    @property
    def binds(self) -> tuple[Hashable, ...]:
        """The type parameters."""
        return self.type_params

    def pieces(self) -> Sequence[object]:
        """Return `fn [...](...) -> ...`."""
        params = f"[{', '.join(map(str, self.type_params))}]" if self.type_params else ""
        return (f"fn {params}(", *separated(self.arg_types), ") -> ", self.ret_type)
