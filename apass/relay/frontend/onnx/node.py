"""`Node`: what a converter is given, one node of the graph with its inputs as Relay expressions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from apass.relay.errors import OpNotImplementedError
from apass.relay.expr import Constant, Expr
from apass.relay.frontend.onnx.facts import Facts
from apass.relay.ir.ndarray import Array
from apass.relay.ty import Dim, TensorType

__all__ = ["AttributeValue", "Converter", "Node", "Subgraph", "Table"]

T = TypeVar("T", int, float, str)

AttributeValue: TypeAlias = int | float | str | Array | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
"""The value of an attribute."""


class Subgraph(Protocol):
    """A graph that is an attribute of a node; the importer gives it."""

    def __call__(self, *inputs: Expr) -> list[Expr]:
        """Return its outputs, as expressions of the inputs and of what is around the node."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of an ONNX graph: attributes, inputs, and what is known about them."""

    op_type: str
    """The operator."""
    version: int
    """The version of the operator set."""
    name: str
    """The name of the node, or that of its first output."""
    inputs: tuple[Expr | None, ...]
    """The inputs; None for those left out."""
    outputs: tuple[str, ...]
    """The names of the outputs; `""` for those that nobody uses."""
    attributes: Mapping[str, AttributeValue]
    """The attributes that are set."""
    subgraphs: Mapping[str, Subgraph]
    """The attributes that are graphs."""
    facts: Facts
    """What is known about expressions."""
    config: Mapping[str, object]
    """The `convert_config`."""

    def unsupported(self, why: str) -> OpNotImplementedError:
        """Return the error for a node that cannot be imported; the message ends with `why`."""
        return OpNotImplementedError(
            f"the node {self.name!r} ({self.op_type}, operator set {self.version}) cannot be imported: {why}"
        )

    def __getitem__(self, index: int) -> Expr:
        """Return an input that has to be there."""
        given = self.get(index)
        if given is None:
            raise self.unsupported(f"it has no input {index}")
        return given

    def get(self, index: int) -> Expr | None:
        """Return an input, None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def given(self) -> list[Expr]:
        """Return all inputs that are not left out."""
        return [one for one in self.inputs if one is not None]

    def wants(self, index: int) -> bool:
        """Tell whether somebody uses an output."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def known(self, expr: Expr | None) -> Array | None:
        """Return the value of an expression of constants and weights alone, None if it depends on an input."""
        value = None if expr is None else self.facts.value_of(expr)
        return value if isinstance(value, np.ndarray) else None

    def value(self, index: int) -> Array | None:
        """Return the value of an input, None if it is left out.

        Raises:
            OpNotImplementedError: if the value depends on the inputs of the model.

        """
        given = self.get(index)
        known = self.known(given)
        if known is None and given is not None:
            raise self.unsupported(f"its input {index} decides a shape, but is computed from the inputs of the model")
        return known

    def ints(self, index: int) -> tuple[int, ...] | None:
        """Return the value of an input that lists integers; see `value`."""
        value = self.value(index)
        return None if value is None else tuple(int(one) for one in value.reshape(-1).tolist())

    def ints_or_expr(self, index: int) -> tuple[int, ...] | Expr:
        """Return the value of an input that lists integers, or the input itself if it is known at run time only."""
        given = self[index]
        return given if self.known(given) is None else self.ints(index) or ()

    def scalar(self, index: int, default: float) -> float:
        """Return the value of an input that is one number, `default` if it is left out; see `value`."""
        value = self.value(index)
        return default if value is None else float(value.reshape(-1).tolist()[0])

    def type_of(self, expr: Expr) -> TensorType:
        """Return the type of an expression that has to be a tensor."""
        found = self.facts.type_of(expr)
        if not isinstance(found, TensorType):
            raise self.unsupported(f"one of its inputs is no tensor, but of type {found}")
        return found

    def shape(self, expr: Expr) -> tuple[Dim, ...]:
        """Return the dimensions of an expression."""
        return self.type_of(expr).shape

    def static_shape(self, expr: Expr) -> tuple[int, ...]:
        """Return the dimensions of an expression.

        Raises:
            OpNotImplementedError: if one is not known.

        """
        ty = self.type_of(expr)
        if not ty.is_static:
            raise self.unsupported(f"a dimension of {ty} is not known; give it with from_onnx(..., shape=...)")
        return ty.concrete_shape

    def static_dim(self, expr: Expr, axis: int) -> int:
        """Return one dimension, which has to be known; see `static_shape`."""
        dim = self.shape(expr)[axis]
        return dim if isinstance(dim, int) else self.static_shape(expr)[axis]

    def rank(self, expr: Expr) -> int:
        """Return the number of dimensions of an expression."""
        return len(self.type_of(expr).shape)

    def dtype(self, expr: Expr) -> str:
        """Return the element type of an expression."""
        return self.type_of(expr).dtype

    def is_float(self, expr: Expr) -> bool:
        """Tell whether the elements are floating-point numbers."""
        return "float" in self.dtype(expr)

    def axis(self, expr: Expr, default: int | None = None, name: str = "axis") -> int:
        """Return an attribute that is an axis of an expression, counted from the front."""
        return self.normal_axis(self.integer(name, default), self.rank(expr))

    def normal_axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front."""
        if not -rank <= axis < rank:
            raise self.unsupported(f"it asks for axis {axis} of {rank}")
        return axis % rank

    def constant(self, value: npt.ArrayLike, like: Expr) -> Constant:
        """Return a constant of the element type of an expression."""
        return Constant(np.asarray(value).astype(np.dtype(self.dtype(like))))

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an attribute that is an integer; without a default, it has to be there."""
        return self._attribute(name, int, default)

    def number(self, name: str, default: float | None = None) -> float:
        """Return an attribute that is a float; without a default, it has to be there."""
        return self._attribute(name, float, default)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an attribute that is a string; without a default, it has to be there."""
        return self._attribute(name, str, default)

    def tensor(self, name: str) -> Array | None:
        """Return an attribute that is a tensor, None if it is not set."""
        given = self.attributes.get(name)
        return given if isinstance(given, np.ndarray) else None

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that lists integers, None if it is not set."""
        return self._listed(name, int)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return an attribute that lists floats, None if it is not set."""
        return self._listed(name, float)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return an attribute that lists strings, None if it is not set."""
        return self._listed(name, str)

    def subgraph(self, name: str) -> Subgraph:
        """Return an attribute that is a graph."""
        if name not in self.subgraphs:
            raise self.unsupported(f"it has no attribute {name!r}")
        return self.subgraphs[name]

    def _attribute(self, name: str, kind: type[T], default: T | None) -> T:
        given = self.attributes.get(name, default)
        if not isinstance(given, kind):
            raise self.unsupported(f"its attribute {name!r} must be of type {kind.__name__}, not {given!r}")
        return given

    def _listed(self, name: str, kind: type[T]) -> tuple[T, ...] | None:
        given = self.attributes.get(name)
        if not isinstance(given, tuple):
            return None
        return tuple(one for one in given if isinstance(one, kind))


Converter: TypeAlias = Callable[[Node], Expr | Sequence[Expr]]
"""Translates a node to the expression of its output, or to those of all its outputs."""

Table: TypeAlias = Mapping[tuple[str, str, int], Converter]
"""Converters by domain, operator, and the version of the operator since which it applies."""
