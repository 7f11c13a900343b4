"""Relay expressions: immutable nodes with TVM's names and identity equality.

`apass.relay.structural` compares expressions by structure. `apass.relay.visitors` has visitors and mutators. More nodes
are defined in `function` and `adt`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Final, NoReturn, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from apass.core.diagnostics import Span
from apass.errors import did_you_mean
from apass.relay.errors import UnknownOpError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.base import Id, Node
from apass.relay.ir.json_format import Reduced, reduced
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.op_definition import OP_ATTRS, Compute, OpDefinition, Relation
from apass.relay.ir.operators import Operators
from apass.relay.ir.text_format import astext, pretty_print
from apass.relay.ir.ty import Dim, TensorType, Type

__all__ = [
    "OPS",
    "OP_ATTRS",
    "Annotate",
    "Call",
    "Compute",
    "Constant",
    "Expr",
    "GlobalVar",
    "If",
    "Let",
    "Op",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "Relation",
    "Tuple",
    "TupleGetItem",
    "TupleWrapper",
    "Var",
    "const",
    "set_field",
    "var",
]

set_field: Final = object.__setattr__
"""Sets a field in the `__init__` of a frozen node."""


def _untyped(expr: "Expr") -> ValueError:
    return ValueError(
        f"the type of {expr!r} has not been inferred; run relay.transform.InferType on its module, or create a "
        "DFPatternCallback with require_type=True"
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr(Operators["Call"], Node):
    """Base of all expressions. An expression is equal only to itself.

    Python's operators build calls: `x + y` is `add(x, y)`, `f(x)` is `Call(f, [x])`, `t[0]` is `TupleGetItem(t, 0)`.
    """

    span: Span | None = field(default=None, kw_only=True)
    """Source location, if the expression was parsed."""
    checked_type_: Type | None = field(default=None, kw_only=True)
    """The type inferred by InferType, or None before inference."""

    @property
    def checked_type(self) -> Type:
        """The type of the expression.

        Raises:
            ValueError: if InferType has not run on this expression.

        """
        if self.checked_type_ is None:
            raise _untyped(self)
        return self.checked_type_

    @property
    def children(self) -> "tuple[Expr, ...]":
        """The direct subexpressions in traversal order."""
        return ()

    def __call__(self, *args: "Expr") -> "Call":
        """Return a call of this expression with the arguments."""
        return Call(self, args)

    def __getitem__(self, index: int) -> "Expr":
        """Return the `TupleGetItem` of a field of this tuple."""
        return TupleGetItem(self, index)

    def __iter__(self) -> "Iterator[Expr]":
        """Raise TypeError, because iteration by `__getitem__` would never end."""
        raise TypeError(f"{self!r} is not iterable: its number of fields is unknown; wrap it in relay.TupleWrapper")

    def _call_op(self, name: str, *args: object) -> "Call":
        return Call(Op.get(name), _exprs(f"the operands of {name}", args))

    def astype(self, dtype: str) -> "Call":
        """Return `cast(self, dtype)`."""
        op = Op.get("cast")
        return Call(op, (self,), op.make_attrs(dtype=dtype))

    def __str__(self) -> str:
        """Return Relay's text."""
        return pretty_print(self)

    def astext(self, show_meta_data: bool = True, annotate: "Annotate | None" = None) -> str:
        """Return Relay's text with a version line; see `apass.relay.astext`."""
        return astext(self, show_meta_data, annotate)

    def __repr__(self) -> str:
        """Return the kind and label of the node, without its subexpressions."""
        return f"<relay.{type(self).__name__}{self._label()}>"

    def __copy__(self) -> Self:
        """Return another node with the same parts."""
        new = object.__new__(type(self))
        for part in fields(self):
            set_field(new, part.name, getattr(self, part.name))
        return new

    def __reduce__(self) -> Reduced:
        """Return the JSON of the expression, which has no depth limit."""
        return reduced(self)

    def _label(self) -> str:
        return ""


Annotate: TypeAlias = Callable[[Expr], str]
"""Returns the text to print after an expression, instead of its type."""


def _exprs(subject: str, values: Iterable[object]) -> tuple[Expr, ...]:
    exprs = tuple(values)
    for value in exprs:
        if not isinstance(value, Expr):
            raise TypeError(
                f"{subject} must be expressions, got {value!r}; make a constant with relay.const({value!r})"
            )
    return cast("tuple[Expr, ...]", exprs)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Var(Expr):
    """A local variable, bound by a function, Let or pattern. Names may repeat."""

    name_hint: str
    """The name, which the printer makes unique."""
    type_annotation: Type | None
    """The type annotation, or None to infer the type."""

    def __init__(
        self,
        name_hint: str,
        type_annotation: Type | None = None,
        span: Span | None = None,
        *,
        checked_type_: Type | None = None,
    ) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "name_hint", name_hint)
        set_field(self, "type_annotation", type_annotation)

    @property
    def vid(self) -> Id:
        """The name as an `Id`, as in TVM: `var.vid.name_hint`."""
        return Id(self.name_hint, self)

    @property
    def checked_type(self) -> Type:
        """The annotation. InferType adds one to each variable without.

        Raises:
            ValueError: if the variable has no annotation.

        """
        if self.type_annotation is None:
            raise _untyped(self)
        return self.type_annotation

    def _label(self) -> str:
        return f" %{self.name_hint}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GlobalVar(Expr):
    """A reference to a function of the module by name."""

    name_hint: str
    """The name, unique in the module."""

    def _label(self) -> str:
        return f" @{self.name_hint}"


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Constant(Expr):
    """A constant tensor."""

    data: NDArray
    """The value, a read-only array."""

    def __init__(self, data: npt.ArrayLike, span: Span | None = None) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", None)
        set_field(self, "data", NDArray.of(data))

    @property
    def checked_type(self) -> TensorType:
        """The type of the data."""
        return TensorType(self.data.shape, self.data.dtype_name)

    def _label(self) -> str:
        return f" {self.checked_type}"


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Tuple(Expr):
    """A tuple of values. The empty tuple is Relay's unit."""

    fields: tuple[Expr, ...]
    """The values."""

    def __init__(self, fields: Iterable[Expr], span: Span | None = None, *, checked_type_: Type | None = None) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "fields", _exprs("the fields of a Tuple", fields))

    @property
    def children(self) -> tuple[Expr, ...]:
        """The fields."""
        return self.fields

    def __getitem__(self, index: int) -> Expr:
        """Return the field itself, not a `TupleGetItem`. Raise IndexError if absent."""
        return self.fields[index]

    def __iter__(self) -> Iterator[Expr]:
        """Iterate over the fields."""
        return iter(self.fields)

    def astype(self, dtype: str) -> NoReturn:
        """Raise TypeError: a tuple has no element type."""
        raise TypeError(f"cannot cast a tuple to {dtype}; cast its fields")

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self.fields)

    def __bool__(self) -> bool:
        """Return True: every node is true, even the empty tuple."""
        return True


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class TupleGetItem(Expr):
    """A field of a tuple."""

    tuple_value: Expr
    """The tuple."""
    index: int
    """The index of the field, from 0."""

    def __init__(
        self, tuple_value: Expr, index: int, span: Span | None = None, *, checked_type_: Type | None = None
    ) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "tuple_value", tuple_value)
        set_field(self, "index", index)

    @property
    def children(self) -> tuple[Expr, ...]:
        """The tuple."""
        return (self.tuple_value,)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Call(Expr):
    """A call of an operator, function, constructor or other callable expression."""

    op: Expr
    """The callee."""
    args: tuple[Expr, ...]
    """The arguments."""
    attrs: Attrs | None
    """The attributes, if the operator has any."""
    type_args: tuple[Type, ...]
    """The types bound to the type parameters of `op`, set by InferType."""

    def __init__(
        self,
        op: Expr,
        args: Iterable[Expr],
        attrs: Attrs | None = None,
        type_args: Iterable[Type] | None = None,
        span: Span | None = None,
        *,
        checked_type_: Type | None = None,
    ) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "op", op)
        set_field(self, "args", _exprs("the arguments of a Call", args))
        set_field(self, "attrs", attrs)
        set_field(self, "type_args", tuple(type_args) if type_args else ())

    @property
    def children(self) -> tuple[Expr, ...]:
        """The callee, then the arguments."""
        return (self.op, *self.args)

    def _label(self) -> str:
        return f" of {self.op!r}" if not self.op.children else ""


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Let(Expr):
    """A local binding. If the value is a function, it may refer to the variable."""

    var: Var
    """The variable."""
    value: Expr
    """The bound value."""
    body: Expr
    """The expression in which the variable is bound. Its value is the value of the Let."""

    def __init__(
        self, variable: Var, value: Expr, body: Expr, span: Span | None = None, *, checked_type_: Type | None = None
    ) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "var", variable)
        set_field(self, "value", value)
        set_field(self, "body", body)

    @property
    def children(self) -> tuple[Expr, ...]:
        """The variable, the value, the body."""
        return (self.var, self.value, self.body)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class If(Expr):
    """A conditional expression. Only the chosen branch is evaluated."""

    cond: Expr
    """A scalar of type bool."""
    true_branch: Expr
    """The value if the condition is true."""
    false_branch: Expr
    """The value if the condition is false."""

    def __init__(
        self,
        cond: Expr,
        true_branch: Expr,
        false_branch: Expr,
        span: Span | None = None,
        *,
        checked_type_: Type | None = None,
    ) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "cond", cond)
        set_field(self, "true_branch", true_branch)
        set_field(self, "false_branch", false_branch)

    @property
    def children(self) -> tuple[Expr, ...]:
        """The condition and the two branches."""
        return (self.cond, self.true_branch, self.false_branch)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Op(Expr, OpDefinition):
    """A primitive operator, one object per name. See also `get_attr` and `set_attr`."""

    name: str
    """The name in the text: `nn.conv2d`."""
    description: str = ""
    """One sentence on what the operator computes."""
    arguments: tuple[str, ...] = ()
    """The names of the arguments."""
    num_inputs: int = -1
    """The number of arguments, -1 for any number."""
    attrs_type: type[Attrs] | None = None
    """The class of the attributes of calls, or None if calls have no attributes."""
    relation: Relation | None = None
    """The type relation between the arguments and the result: `relation(types, attrs)`.

    `types` are the types of the arguments, then the type of the result. A type that is not inferred yet is an
    `IncompleteType`. The relation returns one of:

    - a sequence with an element for each of `types`: a type to unify with it, or None to leave it unconstrained;
    - None, if too few types are known yet.

    It raises TypeInferenceError if the types are incompatible.
    """
    compute: Compute | None = None
    """The kernel: `compute(*inputs)`, or `compute(attrs, *inputs)` if `attrs_type` is set.

    Inputs and result are numpy arrays. A tuple argument or result is a tuple of arrays.
    """
    support_level: int = 10
    """TVM's support level, from 1 (core operator) upwards."""

    @staticmethod
    def get(name: str) -> "Op":
        """Return the operator with this name.

        Raises:
            UnknownOpError: if it does not exist. The message suggests a similar name.

        """
        if name not in OPS:
            raise UnknownOpError(f"there is no operator named {name!r}{did_you_mean(name, OPS)}")
        return OPS[name]

    @staticmethod
    def list_op_names() -> list[str]:
        """Return the sorted names of all operators."""
        return sorted(OPS)

    def make_attrs(self, **values: object) -> Attrs | None:
        """Return attributes for a call, or None if the operator has no attributes.

        Attributes that are not in `values` have their defaults.

        Raises:
            TypeError: if an attribute does not exist, or a required attribute is missing.

        """
        if self.attrs_type is None and values:
            raise TypeError(f"{self.name} takes no attributes, got {', '.join(values)}")
        return None if self.attrs_type is None else self.attrs_type(**values)

    def _label(self) -> str:
        return f" {self.name}"


OPS: Final[dict[str, Op]] = {}
"""The registered operators by name. `apass.relay.op` registers them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class RefCreate(Expr):
    """A new mutable cell."""

    value: Expr
    """The initial value."""

    def __init__(self, value: Expr, span: Span | None = None, *, checked_type_: Type | None = None) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "value", value)

    @property
    def children(self) -> tuple[Expr, ...]:
        """The initial value."""
        return (self.value,)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class RefRead(Expr):
    """The current value of a mutable cell."""

    ref: Expr
    """The cell."""

    def __init__(self, ref: Expr, span: Span | None = None, *, checked_type_: Type | None = None) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "ref", ref)

    @property
    def children(self) -> tuple[Expr, ...]:
        """The cell."""
        return (self.ref,)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class RefWrite(Expr):
    """A write to a mutable cell. The value of the expression is the empty tuple."""

    ref: Expr
    """The cell."""
    value: Expr
    """The new value of the cell."""

    def __init__(self, ref: Expr, value: Expr, span: Span | None = None, *, checked_type_: Type | None = None) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "ref", ref)
        set_field(self, "value", value)

    @property
    def children(self) -> tuple[Expr, ...]:
        """The cell and the value."""
        return (self.ref, self.value)


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Iterable[Dim] | None = None,
    dtype: str = "float32",
    span: Span | None = None,
) -> Var:
    """Return a new variable.

    Parameters:
        name_hint: the name.
        type_annotation: the type, or an element type for a scalar.
        shape: the shape of a tensor type, in place of `type_annotation`.
        dtype: the element type that goes with `shape`.
        span: the source location.

    Raises:
        ValueError: if both `type_annotation` and `shape` are set.

    >>> var("x", shape=(1, 2)).checked_type
    TensorType(shape=(1, 2), dtype='float32')
    """
    if type_annotation is not None and shape is not None:
        raise ValueError(f"variable {name_hint} has both a type annotation and a shape; pass one of them")
    if shape is not None:
        return Var(name_hint, TensorType(shape, dtype), span=span)
    return Var(
        name_hint, TensorType((), type_annotation) if isinstance(type_annotation, str) else type_annotation, span=span
    )


def const(value: npt.ArrayLike, dtype: str | TensorType | None = None, span: Span | None = None) -> Constant:
    """Return a constant.

    Parameters:
        value: a number or an array of numbers.
        dtype: the element type, or a tensor type with that element type. Without it, 64-bit numbers become 32-bit
            numbers, because Python's numbers have no size.
        span: the source location.

    Raises:
        ValueError: if the value is not a number or an array of numbers.

    >>> const(1).data.dtype, const([1.0, 2.0], "float64").data.shape
    (dtype('int32'), (2,))
    """
    array = np.asarray(value)
    # Object, bytes, str, datetime64 and timedelta64.
    if array.dtype.kind in "OSUMm":
        raise ValueError(f"a constant must be a number or an array of numbers, got {value!r}")
    narrowed = {"int64": "int32", "float64": "float32"}.get(str(array.dtype), str(array.dtype))
    target = np.dtype((dtype.dtype if isinstance(dtype, TensorType) else dtype) or narrowed)
    data = value if isinstance(value, NDArray) and array.dtype == target else array.astype(target)
    return Constant(data, span=span)


class TupleWrapper:
    """A tuple-valued expression of known size, which Python can unpack.

    It is not an `Expr`; `astuple()` returns the wrapped expression.

    >>> from apass.relay.ir.expr import Var
    >>> first, second = TupleWrapper(Var("pair"), 2)
    >>> second.index
    1
    """

    __slots__ = ("_size", "_tuple_value")
    _tuple_value: Expr
    _size: int

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self._tuple_value = tuple_value
        self._size = size

    @property
    def tuple_value(self) -> Expr:
        """The wrapped expression."""
        return self._tuple_value

    @property
    def size(self) -> int:
        """The number of fields."""
        return self._size

    def astuple(self) -> Expr:
        """Return the wrapped expression."""
        return self._tuple_value

    def astext(self) -> str:
        """Return the text of the wrapped expression."""
        return str(self._tuple_value)

    def __getitem__(self, index: int) -> TupleGetItem:
        """Return a field.

        Raises:
            IndexError: if the field does not exist.

        """
        if not 0 <= index < self._size:
            raise IndexError(f"tuple of {self._size} has no field {index}; expected 0 to {self._size - 1}")
        return TupleGetItem(self._tuple_value, index)

    def __iter__(self) -> Iterator[TupleGetItem]:
        """Iterate over the fields."""
        return map(self.__getitem__, range(self._size))

    def __len__(self) -> int:
        """Return the number of fields."""
        return self._size

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"TupleWrapper({self._tuple_value!r}, {self._size})"
