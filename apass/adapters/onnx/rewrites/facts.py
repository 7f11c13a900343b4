"""What is known of the values of a graph: types, shapes, and numbers.

Facts hold for every input that the model accepts. The declared types of inputs are trusted. The shapes that a model
declares for other values are not used.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import numpy as np
import onnx
import onnx_ir as ir

from apass.adapters.onnx.rewrites.kernels import (
    KERNELS,
    Array,
    Call,
    NotExactError,
    axes_of,
    evaluate,
    is_ambiguous,
    slice_bounds,
)
from apass.adapters.onnx.rewrites.schema_inference import Operand, infer_results

__all__ = ["Dim", "Facts", "Shape", "attributes", "broadcast", "constant_tensor", "is_onnx", "subgraphs"]

Dim: TypeAlias = int | str
"""A size, or the symbol of an unknown one. Dimensions with equal symbols have equal sizes."""

Shape: TypeAlias = tuple[Dim, ...]

MAX_ELEMENTS: Final = 64
"""Maximum number of elements of a tensor whose elements are tracked one by one."""

ENDLESS: Final = 2**62
"""An end of a slice from which it means the end of the axis."""

INVALID: Final = (NotExactError, IndexError, ValueError, TypeError, KeyError, ArithmeticError)
"""Errors of rules for nodes whose operands are invalid."""

_SAME_TYPE: Final = frozenset(
    {
        *(
            "Abs",
            "Acos",
            "Acosh",
            "Asin",
            "Asinh",
            "Atan",
            "Atanh",
            "BitwiseNot",
            "Ceil",
            "Celu",
            "Clip",
            "Cos",
            "Cosh",
        ),
        *("CumSum", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LayerNormalization"),
        *("LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink"),
        *(
            "Sigmoid",
            "Sign",
            "Sin",
            "Sinh",
            "Softmax",
            "Softplus",
            "Softsign",
            "Sqrt",
            "Tan",
            "Tanh",
            "ThresholdedRelu",
        ),
        *("Trilu", "ScatterND", "ScatterElements"),
    }
)
"""Operators whose first result has the type and the shape of the first operand."""

_BROADCAST: Final = frozenset(
    {"Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu"}
    | {"Pow", "Sub", "Sum", "Xor"}
)
"""Operators that broadcast their operands, and whose result has the type of the first operand."""

_COMPARISONS: Final = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})

_BROADCAST_SINCE: Final = 7
"""The version of the operator set from which operands are broadcast as in numpy."""

SCAN_SINCE: Final = 9
"""The version of the operator set in which Scan got its present form."""

_SPECIAL: Final = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators with subgraphs, whose results get no shapes."""


def is_onnx(node: ir.Node) -> bool:
    """Return whether an operator is from ONNX itself, with all attributes given."""
    return node.domain == "" and not any(attr.is_ref() for attr in node.attributes.values())


@lru_cache(maxsize=1024)
def _required_inputs(op_type: str, version: int) -> int | None:
    """Return the number of required operands, or None for an unknown operator."""
    try:
        return onnx.defs.get_schema(op_type, version, "").min_input
    except onnx.defs.SchemaError:
        return None


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """Return the graphs among the attributes of a node."""
    graphs: list[ir.Graph] = []
    for attr in node.attributes.values():
        if attr.type is ir.AttributeType.GRAPH and not attr.is_ref():
            graphs.append(attr.as_graph())
        elif attr.type is ir.AttributeType.GRAPHS and not attr.is_ref():
            graphs += attr.as_graphs()
    return graphs


def attributes(node: ir.Node) -> dict[str, Any]:
    """Return the values of the attributes of a node."""
    return {name: attr.value for name, attr in node.attributes.items()}


def broadcast(shapes: Iterable[Shape], fresh: Callable[[], Dim]) -> Shape:
    """Return the shape to which operands are broadcast; `fresh` creates a symbol."""
    shapes = list(shapes)
    rank = max(map(len, shapes))
    result: list[Dim] = []
    for axis in range(-rank, 0):
        dims = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        sizes = [dim for dim in dims if isinstance(dim, int)]
        if not dims:
            result.append(1)
        elif sizes:
            # An unknown size must be 1 or equal.
            result.append(sizes[0])
        else:
            result.append(dims.pop() if len(dims) == 1 else fresh())
    return tuple(result)


class Facts:
    """Types, shapes and constants of the values of one graph with its subgraphs.

    Parameters:
        graph: the main graph, or the graph of a function.
        is_main: whether it is the main graph, whose inputs have declared types.
        max_bytes: maximum size of a constant that is read or computed.
        budget: maximum number of bytes of all computed constants.

    """

    def __init__(self, graph: ir.Graph, max_bytes: int, budget: int, *, is_main: bool) -> None:
        self._graph = graph
        self._is_main = is_main
        self.version = graph.opset_imports.get("", 0)
        """The version of the default operator set; 0 if it is not imported."""
        self.limited = False
        """Whether a constant was not read or computed because of its size."""
        self._max_bytes = max_bytes
        self._budget = budget
        self._constants: dict[ir.Value, Array | None] = {}
        self._shapes: dict[ir.Value, Shape] = {}
        self._types: dict[ir.Value, ir.DataType] = {}
        self._elements: dict[ir.Value, Shape] = {}
        self._symbols = 0

    def constant(self, value: ir.Value | None) -> Array | None:
        """Return the numbers of a value that is constant and small, or None."""
        if value is None:
            return None
        if value not in self._constants:
            self._constants[value] = self._read(value)
        return self._constants[value]

    def integers(self, value: ir.Value | None) -> list[int] | None:
        """Return the numbers of a constant of integers, or None."""
        array = self.constant(value)
        if array is None or array.dtype.kind not in "iu" or array.size > self._max_bytes:
            return None
        return [int(number) for number in array.reshape(-1)]

    def shape(self, value: ir.Value | None) -> Shape | None:
        """Return the shape of a value, or None if not even its rank is known."""
        if value is None:
            return None
        if value not in self._shapes and value.producer() is None:
            self._enter(value)
        return self._shapes.get(value)

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """Return the type of the elements of a tensor, or None."""
        if value is None:
            return None
        return self._types.get(value) or (value.dtype if isinstance(value.type, ir.TensorType) else None)

    def elements(self, value: ir.Value | None) -> Shape | None:
        """Return the elements of a short tensor of integers, as far as they are known."""
        if value is None:
            return None
        if value in self._elements:
            return self._elements[value]
        array = self.constant(value)
        if array is None or array.dtype.name not in ("int64", "int32") or array.ndim > 1 or array.size > MAX_ELEMENTS:
            return None
        return tuple(int(number) for number in array.reshape(-1))

    def fresh(self) -> str:
        """Return a new symbol."""
        self._symbols += 1
        return f"?{self._symbols}"

    def is_static(self, value: ir.Value | None) -> bool:
        """Return whether all dimensions of a value are known."""
        shape = self.shape(value)
        return shape is not None and all(isinstance(dim, int) for dim in shape)

    def knows(self, node: ir.Node) -> bool:
        """Return whether a node is a valid use of an operator of the default operator set."""
        if not self.version or not is_onnx(node):
            return False
        required = _required_inputs(node.op_type, self.version)
        return (
            required is not None
            and len(node.inputs) >= required
            and None not in node.inputs[:required]
            and len(node.outputs) > 0
        )

    def record(self, node: ir.Node) -> None:
        """Infer the facts of the results of a node, whose operands are known."""
        if not self.knows(node) or node.op_type in _SPECIAL:
            return
        if node.op_type == "Constant":
            self._enter(node.outputs[0])
            return
        self._infer(node)
        self._track(node)
        if node.op_type in KERNELS:
            self._evaluate(node)
        for value in node.outputs:
            if 0 in self._shapes.get(value, ()) and value not in self._constants:
                self._record_empty(value)

    def enter_bodies(self, node: ir.Node) -> None:
        """Record the facts of the inputs of the subgraphs of a node."""
        if not is_onnx(node) or node.op_type not in ("Loop", "Scan") or self.version < SCAN_SINCE:
            return
        body = node.attributes["body"].as_graph()
        if node.op_type == "Loop":
            for value, dtype in zip(body.inputs, (ir.DataType.INT64, ir.DataType.BOOL), strict=False):
                self._set(value, (), dtype)
            # A value that is carried from one iteration to the next keeps its type, but not its shape.
            for outer, value in zip(node.inputs[2:], body.inputs[2:], strict=False):
                self._set(value, None, self.dtype(outer))
            return
        states = len(node.inputs) - int(attributes(node)["num_scan_inputs"])
        axes = attributes(node).get("scan_input_axes") or [0] * (len(node.inputs) - states)
        for index, (outer, value) in enumerate(zip(node.inputs, body.inputs, strict=False)):
            shape = self.shape(outer)
            if index >= states and shape:
                axis = axes[index - states] % len(shape)
                shape = (*shape[:axis], *shape[axis + 1 :])
            self._set(value, shape, self.dtype(outer))

    def leave_bodies(self, node: ir.Node) -> None:
        """Record the facts of the results of a node from those of its subgraphs."""
        if not is_onnx(node) or self.version < SCAN_SINCE:
            return
        if node.op_type in ("Loop", "Scan"):
            outputs = node.attributes["body"].as_graph().outputs[node.op_type == "Loop" :]
            states = len(node.inputs) - int(attributes(node).get("num_scan_inputs", 2))
            for index, (inner, value) in enumerate(zip(outputs, node.outputs, strict=False)):
                keeps = node.op_type == "Scan" and index < states
                self._set(value, self.shape(node.inputs[index]) if keeps else None, self.dtype(inner))
        elif node.op_type == "If":
            branches = [graph.outputs for graph in subgraphs(node)]
            for value, *results in zip(node.outputs, *branches, strict=False):
                shapes = {self.shape(result) for result in results}
                self._set(value, shapes.pop() if len(shapes) == 1 else None, self.dtype(results[0]))

    def copy(self, old: ir.Value, new: ir.Value) -> None:
        """Take over the facts of a value that is replaced by an equal one."""
        for facts in (self._constants, self._shapes, self._types, self._elements):
            if old in facts:
                cast("dict[ir.Value, Any]", facts)[new] = facts[old]

    def _read(self, value: ir.Value) -> Array | None:
        """Return the numbers of an initializer or a Constant node."""
        tensor = constant_tensor(value)
        if tensor is None or tensor.dtype == ir.DataType.STRING:
            return None
        if tensor.nbytes > self._max_bytes:
            self.limited = True
            return None
        array = tensor.numpy()
        return array if array.shape == tuple(tensor.shape.numpy()) else None

    def _enter(self, value: ir.Value) -> None:
        """Record what is declared for an input, an initializer, or a Constant node."""
        tensor = constant_tensor(value)
        if tensor is not None:
            self._shapes[value], self._types[value] = tuple(tensor.shape.numpy()), tensor.dtype
        elif isinstance(value.type, ir.TensorType) and value.shape is not None and self._is_trusted(value):
            # Some exporters write -1 or 0 for a size that varies.
            dims = [dim if isinstance(dim, int) and dim > 0 else self.fresh() for dim in value.shape]
            self._shapes[value] = tuple(dims)

    def _is_trusted(self, value: ir.Value) -> bool:
        # Callers must respect the types of the main graph's inputs. Those of functions and subgraphs are not declared.
        return self._is_main and value.is_graph_input() and value.graph is self._graph

    def _set(self, value: ir.Value, shape: Shape | None, dtype: ir.DataType | None) -> None:
        if shape is not None:
            self._shapes[value] = shape
        if dtype is not None:
            self._types[value] = dtype

    def _infer(self, node: ir.Node) -> None:
        """Infer types and shapes of the results."""
        first = node.inputs[0] if node.inputs else None
        shape, dtype = self.shape(first), self.dtype(first)
        operator = node.op_type
        output = node.outputs[0]
        if operator in _SAME_TYPE:
            self._set(output, shape, dtype)
            return
        if operator in _BROADCAST or operator in _COMPARISONS or operator == "Where":
            kind = ir.DataType.BOOL if operator in _COMPARISONS else dtype
            kind = self.dtype(node.inputs[1]) if operator == "Where" else kind
            shapes = [self.shape(value) for value in node.inputs]
            known = [item for item in shapes if item is not None]
            if len(known) < len(shapes) or self.version < _BROADCAST_SINCE:
                self._set(output, None, kind)
            else:
                self._set(output, broadcast(known, self.fresh), kind)
            return
        rule = _RULES.get(operator)
        if rule is not None:
            try:
                result = rule(self, node, attributes(node))
            except INVALID:
                return
            if result is not None:
                self._set(output, *result)
                return
        self._infer_by_schema(node)

    def _infer_by_schema(self, node: ir.Node) -> None:
        """Infer types and shapes with the inference function of the operator in onnx."""
        operands: list[Operand | None] = []
        for value in node.inputs:
            dtype = self.dtype(value)
            if value is not None and dtype is None:
                return
            numbers = self.constant(value)
            is_short = numbers is not None and numbers.size <= MAX_ELEMENTS
            operands.append(None if dtype is None else (dtype, self.shape(value), numbers if is_short else None))
        results = infer_results(node, self.version, operands, self.fresh)
        for value, result in zip(node.outputs, results, strict=False):
            if result is not None:
                self._set(value, *result)

    def _track(self, node: ir.Node) -> None:
        """Track the elements of a result that is computed from shapes."""
        rule = _TRACKED.get(node.op_type)
        if rule is None:
            return
        output = node.outputs[0]
        dtype = self.dtype(output)
        if dtype not in (None, ir.DataType.INT64, ir.DataType.INT32):
            return
        try:
            elements = rule(self, node, attributes(node))
        except INVALID:
            return
        if elements is None or len(elements) > MAX_ELEMENTS:
            return
        shape = self.shape(output)
        if shape is None or len(shape) > 1 or len(elements) != (shape[0] if shape else 1):
            return
        self._elements[output] = elements
        if dtype is not None and all(isinstance(element, int) for element in elements):
            limits = np.iinfo(dtype.numpy())
            if all(limits.min <= int(element) <= limits.max for element in elements):
                self._constants[output] = np.array(elements, dtype.numpy()).reshape(cast("tuple[int, ...]", shape))

    def _evaluate(self, node: ir.Node) -> None:
        """Evaluate a node whose operands are constant and whose results are small."""
        if node.outputs[0] in self._constants:
            return
        inputs: list[Array | None] = []
        for value in node.inputs:
            array = self.constant(value)
            if value is not None and array is None:
                return
            inputs.append(array)
        bounds = [self.size(value) for value in node.outputs if value.name]
        if None in bounds or not bounds:
            return
        sizes = [size for size in bounds if size is not None]
        if max(sizes) > self._max_bytes or sum(sizes) > self._budget:
            self.limited = True
            return
        attrs = attributes(node)
        if node.op_type == "Split" and "split" not in attrs and len(inputs) == 1:
            parts = [self.shape(value) for value in node.outputs]
            attrs["split"] = [shape[attrs.get("axis", 0)] for shape in parts if shape is not None]
        results = evaluate(node.op_type, Call(self.version, attrs, inputs))
        if results is None:
            return
        for value, array in zip(node.outputs, results, strict=False):
            dtype = self.dtype(value)
            if array.shape == self.shape(value) and dtype is not None and array.dtype == dtype.numpy():
                array.flags.writeable = False
                self._budget -= array.nbytes
                self._constants[value] = array

    def _record_empty(self, value: ir.Value) -> None:
        """Record the constant without elements."""
        shape, dtype = self._shapes[value], self.dtype(value)
        if dtype is not None and dtype != ir.DataType.STRING and all(isinstance(dim, int) for dim in shape):
            self._constants[value] = np.empty(cast("tuple[int, ...]", shape), dtype.numpy())

    def size(self, value: ir.Value) -> int | None:
        """Return the number of bytes of a tensor, or None if it is not known."""
        shape, dtype = self.shape(value), self.dtype(value)
        if shape is None or dtype is None or dtype == ir.DataType.STRING:
            return None
        sizes = [dim for dim in shape if isinstance(dim, int)]
        return math.prod(sizes) * max(dtype.numpy().itemsize, 1) if len(sizes) == len(shape) else None


def constant_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of a fixed initializer or of a Constant node."""
    if value.is_initializer():
        return None if value.is_graph_input() else value.const_value
    node = value.producer()
    if node is None or node.op_type != "Constant" or not is_onnx(node) or len(node.attributes) != 1:
        return None
    attr = next(iter(node.attributes.values()))
    made: Any = attr.value
    match attr.name:
        case "value":
            return cast("ir.TensorProtocol", made)
        case "value_int" | "value_ints":
            return ir.Tensor(np.array(made, np.int64))
        case "value_float" | "value_floats":
            return ir.Tensor(np.array(made, np.float32))
        case "value_string":
            return ir.StringTensor([made.encode() if isinstance(made, str) else made], shape=ir.Shape([]))
        case "value_strings":
            return ir.StringTensor([text.encode() if isinstance(text, str) else text for text in made])
        case _:
            return None


Result = tuple[Shape | None, ir.DataType | None] | None
"""The shape and the type of the first result of a node; None if the rule does not apply."""


def _reshape_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    before = facts.shape(node.inputs[0])
    target = facts.elements(node.inputs[1]) if len(node.inputs) > 1 else attrs.get("shape")
    dtype = facts.dtype(node.inputs[0])
    if target is None:
        # The rank is the number of elements.
        length = facts.shape(node.inputs[1]) if len(node.inputs) > 1 else None
        if length is None or len(length) != 1 or not isinstance(length[0], int) or length[0] > MAX_ELEMENTS:
            return None, dtype
        return tuple(facts.fresh() for _ in range(length[0])), dtype
    dims: list[Dim] = list(target)
    if not attrs.get("allowzero", 0):
        if 0 in dims and before is None:
            return tuple(dim if isinstance(dim, int) and dim > 0 else facts.fresh() for dim in dims), dtype
        dims = [before[axis] if dim == 0 and before is not None else dim for axis, dim in enumerate(dims)]
    # An unknown number can be -1, or 0 for the size of the operand. Only a size at its own axis is certainly itself.
    dims = [
        dim if isinstance(dim, int) or (before is not None and before[axis : axis + 1] == (dim,)) else facts.fresh()
        for axis, dim in enumerate(dims)
    ]
    if -1 in dims:
        rest = [dim for dim in dims if dim != -1]
        inferred = facts.fresh() if before is None else missing_dim(before, rest, facts.fresh)
        dims = [inferred if dim == -1 else dim for dim in dims]
    return tuple(dims), dtype


def missing_dim(before: Sequence[Dim], rest: Sequence[Dim], fresh: Callable[[], Dim]) -> Dim:
    """Return the size missing in `rest` for the number of elements of `before`."""
    left = list(before)
    for dim in rest:
        if isinstance(dim, str):
            if dim not in left:
                return fresh()
            left.remove(dim)
    product = math.prod(dim for dim in rest if isinstance(dim, int))
    symbols = [dim for dim in left if isinstance(dim, str)]
    sizes = math.prod(dim for dim in left if isinstance(dim, int))
    if not product or not sizes or sizes % product:
        return fresh()
    if not symbols:
        return sizes // product
    return symbols[0] if len(symbols) == 1 and sizes == product else fresh()


def _transpose_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape = facts.shape(node.inputs[0])
    if shape is None:
        return None, facts.dtype(node.inputs[0])
    perm = attrs.get("perm") or tuple(reversed(range(len(shape))))
    return tuple(shape[axis] for axis in perm), facts.dtype(node.inputs[0])


def _operand_axes(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Sequence[int] | None:
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return facts.integers(node.inputs[1])
    return attrs.get("axes")


def _squeeze_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, axes = facts.shape(node.inputs[0]), _operand_axes(facts, node, attrs)
    if shape is None:
        return None
    if axes is not None and not axes:
        # The reference evaluator removes no axis, onnxruntime all of size 1.
        return None, facts.dtype(node.inputs[0])
    if axes is None:
        if len(node.inputs) > 1 or not all(isinstance(dim, int) for dim in shape):
            return None
        return tuple(dim for dim in shape if dim != 1), facts.dtype(node.inputs[0])
    removed = axes_of(axes, len(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in removed), facts.dtype(node.inputs[0])


def _unsqueeze_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, axes = facts.shape(node.inputs[0]), _operand_axes(facts, node, attrs)
    if shape is None or axes is None:
        return None
    added = axes_of(axes, len(shape) + len(axes))
    dims = iter(shape)
    result = tuple(1 if axis in added else next(dims) for axis in range(len(shape) + len(axes)))
    return result, facts.dtype(node.inputs[0])


def _concat_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shapes = [facts.shape(value) for value in node.inputs]
    first, axis = shapes[0], int(attrs["axis"])
    if first is None:
        return None, facts.dtype(node.inputs[0])
    along = [None if shape is None else shape[axis] for shape in shapes]
    known = [dim for dim in along if isinstance(dim, int)]
    result = list(first)
    result[axis] = sum(known) if len(known) == len(along) else facts.fresh() if len(along) > 1 else first[axis]
    for other in range(len(result)):
        sizes = [shape[other] for shape in shapes if shape is not None and isinstance(shape[other], int)]
        if other != axis % len(result) and sizes:
            result[other] = sizes[0]
    return tuple(result), facts.dtype(node.inputs[0])


def _slice_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, dtype = facts.shape(node.inputs[0]), facts.dtype(node.inputs[0])
    operands = [facts.integers(value) for value in node.inputs[1:]]
    if shape is None:
        return None, dtype
    if any(value is not None and numbers is None for value, numbers in zip(node.inputs[1:], operands, strict=True)):
        axes = facts.integers(node.inputs[3]) if len(node.inputs) > 3 else None
        changed = None if axes is None else axes_of(axes, len(shape))
        return tuple(
            facts.fresh() if changed is None or axis in changed else dim for axis, dim in enumerate(shape)
        ), dtype
    result = list(shape)
    arrays = [None, *(None if numbers is None else np.array(numbers, np.int64) for numbers in operands)]
    for axis, start, end, step in slice_bounds(Call(facts.version, attrs, arrays), len(shape)):
        dim = shape[axis]
        if is_ambiguous(end, step):
            result[axis] = facts.fresh()
        elif isinstance(dim, int):
            result[axis] = _slice_length(dim, start, end, step)
        elif not (start == 0 and end >= ENDLESS and step == 1):
            result[axis] = facts.fresh()
    return tuple(result), dtype


def _slice_length(size: int, start: int, end: int, step: int) -> int:
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    if step > 0:
        start, end = min(max(start, 0), size), min(max(end, 0), size)
        return max(0, -((start - end) // step))
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return max(0, -((end - start) // -step)) if size else 0


def _gather_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if shape is None or indices is None:
        return None, facts.dtype(node.inputs[0])
    axis = axes_of([int(attrs.get("axis", 0))], len(shape))[0]
    return (*shape[:axis], *indices, *shape[axis + 1 :]), facts.dtype(node.inputs[0])


def _expand_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, target = facts.shape(node.inputs[0]), facts.elements(node.inputs[1])
    dtype = facts.dtype(node.inputs[0])
    if shape is None or target is None or any(isinstance(dim, int) and dim < 0 for dim in target):
        return None, dtype
    return broadcast([shape, target], facts.fresh), dtype


def _tile_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape = facts.shape(node.inputs[0])
    repeats = facts.elements(node.inputs[1]) if facts.version >= 6 else None
    if shape is None or repeats is None or len(shape) != len(repeats):
        return None
    if any(isinstance(count, int) and count < 0 for count in repeats):
        return None
    dims = [
        dim if count == 1 else dim * count if isinstance(dim, int) and isinstance(count, int) else facts.fresh()
        for dim, count in zip(shape, repeats, strict=True)
    ]
    return tuple(dims), facts.dtype(node.inputs[0])


def _shape_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape = facts.shape(node.inputs[0])
    result = (facts.fresh(),) if shape is None else (len(shape[attrs.get("start", 0) : attrs.get("end")]),)
    return result, ir.DataType.INT64


def _size_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    return (), ir.DataType.INT64


def _constant_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    dims = facts.elements(node.inputs[0])
    dtype = attrs["value"].dtype if "value" in attrs else ir.DataType.FLOAT
    if dims is None or any(isinstance(dim, int) and dim < 0 for dim in dims):
        return None, dtype
    return dims, dtype


def _cast_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    target = facts.dtype(node.inputs[1]) if node.op_type == "CastLike" else ir.DataType(int(attrs["to"]))
    return facts.shape(node.inputs[0]), target


def _range_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    dtype = facts.dtype(node.inputs[0])
    bounds = [facts.elements(value) for value in node.inputs]
    start, limit, delta = (None if bound is None or len(bound) != 1 else bound[0] for bound in bounds)
    if start == 0 and delta == 1 and isinstance(limit, str):
        return (limit,), dtype
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int) and delta:
        return (max(0, -((start - limit) // delta)),), dtype
    return (facts.fresh(),), dtype


def _matmul_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    left, right = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    batch = broadcast([left[:-2], right[:-2]], facts.fresh) if len(left) > 2 or len(right) > 2 else ()
    return (*batch, left[-2], right[-1]), facts.dtype(node.inputs[0])


_RULES: Final[Mapping[str, Callable[[Facts, ir.Node, Mapping[str, Any]], Result]]] = {
    "Cast": _cast_shape,
    "CastLike": _cast_shape,
    "Concat": _concat_shape,
    "ConstantOfShape": _constant_shape,
    "Expand": _expand_shape,
    "Gather": _gather_shape,
    "MatMul": _matmul_shape,
    "Range": _range_shape,
    "Reshape": _reshape_shape,
    "Shape": _shape_shape,
    "Size": _size_shape,
    "Slice": _slice_shape,
    "Squeeze": _squeeze_shape,
    "Tile": _tile_shape,
    "Transpose": _transpose_shape,
    "Unsqueeze": _unsqueeze_shape,
}
"""Rules that track symbols, which the inference functions of onnx would lose; they are also faster."""


def _elements_of_shape(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    shape = facts.shape(node.inputs[0])
    return None if shape is None else shape[attrs.get("start", 0) : attrs.get("end")]


def _elements_of_size(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    shape = facts.shape(node.inputs[0])
    return None if shape is None else (_product(shape, facts),)


def _product(dims: Sequence[Dim], facts: Facts) -> Dim:
    if any(dim == 0 for dim in dims):
        return 0
    symbols = [dim for dim in dims if isinstance(dim, str)]
    product = math.prod(dim for dim in dims if isinstance(dim, int))
    if symbols:
        return symbols[0] if len(symbols) == 1 and product == 1 else facts.fresh()
    return product


def _same_elements(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    return facts.elements(node.inputs[0])


def _cast_elements(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    # A size that does not fit into 32 bits would change.
    elements = facts.elements(node.inputs[0])
    if facts.dtype(node.outputs[0]) == ir.DataType.INT64:
        return elements
    is_known = elements is not None and all(isinstance(element, int) for element in elements)
    return elements if is_known and facts.dtype(node.outputs[0]) == ir.DataType.INT32 else None


def _gathered_elements(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    elements, indices = facts.elements(node.inputs[0]), facts.integers(node.inputs[1])
    shape = facts.shape(node.inputs[0])
    if elements is None or indices is None or shape is None or len(shape) != 1 or attrs.get("axis", 0) not in (0, -1):
        return None
    return tuple(elements[index] for index in indices)


def _sliced_elements(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    elements, shape = facts.elements(node.inputs[0]), facts.shape(node.inputs[0])
    operands = [facts.integers(value) for value in node.inputs[1:]]
    if elements is None or shape is None or len(shape) != 1 or not elements:
        return None
    if any(value is not None and numbers is None for value, numbers in zip(node.inputs[1:], operands, strict=True)):
        return None
    arrays = [None, *(None if numbers is None else np.array(numbers, np.int64) for numbers in operands)]
    positions = evaluate("Slice", Call(facts.version, attrs, [np.arange(len(elements)), *arrays[1:]]))
    return (
        None if positions is None else tuple(elements[int(index)] for index in cast("list[int]", positions[0].tolist()))
    )


def _joined_elements(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    result: list[Dim] = []
    for value in node.inputs:
        elements, shape = facts.elements(value), facts.shape(value)
        if shape is not None and len(shape) == 1 and isinstance(shape[0], int) and shape[0] <= MAX_ELEMENTS:
            result += [facts.fresh() for _ in range(shape[0])] if elements is None else elements
        else:
            return None
    return tuple(result)


def _arithmetic(function: Callable[[int, int], int | None], neutral: int, *, commutes: bool) -> Any:
    def rule(facts: Facts, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
        left, right = facts.elements(node.inputs[0]), facts.elements(node.inputs[1])
        if not left or not right or facts.dtype(node.outputs[0]) != ir.DataType.INT64:
            return None
        count = max(len(left), len(right))
        if min(len(left), len(right)) not in (1, count):
            return None
        pairs = zip(left * (count // len(left)), right * (count // len(right)), strict=True)
        return tuple(combine(facts, one, other) for one, other in pairs)

    def combine(facts: Facts, left: Dim, right: Dim) -> Dim:
        if isinstance(left, int) and isinstance(right, int):
            result = function(left, right)
            return facts.fresh() if result is None or not -(2**63) <= result < 2**63 else result
        if right == neutral:
            return left
        return right if commutes and left == neutral else facts.fresh()

    return rule


_TRACKED: Final[Mapping[str, Callable[[Facts, ir.Node, Mapping[str, Any]], Shape | None]]] = {
    "Add": _arithmetic(lambda left, right: left + right, 0, commutes=True),
    "Cast": _cast_elements,
    "Concat": _joined_elements,
    "Div": _arithmetic(lambda left, right: left // right if left >= 0 and right > 0 else None, 1, commutes=False),
    "Gather": _gathered_elements,
    "Identity": _same_elements,
    "Mul": _arithmetic(lambda left, right: left * right, 1, commutes=True),
    "Reshape": _same_elements,
    "Shape": _elements_of_shape,
    "Size": _elements_of_size,
    "Slice": _sliced_elements,
    "Squeeze": _same_elements,
    "Sub": _arithmetic(lambda left, right: left - right, 0, commutes=False),
    "Unsqueeze": _same_elements,
}
"""Rules for results that can be computed from shapes with symbols."""
