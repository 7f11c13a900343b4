"""`Site`: the argument of converters, a call of a Relay operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from apass.relay.backend.onnx.graph import GraphBuilder, Tensor
from apass.relay.errors import OpNotImplementedError, shortened
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType, TupleType, Type

__all__ = ["Converter", "Operand", "Outputs", "Site", "Table"]

AttrsT = TypeVar("AttrsT", bound=Attrs)

Operand: TypeAlias = Tensor | tuple["Operand", ...]
"""A tensor, or a tuple of operands."""

Outputs: TypeAlias = Tensor | Sequence[Operand]
"""The output of an operator; a sequence for a tuple."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A call of a Relay operator, with its operands in the ONNX graph."""

    builder: GraphBuilder
    """Adds nodes to the graph."""
    call: Call
    """The call."""
    operands: Sequence[Operand]
    """The arguments."""

    @property
    def name(self) -> str:
        """The name of the operator."""
        assert isinstance(self.call.op, Op)
        return self.call.op.name

    def unsupported(self, reason: str) -> OpNotImplementedError:
        """Return the error for a call that has no ONNX form, with a reason."""
        return OpNotImplementedError(f"cannot export {call_text(self.call)} to ONNX: {reason}")

    def attrs(self, kind: type[AttrsT]) -> AttrsT:
        """Return the attributes, which must be of a class."""
        attrs = self.call.attrs
        if not isinstance(attrs, kind):
            raise self.unsupported(f"its attributes must be {kind.__name__}, got {attrs!r:.100}")
        return attrs

    def __getitem__(self, index: int) -> Tensor:
        """Return an argument that is a tensor."""
        operand = self.operands[index]
        if not isinstance(operand, Tensor):
            raise self.unsupported(f"argument {index} must be a tensor, got a tuple")
        return operand

    def fields(self, index: int = 0) -> list[Tensor]:
        """Return the fields of an argument that is a tuple of tensors."""
        operand = self.operands[index]
        fields = operand if isinstance(operand, tuple) else ()
        tensors = [field for field in fields if isinstance(field, Tensor)]
        if not tensors or len(tensors) != len(fields):
            raise self.unsupported(f"argument {index} must be a tuple of at least one tensor")
        return tensors

    def type(self, index: int = 0) -> TensorType:
        """Return the type of an argument that is a tensor."""
        return self._tensor_type(self.call.args[index].checked_type)

    def field_type(self, index: int = 0) -> TensorType:
        """Return the type of the first field of an argument that is a tuple."""
        ty = self.call.args[index].checked_type
        return self._tensor_type(ty.fields[0] if isinstance(ty, TupleType) and ty.fields else ty)

    def _tensor_type(self, ty: Type) -> TensorType:
        if not isinstance(ty, TensorType):
            raise self.unsupported(f"an operand must be a tensor, got a value of type {shortened(str(ty), 100)}")
        return ty

    @property
    def result(self) -> TensorType:
        """The type of the result, which is a tensor."""
        return self._tensor_type(self.call.checked_type)

    def shape(self, index: int = 0) -> tuple[Dim, ...]:
        """Return the dimensions of an argument."""
        return self.type(index).shape

    def rank(self, index: int = 0) -> int:
        """Return the number of dimensions of an argument."""
        return len(self.type(index).shape)

    def axis(self, axis: int, index: int = 0) -> int:
        """Return an axis of an argument as a non-negative number."""
        return axis % self.rank(index)

    def static_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the dimensions of an argument, all of which must be known."""
        ty = self.type(index)
        if not ty.is_static:
            raise self.unsupported(f"every dimension of {ty} must be known; import the model with its shapes")
        return ty.concrete_shape

    def static_dims(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        """Return dimensions, all of which must be known."""
        known = tuple(dim for dim in dims if isinstance(dim, int))
        if len(known) != len(dims):
            raise self.unsupported(f"every dimension of {self.type()} must be known; import the model with its shapes")
        return known

    def is_float(self, index: int = 0) -> bool:
        """Return whether an argument has floating-point numbers."""
        return "float" in self.type(index).dtype

    def constant_of(self, index: int) -> Array | None:
        """Return the value of an argument, or None if it is not constant."""
        return self[index].value

    def like(self, value: npt.ArrayLike, index: int = 0) -> Tensor:
        """Return a constant with the element type of an argument."""
        return self.builder.constant(np.asarray(value), self.type(index).dtype)

    def dim(self, index: int, axis: int) -> int | Tensor:
        """Return a dimension of an argument: a number, or a vector of one element."""
        dim = self.shape(index)[axis]
        return dim if isinstance(dim, int) else self.builder.dim(self[index], axis)

    def dims(self, index: int = 0) -> list[int | Tensor]:
        """Return all dimensions of an argument; see `dim`."""
        return [self.dim(index, axis) for axis in range(self.rank(index))]


def call_text(call: Call) -> str:
    """Return a call for messages: the operator, its attributes and the types."""
    name = call.op.name if isinstance(call.op, Op) else repr(call.op)
    items = "" if call.attrs is None else ", ".join(f"{key}={value!r}" for key, value in call.attrs.non_default())
    types = ", ".join(map(_type_text, call.args))
    return shortened(f"{name}({types}){f' with {items}' if items else ''}")


def _type_text(expr: Expr) -> str:
    try:
        return str(expr.checked_type)
    except ValueError:
        return "?"


Converter: TypeAlias = Callable[[Site], Outputs]
"""Adds the nodes for a call, and returns its outputs."""

Table: TypeAlias = Mapping[str, Converter]
"""Converters by the name of the Relay operator."""
