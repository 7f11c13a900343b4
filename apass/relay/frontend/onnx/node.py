"""`Node`: the argument of converters, a node of the graph with Relay inputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend.onnx.facts import Facts
from apass.relay.ir.expr import Constant, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType

__all__ = ["AttributeValue", "Converter", "Node", "Subgraph", "Table"]

T = TypeVar("T", int, float, str)

AttributeValue: TypeAlias = int | float | str | Array | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
"""The value of an attribute."""


class Subgraph(Protocol):
    """A graph that is an attribute of a node; created by the importer."""

    def __call__(self, *inputs: Expr) -> list[Expr]:
        """Return the outputs as expressions of the inputs and of the enclosing graph."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of an ONNX graph, with the types and values of its inputs."""

    op_type: str
    """The operator."""
    version: int
    """The version of the operator set."""
    name: str
    """The name of the node, or that of its first output."""
    inputs: tuple[Expr | None, ...]
    """The inputs; None for an omitted input."""
    outputs: tuple[str, ...]
    """The names of the outputs; `""` for an unused output."""
    attributes: Mapping[str, AttributeValue]
    """The attributes that are set."""
    subgraphs: Mapping[str, Subgraph]
    """The attributes that are graphs."""
    facts: Facts
    """Types and values of expressions."""
    config: Mapping[str, object]
    """The `convert_config`."""

    def unsupported(self, reason: str) -> OpNotImplementedError:
        """Return the error for a node that cannot be imported, with a reason."""
        return OpNotImplementedError(
            f"cannot import node {self.name!r} ({self.op_type}, operator set {self.version}): {reason}"
        )

    def __getitem__(self, index: int) -> Expr:
        """Return a required input."""
        expr = self.get(index)
        if expr is None:
            raise self.unsupported(f"input {index} is missing")
        return expr

    def get(self, index: int) -> Expr | None:
        """Return an input, or None if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def present_inputs(self) -> list[Expr]:
        """Return all inputs that are not omitted."""
        return [expr for expr in self.inputs if expr is not None]

    def is_used(self, index: int) -> bool:
        """Return whether an output is used."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def constant_value(self, expr: Expr | None) -> Array | None:
        """Return the value of an expression, or None if it depends on a model input."""
        value = None if expr is None else self.facts.value_of(expr)
        return value if isinstance(value, np.ndarray) else None

    def value(self, index: int) -> Array | None:
        """Return the value of an input, or None if it is omitted.

        Raises:
            OpNotImplementedError: if the value depends on the inputs of the model.

        """
        expr = self.get(index)
        value = self.constant_value(expr)
        if value is None and expr is not None:
            raise self.unsupported(f"input {index} determines a shape and must not depend on the inputs of the model")
        return value

    def ints(self, index: int) -> tuple[int, ...] | None:
        """Return the value of an input as a tuple of integers; see `value`."""
        value = self.value(index)
        return None if value is None else tuple(int(element) for element in value.reshape(-1).tolist())

    def ints_or_expr(self, index: int) -> tuple[int, ...] | Expr:
        """Return an input as a tuple of integers, or as itself if it is not constant."""
        expr = self[index]
        return expr if self.constant_value(expr) is None else self.ints(index) or ()

    def scalar(self, index: int, default: float) -> float:
        """Return the value of a scalar input, or `default` if it is omitted; see `value`."""
        value = self.value(index)
        return default if value is None else float(value.reshape(-1).tolist()[0])

    def type_of(self, expr: Expr) -> TensorType:
        """Return the type of an expression, which must be a tensor."""
        ty = self.facts.type_of(expr)
        if not isinstance(ty, TensorType):
            raise self.unsupported(f"an operand must be a tensor, got a value of type {ty}")
        return ty

    def shape(self, expr: Expr) -> tuple[Dim, ...]:
        """Return the dimensions of an expression."""
        return self.type_of(expr).shape

    def static_shape(self, expr: Expr) -> tuple[int, ...]:
        """Return the dimensions of an expression.

        Raises:
            OpNotImplementedError: if a dimension is not known.

        """
        ty = self.type_of(expr)
        if not ty.is_static:
            raise self.unsupported(f"every dimension of {ty} must be known; set them with from_onnx(..., shape=...)")
        return ty.concrete_shape

    def static_dim(self, expr: Expr, axis: int) -> int:
        """Return one dimension, which must be known; see `static_shape`."""
        dim = self.shape(expr)[axis]
        return dim if isinstance(dim, int) else self.static_shape(expr)[axis]

    def rank(self, expr: Expr) -> int:
        """Return the number of dimensions of an expression."""
        return len(self.type_of(expr).shape)

    def dtype(self, expr: Expr) -> str:
        """Return the element type of an expression."""
        return self.type_of(expr).dtype

    def is_float(self, expr: Expr) -> bool:
        """Return whether the elements are floating-point numbers."""
        return "float" in self.dtype(expr)

    def axis(self, expr: Expr, default: int | None = None, name: str = "axis") -> int:
        """Return an attribute that is an axis of an expression, as a non-negative number."""
        return self.normal_axis(self.integer(name, default), self.rank(expr))

    def normal_axis(self, axis: int, rank: int) -> int:
        """Return an axis as a non-negative number."""
        if not -rank <= axis < rank:
            raise self.unsupported(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def constant(self, value: npt.ArrayLike, like: Expr) -> Constant:
        """Return a constant with the element type of an expression."""
        return Constant(np.asarray(value).astype(np.dtype(self.dtype(like))))

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; it is required if there is no default."""
        return self._attribute(name, int, default)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a float attribute; it is required if there is no default."""
        return self._attribute(name, float, default)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string attribute; it is required if there is no default."""
        return self._attribute(name, str, default)

    def tensor(self, name: str) -> Array | None:
        """Return a tensor attribute, or None if it is not set."""
        value = self.attributes.get(name)
        return value if isinstance(value, np.ndarray) else None

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers, or None if it is not set."""
        return self._list(name, int)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return an attribute that is a list of floats, or None if it is not set."""
        return self._list(name, float)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return an attribute that is a list of strings, or None if it is not set."""
        return self._list(name, str)

    def subgraph(self, name: str) -> Subgraph:
        """Return a required graph attribute."""
        if name not in self.subgraphs:
            raise self.unsupported(f"attribute {name!r} is missing")
        return self.subgraphs[name]

    def _attribute(self, name: str, kind: type[T], default: T | None) -> T:
        value = self.attributes.get(name, default)
        if not isinstance(value, kind):
            raise self.unsupported(f"attribute {name!r} must be of type {kind.__name__}, got {value!r}")
        return value

    def _list(self, name: str, kind: type[T]) -> tuple[T, ...] | None:
        value = self.attributes.get(name)
        if not isinstance(value, tuple):
            return None
        return tuple(element for element in value if isinstance(element, kind))


Converter: TypeAlias = Callable[[Node], Expr | Sequence[Expr]]
"""Translates a node to the expression of its output, or to the list of its outputs."""

Table: TypeAlias = Mapping[tuple[str, str, int], Converter]
"""Converters by domain, operator, and first operator set version that they support."""
