"""The expressions of Relay: immutable nodes in TVM's names, equal only to themselves.

`apass.relay.structural.equality` compares them, `apass.relay.expr_functor` walks them; there are more in `function` and `adt`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias, cast

import numpy.typing as npt

from apass.core.diagnostics import Span
from apass.errors import did_you_mean
from apass.relay.base import Id
from apass.relay.errors import UnknownOpError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.op_definition import OP_ATTRS, Compute, OpDefinition, Relation
from apass.relay.ir.operators import Operators
from apass.relay.ty import TensorType, Type

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
    "Relation",
    "Tuple",
    "TupleGetItem",
    "Var",
    "set_field",
    "set_text_format",
]

set_field: Final = object.__setattr__
"""How the `__init__` of a frozen node fills its own fields."""

_text_format: list[tuple[Callable[["Expr"], str], Callable[["Expr", bool, "Annotate | None"], str]]] = []


def set_text_format(
    pretty_print: Callable[["Expr"], str], astext: Callable[["Expr", bool, "Annotate | None"], str]
) -> None:
    """Use these for `str()` and `astext()` of expressions: how the printer, a layer above, makes itself known."""
    _text_format[:] = [(pretty_print, astext)]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr(Operators["Call"]):
    """The base of all expressions. Two are equal only if they are the same object.

    Python's operators build calls: `x + y` is `add(x, y)`, `f(x)` is `Call(f, [x])`, `t[0]` is `TupleGetItem(t, 0)`.
    """

    span: Span | None = field(default=None, kw_only=True)
    """Where the text of it stands, if it was parsed."""
    checked_type_: Type | None = field(default=None, kw_only=True)
    """The type that InferType found; None before."""

    @property
    def checked_type(self) -> Type:
        """The type of the expression.

        Raises:
            ValueError: if it is not known: InferType has not run on this expression.

        """
        if self.checked_type_ is None:
            raise ValueError(f"the type of {self!r} is not known yet; run relay.transform.InferType on its module")
        return self.checked_type_

    @property
    def children(self) -> "tuple[Expr, ...]":
        """The expressions directly below, in the order in which they are walked."""
        return ()

    def __call__(self, *args: "Expr") -> "Call":
        """Return a call of this function with the arguments."""
        return Call(self, args)

    def __getitem__(self, index: int) -> "Expr":
        """Return a field of this tuple: a `TupleGetItem`."""
        return TupleGetItem(self, index)

    def __iter__(self) -> "Iterator[Expr]":
        """Refuse: a loop over an expression that is no `Tuple` would never end."""
        raise TypeError(f"{self!r} is not iterable: how many fields it has is not known")

    def _call_op(self, name: str, *args: object) -> "Call":
        return Call(Op.get(name), _exprs(f"the operands of {name}", args))

    def same_as(self, other: object) -> bool:
        """Tell whether it is the same object."""
        return self is other

    def astype(self, dtype: str) -> "Call":
        """Return `cast(self, dtype)`."""
        op = Op.get("cast")
        return Call(op, (self,), op.make_attrs(dtype=dtype))

    def __str__(self) -> str:
        """Return Relay's text."""
        return _text_format[0][0](self) if _text_format else repr(self)

    def astext(self, show_meta_data: bool = True, annotate: "Annotate | None" = None) -> str:
        """Return Relay's text with the version in its first line; see `apass.relay.text.printing.printer.astext`.

        Raises:
            RuntimeError: if `apass.relay.text.printing.printer` has not been imported.

        """
        if not _text_format:
            raise RuntimeError("nothing is known yet that could print: import apass.relay.text.printing.printer first")
        return _text_format[0][1](self, show_meta_data, annotate)

    def __repr__(self) -> str:
        """Return the kind of the node; never what is below it, which may be deep."""
        return f"<relay.{type(self).__name__}{self._label()}>"

    def _label(self) -> str:
        return ""


Annotate: TypeAlias = Callable[[Expr], str]
"""Returns what is printed after an expression, in the place of its type."""


def _exprs(what: str, given: Iterable[object]) -> tuple[Expr, ...]:
    made = tuple(given)
    for one in made:
        if not isinstance(one, Expr):
            raise TypeError(f"{what} must be expressions, not {one!r}; make a constant with relay.const({one!r})")
    return cast("tuple[Expr, ...]", made)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """A local variable: a parameter, or what a Let or a pattern binds. Two of one name are two variables."""

    name_hint: str
    """The name that it is printed with, made unique."""
    type_annotation: Type | None = None
    """The type that its author gave; None to have it inferred."""

    @property
    def vid(self) -> Id:
        """The name, as TVM has it: `var.vid.name_hint`."""
        return Id(self.name_hint)

    @property
    def checked_type(self) -> Type:
        """The annotation: InferType gives one to each variable that has none.

        Raises:
            ValueError: if there is none.

        """
        if self.type_annotation is None:
            raise ValueError(f"the type of variable {self.name_hint} is not known yet; run InferType on its module")
        return self.type_annotation

    def _label(self) -> str:
        return f" %{self.name_hint}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GlobalVar(Expr):
    """The name of a function of the module."""

    name_hint: str
    """The name, unique in the module."""

    def _label(self) -> str:
        return f" @{self.name_hint}"


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Constant(Expr):
    """A tensor that is known now."""

    data: NDArray
    """The value; nobody can write to it."""

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
    """Several values as one; the empty one is Relay's unit."""

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
        """Return a field, and not a `TupleGetItem`; IndexError if there is none."""
        return self.fields[index]

    def __iter__(self) -> Iterator[Expr]:
        """Go over the fields."""
        return iter(self.fields)

    def astype(self, dtype: str) -> NoReturn:
        """Raise TypeError: a tuple has no element type."""
        raise TypeError(f"a tuple cannot be cast to {dtype}; cast its fields")

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self.fields)

    def __bool__(self) -> bool:
        """Be true, as every node is, even the empty tuple."""
        return True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItem(Expr):
    """A field of a tuple."""

    tuple_value: Expr
    """The tuple."""
    index: int
    """Which field, counted from 0."""

    @property
    def children(self) -> tuple[Expr, ...]:
        """The tuple."""
        return (self.tuple_value,)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Call(Expr):
    """A call of an operator, a function, a constructor, or anything else that can be called."""

    op: Expr
    """What is called."""
    args: tuple[Expr, ...]
    """The arguments."""
    attrs: Attrs | None
    """The attributes, if the operator has any."""
    type_args: tuple[Type, ...]
    """What the type parameters of `op` stand for; filled in by InferType."""

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
        """What is called, then the arguments."""
        return (self.op, *self.args)

    def _label(self) -> str:
        return f" of {self.op!r}" if not self.op.children else ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Expr):
    """A value bound to a variable; a function may refer to itself by it."""

    var: Var
    """The variable."""
    value: Expr
    """What it is bound to."""
    body: Expr
    """The expression in which it is bound, and the value of the whole."""

    @property
    def children(self) -> tuple[Expr, ...]:
        """The variable, the value, the body."""
        return (self.var, self.value, self.body)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Expr):
    """One of two expressions; only the one that is chosen is evaluated."""

    cond: Expr
    """A scalar of type bool."""
    true_branch: Expr
    """The value if it is true."""
    false_branch: Expr
    """The value if it is false."""

    @property
    def children(self) -> tuple[Expr, ...]:
        """The condition and the two branches."""
        return (self.cond, self.true_branch, self.false_branch)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Op(Expr, OpDefinition):
    """A primitive operator; there is one object for each name. Further attributes: `get_attr`, `set_attr`."""

    name: str
    """The name in the text: `nn.conv2d`."""
    description: str = ""
    """What it computes, in a sentence."""
    arguments: tuple[str, ...] = ()
    """The names of the arguments."""
    num_inputs: int = -1
    """How many arguments it takes; -1 for any number."""
    attrs_type: type[Attrs] | None = None
    """The class of the attributes of its calls; None if there are none."""
    relation: Relation | None = None
    """What holds between the types of the arguments and the result: `relation(types, attrs)`.

    `types` are those of the arguments, then that of the result, as far as they are known (`IncompleteType` where not).
    It returns a type for each place (None where it has nothing to say), to be unified with what is there; or None
    if too little is known yet to say anything. It raises TypeInferenceError if the types can never fit.
    """
    compute: Compute | None = None
    """The kernel: `compute(*inputs)`, or `compute(attrs, *inputs)` if there is an `attrs_type`.

    Inputs are numpy arrays, a tuple of them for an argument that is a tuple; so is the result.
    """
    support_level: int = 10
    """How central it is, 1 the most; TVM's number."""

    @staticmethod
    def get(name: str) -> "Op":
        """Return the operator of the name.

        Raises:
            UnknownOpError: if there is none; the message suggests the nearest one.

        """
        if name not in OPS:
            raise UnknownOpError(f"there is no operator named {name!r}{did_you_mean(name, OPS)}")
        return OPS[name]

    @staticmethod
    def list_op_names() -> list[str]:
        """Return the names of all operators, sorted."""
        return sorted(OPS)

    def make_attrs(self, **values: object) -> Attrs | None:
        """Return attributes for a call, defaults for what is not given; None if the operator has none.

        Raises:
            TypeError: if a name is not one of its attributes, or a required one is missing.

        """
        if self.attrs_type is None and values:
            raise TypeError(f"{self.name} takes no attributes, but was given {', '.join(values)}")
        return None if self.attrs_type is None else self.attrs_type(**values)

    def _label(self) -> str:
        return f" {self.name}"


OPS: Final[dict[str, Op]] = {}
"""The registry of operators by name; `apass.relay.op` fills it."""
