"""`GraphBuilder`: nodes and constants of a graph for one version of the operators."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, defs, helper

from apass.relay.backend.onnx.element_types import elem_type, type_text, usable_dtype
from apass.relay.errors import OpNotImplementedError
from apass.relay.ir.ndarray import Array

__all__ = ["GraphBuilder", "NewerOpsetError", "Tensor"]

_SHARED_BYTES: Final = 1024
"""Constants of at most this size are created once."""

INT64_MAX: Final = int(np.iinfo(np.int64).max)
"""The end of a slice that reaches the last element."""

_INT64_MIN: Final = int(np.iinfo(np.int64).min)


class NewerOpsetError(OpNotImplementedError):
    """A program needs a newer version of ONNX's operators."""

    version: int
    """The version that is needed."""

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of the graph."""

    name: str
    """Its name."""
    dtype: str
    """The element type."""
    value: Array | None = None
    """The value of a constant."""


class _Parameter(Protocol):
    """An input or output in the definition of an operator."""

    @property
    def type_str(self) -> str:
        """The name of a type variable, or a type."""
        ...

    @property
    def types(self) -> set[str]:
        """The types that it may have."""
        ...


class _Schema(Protocol):
    """The members of `onnx.defs.OpSchema` that are used here."""

    @property
    def inputs(self) -> Sequence[_Parameter]:
        """The inputs; the last may be repeated."""
        ...

    @property
    def outputs(self) -> Sequence[_Parameter]:
        """The outputs; the last may be repeated."""
        ...

    @property
    def attributes(self) -> Mapping[str, object]:
        """The attributes by name."""
        ...

    @property
    def since_version(self) -> int:
        """The first version with this definition."""
        ...


@cache
def _versions(op_type: str) -> Sequence[_Schema]:
    """Return all definitions of an operator, the oldest first."""
    schemas = cast("Iterable[Any]", defs.get_all_schemas_with_history())
    found = [schema for schema in schemas if schema.name == op_type and schema.domain == "" and not schema.deprecated]
    return sorted(found, key=lambda schema: schema.since_version)


@cache
def _allowed(op_type: str, version: int, index: int) -> frozenset[str]:
    """Return the types of an input in a definition of an operator."""
    schema = next(schema for schema in _versions(op_type) if schema.since_version == version)
    return frozenset(_at(schema.inputs, index).types)


def _at(parameters: Sequence[_Parameter], index: int) -> _Parameter:
    return parameters[min(index, len(parameters) - 1)]


class GraphBuilder:
    """The nodes of a graph, and the operations to add some.

    Methods hide the differences between versions of ONNX. Operations on constants are computed at once.
    """

    def __init__(self, opset: int) -> None:
        self.opset: Final = opset
        """The version of the operators."""
        self.nodes: list[NodeProto] = []
        """The nodes of the current graph, or subgraph, in topological order."""
        self.initializers: dict[str, Array] = {}
        """The values of constants by name. Subgraphs use those of the outermost graph."""
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}
        self._transposed: dict[str, tuple[Tensor, Sequence[int]]] = {}

    def unique_name(self, hint: str) -> str:
        """Return a name that no other tensor or node has; the hint itself if possible."""
        name = hint
        while not name or name in self._names:
            number = self._numbers[hint] = self._numbers.get(hint, 0) + 1
            name = f"{hint}_{number}"
        self._names.add(name)
        return name

    @contextmanager
    def subgraph(self) -> Generator[list[NodeProto]]:
        """Collect nodes in a new list while the context is active."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    def initializer(self, hint: str, value: Array) -> Tensor:
        """Return a constant with a name."""
        name = self.unique_name(hint)
        self.initializers[name] = value
        return Tensor(name, str(value.dtype), value)

    def constant(self, value: npt.ArrayLike, dtype: str | None = None) -> Tensor:
        """Return a constant; small equal ones are the same tensor."""
        array: Array = np.asarray(value) if dtype is None else np.asarray(value).astype(np.dtype(dtype))
        elem_type(str(array.dtype))
        if array.nbytes > _SHARED_BYTES:
            return self.initializer("constant", array)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.initializer("constant", array)
        return self._constants[key]

    def ints(self, values: Iterable[int]) -> Tensor:
        """Return a constant vector of 64-bit integers."""
        return self.constant(np.array(list(values), np.int64))

    def node(self, op_type: str, inputs: Iterable[str], outputs: Iterable[str], **attributes: Any) -> None:
        """Add a node as it is."""
        name = self.unique_name(op_type)
        self.nodes.append(helper.make_node(op_type, list(inputs), list(outputs), name=name, **attributes))

    def emit(self, op_type: str, *inputs: Tensor | None, dtype: str | None = None, **attributes: object) -> Tensor:
        """Add a node and return its output.

        Operands are cast to a type that the operator supports, and the output is cast back.

        Parameters:
            op_type: the operator.
            inputs: the inputs; None for an omitted one.
            dtype: the element type of the output; by default that of the first input.
            attributes: the attributes; None for an omitted one.

        Raises:
            NewerOpsetError: if only a newer version of the operator supports the types or attributes.
            OpNotImplementedError: if no version does.

        """
        return self.emit_all(op_type, inputs, [dtype], **attributes)[0]

    def emit_all(
        self, op_type: str, inputs: Sequence[Tensor | None], dtypes: Sequence[str | None], **attributes: object
    ) -> list[Tensor]:
        """Add a node and return all outputs; see `emit`."""
        schema = self._schema(op_type)
        used = {name: value for name, value in attributes.items() if value is not None}
        self._check_attributes(op_type, schema, used)
        bound: dict[str, str] = {}
        names: list[str] = []
        for index, tensor in enumerate(inputs):
            if tensor is None:
                names.append("")
                continue
            variable = _at(schema.inputs, index).type_str
            if variable not in bound:
                bound[variable] = self._usable(op_type, schema, index, tensor.dtype)
            names.append(self.cast(tensor, bound[variable]).name)
        while names and not names[-1]:
            names.pop()
        first = next((tensor.dtype for tensor in inputs if tensor is not None), "float32")
        wanted = [first if dtype is None else dtype for dtype in dtypes]
        raw = [self._output_dtype(op_type, schema, index, dtype, bound) for index, dtype in enumerate(wanted)]
        outputs = [Tensor(self.unique_name(f"{op_type.lower()}_out"), dtype) for dtype in raw]
        self.node(op_type, names, [output.name for output in outputs], **used)
        return [self.cast(output, dtype) for output, dtype in zip(outputs, wanted, strict=True)]

    def _schema(self, op_type: str) -> _Schema:
        versions = _versions(op_type)
        schema = next((schema for schema in reversed(versions) if schema.since_version <= self.opset), None)
        if schema is None:
            if not versions:
                raise OpNotImplementedError(f"the installed onnx has no operator {op_type}; install a newer one")
            raise self._newer(f"operator {op_type}", versions[0].since_version)
        return schema

    def _newer(self, what: str, version: int) -> NewerOpsetError:
        return NewerOpsetError(
            f"{what} needs operator set {version} or newer, got {self.opset}; pass opset_version={version}", version
        )

    def _later(self, op_type: str) -> Iterable[_Schema]:
        return (schema for schema in _versions(op_type) if schema.since_version > self.opset)

    def _check_attributes(self, op_type: str, schema: _Schema, attributes: Mapping[str, object]) -> None:
        for name in attributes:
            if name not in schema.attributes:
                newer = next(later for later in self._later(op_type) if name in later.attributes)
                raise self._newer(f"attribute {name} of operator {op_type}", newer.since_version)

    def _usable(self, op_type: str, schema: _Schema, index: int, dtype: str) -> str:
        found = usable_dtype(op_type, dtype, _allowed(op_type, schema.since_version, index))
        if found is not None:
            return found
        for later in self._later(op_type):
            if usable_dtype(op_type, dtype, _allowed(op_type, later.since_version, index)) is not None:
                raise self._newer(f"operator {op_type} of element type {dtype}", later.since_version)
        raise OpNotImplementedError(f"operator {op_type} of ONNX has no element type {dtype}; cast the operands")

    def _output_dtype(self, op_type: str, schema: _Schema, index: int, wanted: str, bound: Mapping[str, str]) -> str:
        parameter = _at(schema.outputs, index)
        fixed = {"tensor(bool)": "bool", "tensor(int64)": "int64"}
        if parameter.type_str in bound:
            return bound[parameter.type_str]
        types = list(parameter.types)
        if len(types) == 1:
            return fixed.get(types[0], wanted)
        if type_text(wanted) not in types:
            what = f"operator {op_type} with results of element type {wanted}"
            for later in self._later(op_type):
                if type_text(wanted) in _at(later.outputs, index).types:
                    raise self._newer(what, later.since_version)
            raise OpNotImplementedError(f"{what} does not exist in ONNX; cast the tensor to another type")
        return wanted

    def cast(self, tensor: Tensor, dtype: str) -> Tensor:
        """Return a tensor with another element type."""
        if tensor.dtype == dtype:
            return tensor
        if tensor.value is not None:
            with np.errstate(all="ignore"):
                return self.constant(tensor.value.astype(np.dtype(dtype)))
        # Relay's cast does not saturate.
        is_small_float = dtype.startswith("float8") and dtype != "float8_e8m0fnu"
        return self.emit("Cast", tensor, dtype=dtype, to=elem_type(dtype), saturate=0 if is_small_float else None)

    def reshape(self, tensor: Tensor, dims: Sequence[int]) -> Tensor:
        """Return a tensor with other dimensions; 0 copies a dimension, -1 is inferred."""
        if tensor.value is not None and 0 not in dims:
            return self.constant(tensor.value.reshape(tuple(dims)))
        return self.emit("Reshape", tensor, self.ints(dims))

    def transpose(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        """Return a tensor with its dimensions in another order.

        An order that undoes an earlier one returns the source.
        """
        source, before = self._transposed.get(tensor.name, (tensor, range(len(order))))
        combined = [before[axis] for axis in order]
        if combined == sorted(combined):
            return source
        if tensor.value is not None:
            return self.constant(np.ascontiguousarray(tensor.value.transpose(tuple(order))))
        result = self.emit("Transpose", source, perm=combined)
        self._transposed[result.name] = source, combined
        return result

    def is_transposed(self, tensor: Tensor, order: Sequence[int]) -> bool:
        """Return whether a tensor is another one with its dimensions in an order."""
        return tensor.name in self._transposed and list(self._transposed[tensor.name][1]) == list(order)

    def unsqueeze(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """Return a tensor with dimensions of size 1 inserted."""
        if not axes:
            return tensor
        if tensor.value is not None:
            return self.constant(np.expand_dims(tensor.value, tuple(axes)))
        if self.opset < 13:
            return self.emit("Unsqueeze", tensor, axes=list(axes))
        return self.emit("Unsqueeze", tensor, self.ints(axes))

    def squeeze(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """Return a tensor without dimensions of size 1."""
        if not axes:
            return tensor
        if tensor.value is not None:
            return self.constant(np.squeeze(tensor.value, tuple(axes)))
        if self.opset < 13:
            return self.emit("Squeeze", tensor, axes=list(axes))
        return self.emit("Squeeze", tensor, self.ints(axes))

    def gather(self, tensor: Tensor, indices: Tensor, axis: int) -> Tensor:
        """Return the slices at indices along an axis."""
        return self.emit("Gather", tensor, indices, axis=axis)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return several tensors joined along an axis."""
        return tensors[0] if len(tensors) == 1 else self.emit("Concat", *tensors, axis=axis)

    def slice(
        self,
        tensor: Tensor,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> Tensor:
        """Return the elements between bounds of axes."""
        if not axes:
            return tensor
        has_steps = steps is not None and any(step != 1 for step in steps)
        if self.opset < 10 and not has_steps:
            return self.emit("Slice", tensor, starts=list(starts), ends=list(ends), axes=list(axes))
        parts = [starts, ends, axes, *([steps] if has_steps and steps is not None else [])]
        if self.opset < 10:
            raise self._newer("operator Slice with steps", 10)
        return self.emit("Slice", tensor, *map(self.ints, parts))

    def shape(self, tensor: Tensor) -> Tensor:
        """Return the shape as a vector."""
        return self.emit("Shape", tensor, dtype="int64")

    def dim(self, tensor: Tensor, axis: int) -> Tensor:
        """Return one dimension as a vector of one element."""
        return self.gather(self.shape(tensor), self.ints([axis]), 0)

    def joined(self, dims: Sequence["int | Tensor"]) -> Tensor:
        """Return a vector of numbers and of vectors."""
        known = [dim for dim in dims if isinstance(dim, int)]
        if len(known) == len(dims):
            return self.ints(known)
        return self.concat([self.ints([dim]) if isinstance(dim, int) else dim for dim in dims], 0)

    def ordered(self, tensor: Tensor) -> Tensor:
        """Return 64-bit numbers without sign as numbers with sign in the same order.

        onnxruntime orders only the latter. Other tensors are returned as they are.
        """
        if tensor.dtype != "uint64":
            return tensor
        return self.emit("Add", self.cast(tensor, "int64"), self.constant(_INT64_MIN, "int64"))

    def restored(self, tensor: Tensor, dtype: str) -> Tensor:
        """Return numbers of `ordered` with their element type."""
        if tensor.dtype == dtype:
            return tensor
        return self.cast(self.emit("Sub", tensor, self.constant(_INT64_MIN, "int64")), dtype)

    def reduce(self, op_type: str, tensor: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
        """Return a reduction over axes, such as `ReduceSum`."""
        if not axes:
            return tensor
        if tensor.dtype == "uint64" and op_type in ("ReduceMax", "ReduceMin"):
            return self.restored(self.reduce(op_type, self.ordered(tensor), axes, keepdims), tensor.dtype)
        if self.opset >= (13 if op_type == "ReduceSum" else 18):
            return self.emit(op_type, tensor, self.ints(axes), keepdims=int(keepdims))
        return self.emit(op_type, tensor, axes=list(axes), keepdims=int(keepdims))

    def split(self, tensor: Tensor, sizes: Sequence[int], axis: int) -> list[Tensor]:
        """Return the parts of a tensor along an axis."""
        dtypes = [tensor.dtype] * len(sizes)
        if self.opset < 13:
            return self.emit_all("Split", [tensor], dtypes, axis=axis, split=list(sizes))
        return self.emit_all("Split", [tensor, self.ints(sizes)], dtypes, axis=axis)

    def extreme(self, op_type: str, left: Tensor, right: Tensor) -> Tensor:
        """Return the elementwise `Max` or `Min` of two tensors of one type."""
        if self.opset < 8:
            raise self._newer(f"operator {op_type} with operands of different shapes", 8)
        if self.opset >= 12 or "float" in left.dtype:
            return self.emit(op_type, left, right)
        comparison = self.emit("Less" if op_type == "Min" else "Greater", left, right, dtype="bool")
        return self.where(comparison, left, right)

    def where(self, condition: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return elements of one tensor where a condition is true, else of another."""
        return self.emit("Where", condition, left, right, dtype=left.dtype)

    def bounded(self, tensor: Tensor, low: int | Tensor, high: int | Tensor) -> Tensor:
        """Return integers limited to two bounds."""
        bounds = [
            self.constant(bound, tensor.dtype) if isinstance(bound, int) else self.cast(bound, tensor.dtype)
            for bound in (low, high)
        ]
        return self.extreme("Min", self.extreme("Max", tensor, bounds[0]), bounds[1])

    def pad(self, tensor: Tensor, pads: Sequence[int], value: Tensor | None, mode: str = "constant") -> Tensor:
        """Return a tensor with elements added before all axes, and then after all."""
        if not any(pads):
            return tensor
        if self.opset >= 11:
            return self.emit("Pad", tensor, self.ints(pads), value, mode=mode)
        if value is not None and value.value is None:
            raise self._newer("operator Pad with a computed value", 11)
        number = 0.0 if value is None or value.value is None else float(value.value.reshape(-1).astype("float64")[0])
        return self.emit("Pad", tensor, pads=list(pads), value=number, mode=mode)
