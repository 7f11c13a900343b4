"""What is known of the values of a graph: types, shapes, and numbers.

Facts hold for every input that the model accepts. The declared types of inputs are trusted. The shapes that a model
declares for other values are not used.
"""

import math
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import numpy as np
import onnx
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import MAX_ELEMENTS, Dim, Products, Shape, attributes, broadcast
from apass.adapters.onnx.rewrites.element_rules import CONDITION_RULES, ELEMENT_RULES
from apass.adapters.onnx.rewrites.kernels import KERNELS, Array, Call, NotExactError, evaluate
from apass.adapters.onnx.rewrites.schema_inference import Operand, infer_results
from apass.adapters.onnx.rewrites.shape_rules import SHAPE_RULES

__all__ = ["Facts", "Ranks", "constant_tensor", "is_onnx", "subgraphs"]

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

_NO_NAMES: Final = frozenset({"dim", "dyn", "dynamic", "none", "null", "undefined", "unk", "unknown"})
"""What exporters write for each dimension without a name."""

_ML: Final = "ai.onnx.ml"
"""The domain of the operators of classical machine learning."""

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


Ranks: TypeAlias = frozenset[int] | None
"""The possible ranks of a value, or None if any is possible."""


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
        self._ml_version = graph.opset_imports.get(_ML, 0)
        self.limited = False
        """Whether a constant was not read or computed because of its size."""
        self._max_bytes = max_bytes
        self._budget = budget
        self._constants: dict[ir.Value, Array | None] = {}
        self._shapes: dict[ir.Value, Shape] = {}
        self._types: dict[ir.Value, ir.DataType] = {}
        self._elements: dict[ir.Value, Shape] = {}
        self._ranks: dict[ir.Value, frozenset[int]] = {}
        """The possible ranks of values without a known shape."""
        self._symbols = 0
        self.products = Products()
        """Products of sizes."""
        self._shortened: dict[Dim, Dim] = {}
        self._sizes: set[Dim] = set()
        """The symbols that are sizes of dimensions."""

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

    def ranks(self, value: ir.Value | None) -> Ranks:
        """Return the possible ranks of a value, or None if any is possible."""
        shape = self.shape(value)
        return frozenset({len(shape)}) if shape is not None else None if value is None else self._ranks.get(value)

    def least_rank(self, value: ir.Value) -> int:
        """Return a number of axes that a value has at least."""
        ranks = self.ranks(value)
        if ranks is not None:
            return min(ranks, default=0)
        node = value.producer()
        if node is None or not is_onnx(node):
            return 0
        if node.op_type == "Unsqueeze":
            axes = attributes(node).get("axes") if len(node.inputs) < 2 else self.integers(node.inputs[1])
            return len(axes or ())
        return int(node.op_type in ("Concat", "Slice", "Split"))

    def ranks_after(self, node: ir.Node, ranks: Ranks) -> Ranks:
        """Return the possible ranks of the result of a node, from those of its operand."""
        if ranks is None or node.op_type in _SAME_TYPE:
            return ranks
        axes = attributes(node).get("axes") if len(node.inputs) < 2 else self.integers(node.inputs[1])
        if node.op_type not in ("Squeeze", "Unsqueeze") or not axes:
            return None
        change = len(axes) if node.op_type == "Unsqueeze" else -len(axes)
        return frozenset(rank + change for rank in ranks if rank + change >= 0)

    def assume(self, value: ir.Value, *, holds: bool) -> None:
        """Record that a condition has one value in each run that does not fail."""
        self._constants[value] = np.array(holds)

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

    def shortened(self, size: Dim) -> str:
        """Return a new symbol: the minimum of a size and a positive number."""
        symbol = self.fresh()
        self._shortened[symbol] = size
        return symbol

    def is_size(self, dim: Dim) -> bool:
        """Return whether it is the size of a dimension of a value, and thus not negative."""
        return dim in self._sizes or dim in self.products

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
        if node.domain == _ML and self._ml_version and not any(attr.is_ref() for attr in node.attributes.values()):
            # Of these operators, only the types are known.
            for value, result in zip(node.outputs, self._results(node, self._ml_version), strict=False):
                self._set(value, None, None if result is None else result[1])
            return
        if not self.knows(node) or node.op_type in _SPECIAL:
            return
        if node.op_type == "Constant":
            self._enter(node.outputs[0])
            return
        self._infer(node)
        ranks = self.ranks_after(node, self.ranks(node.inputs[0])) if node.inputs else None
        if ranks is not None and node.outputs[0] not in self._shapes:
            self._ranks[node.outputs[0]] = ranks
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
                ranks = [self.ranks(result) for result in results]
                if None not in ranks:
                    self._ranks[value] = frozenset(rank for item in ranks if item is not None for rank in item)

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
            self._set(value, tuple(tensor.shape.numpy()), tensor.dtype)
        elif isinstance(value.type, ir.TensorType) and value.shape is not None and self._is_trusted(value):
            self._set(value, tuple(self._declared(dim) for dim in value.shape), None)

    def _declared(self, dim: int | ir.SymbolicDim) -> Dim:
        """Return a declared dimension of an input.

        A name is one size in the whole graph: callers must pass inputs that agree.
        Source: https://github.com/onnx/onnx/blob/main/docs/IR.md#static-tensor-shapes
        """
        if isinstance(dim, int):
            # Some exporters write -1 or 0 for a size that varies.
            return dim if dim > 0 else self.fresh()
        name = dim.value
        if name is None or not name.isidentifier() or name.lower() in _NO_NAMES:
            return self.fresh()
        return f"{name}"

    def _is_trusted(self, value: ir.Value) -> bool:
        # Callers must respect the types of the main graph's inputs. Those of functions and subgraphs are not declared.
        return self._is_main and value.is_graph_input() and value.graph is self._graph

    def _set(self, value: ir.Value, shape: Shape | None, dtype: ir.DataType | None) -> None:
        if shape is not None:
            self._shapes[value] = shape
            self._sizes.update(shape)
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
                self._set(output, broadcast(known, self.fresh, self._shortened), kind)
            return
        rule = SHAPE_RULES.get(operator)
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
        for value, result in zip(node.outputs, self._results(node, self.version), strict=False):
            if result is not None:
                self._set(value, *result)

    def _results(self, node: ir.Node, version: int) -> list[tuple[Shape | None, ir.DataType] | None]:
        operands: list[Operand | None] = []
        for value in node.inputs:
            dtype = self.dtype(value)
            if value is not None and dtype is None:
                return []
            numbers = self.constant(value)
            is_short = numbers is not None and numbers.size <= MAX_ELEMENTS
            operands.append(None if dtype is None else (dtype, self.shape(value), numbers if is_short else None))
        return infer_results(node, version, operands, self.fresh)

    def _track(self, node: ir.Node) -> None:
        """Track the elements of a result that is computed from shapes."""
        if node.op_type in CONDITION_RULES:
            self._compare(node)
        rule = ELEMENT_RULES.get(node.op_type)
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

    def _compare(self, node: ir.Node) -> None:
        """Record the truth values of a comparison of sizes, if all are known."""
        shape, output = self.shape(node.outputs[0]), node.outputs[0]
        try:
            found = CONDITION_RULES[node.op_type](self, node)
        except INVALID:
            return
        if found is not None and shape is not None and len(shape) <= 1 and shape in ((), (len(found),)):
            self._constants[output] = np.array(found, np.bool_).reshape(cast("tuple[int, ...]", shape))

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
