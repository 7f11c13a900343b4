"""Simplify on random models: results are equal bit by bit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.outputs import evaluate
from apass.adapters.onnx.rewrites import SimplifyPass
from tests.helpers.amounts import amount
from tests.helpers.onnx_models import onnxruntime_session, run

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.25, -7.0, 1e30, float("inf"), float("-inf"), float("nan")]
INTEGERS = [0, 1, -1, 2, 3, 127, -128, 2**31 - 1]
TYPES = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL, onnx.TensorProto.INT32]
SHAPES: list[tuple[int, ...]] = [(), (1,), (2,), (4,), (2, 3), (1, 3), (2, 1, 3), (0, 3)]

UNARY = ["Abs", "Floor", "Identity", "Neg", "Not", "Relu", "Shape", "Size", "Flatten", "Dropout", "Sign", "Exp"]
BINARY = ["Add", "And", "Div", "Equal", "Expand", "Less", "Max", "Mul", "Or", "Sub", "Greater", "Mod", "CastLike"]
OTHERS = [
    "Cast",
    "Concat",
    "Gather",
    "Reshape",
    "Slice",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
    "Clip",
    "Choice",
]
SIZES = ["ReshapeLike", "KeepFirst", "Flat", "Divide", "Halves", "Axes", "GatherAxis", "Matrices", "IsOne"]
"""Several nodes each, most of which compute a shape."""
REDUCTIONS = ["ReduceMax", "ReduceMin", "ReduceSum", "ArgMax"]


@dataclass
class Draft:
    """A model under construction, with the numbers of all its values."""

    values: dict[str, Any]
    nodes: list[onnx.NodeProto]
    constants: dict[str, Any]

    def add(self, op_type: str, inputs: list[str], **attributes: Any) -> None:
        """Add a node, unless the reference evaluator rejects it."""
        if op_type in ("Expand", "Tile") and sum(not -64 <= size <= 64 for size in self.values[inputs[1]].flat):
            return  # the evaluator would fill the memory before the size is known
        name = f"v{len(self.nodes)}"
        node = onnx.helper.make_node(op_type, inputs, [name], **attributes)
        with np.errstate(all="ignore"):
            try:
                [result] = evaluator([node], inputs, [name]).run(None, {key: self.values[key] for key in inputs})
            except Exception:
                return
        array = np.asarray(result)
        if array.size <= 64 and self.is_typed(node, array):
            self.values[name] = array
            self.nodes.append(node)

    def is_typed(self, node: onnx.NodeProto, array: Any) -> bool:
        """Return whether the operator accepts the types."""
        # The reference evaluator does not check that.
        types = {name: info(name, self.values[name], symbolic=False).type for name in node.input}
        try:
            inferred = onnx.shape_inference.infer_node_outputs(onnx.defs.get_schema(node.op_type, 21, ""), node, types)
        except Exception:
            return False
        expected = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return [item.tensor_type.elem_type for item in inferred.values()] == [expected]

    def constant(self, numbers: Any) -> str:
        """Add an initializer."""
        name = f"c{len(self.constants)}"
        self.values[name] = self.constants[name] = np.asarray(numbers)
        return name


def evaluator(nodes: list[onnx.NodeProto], inputs: list[str], results: list[str]) -> Any:
    """Return the reference evaluator of nodes without types."""
    empty = onnx.TypeProto()
    infos = {name: onnx.helper.make_value_info(name, empty) for name in (*inputs, *results)}
    graph = onnx.helper.make_graph(nodes, "g", [infos[name] for name in inputs], [infos[name] for name in results])
    return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]))


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Draw an array of one of the types and shapes."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(draw(st.sampled_from(TYPES)))
    shape = draw(st.sampled_from(SHAPES))
    numbers = FLOATS if dtype.kind == "f" else INTEGERS if dtype.kind == "i" else [False, True]
    size = int(np.prod(shape))
    chosen = draw(st.lists(st.sampled_from(numbers), min_size=size, max_size=size))
    return np.array(chosen, dtype).reshape(shape)


@st.composite
def drafts(draw: st.DrawFn) -> tuple[ir.Model, list[Any]]:
    """Draw a model, and the values of its inputs."""
    inputs = draw(st.lists(arrays(), min_size=1, max_size=3))
    draft = Draft({f"x{index}": array for index, array in enumerate(inputs)}, [], {})
    for array in draw(st.lists(arrays(), max_size=3)):
        draft.constant(array)
    for _ in range(draw(st.integers(1, 12))):
        extend(draw, draft)
    names = [node.output[0] for node in draft.nodes]
    if not names:
        draft.add("Identity", ["x0"])
        names = ["v0"]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    symbolic = draw(st.booleans())
    graph = onnx.helper.make_graph(
        draft.nodes,
        "g",
        [info(name, array, symbolic) for name, array in draft.values.items() if name.startswith("x")],
        [info(name, draft.values[name], symbolic=False) for name in chosen],
        [onnx.numpy_helper.from_array(array, name) for name, array in draft.constants.items()],
    )
    proto = onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 21)])
    return ir.from_proto(proto), inputs


def info(name: str, array: Any, symbolic: bool) -> onnx.ValueInfoProto:
    """Return the declaration of an input or output.

    Equal names are equal sizes. A size of 0 has no name.
    """
    shape = [f"d{size}" if size else None for size in array.shape] if symbolic else array.shape
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def extend(draw: st.DrawFn, draft: Draft) -> None:
    """Add a random node to a draft."""
    operator = draw(st.sampled_from([*UNARY, *BINARY, *OTHERS, *REDUCTIONS, *SIZES]))
    names = list(draft.values)
    # Recent values more often, so that chains arise.
    first = draw(st.sampled_from([*names, *names[-3:], *names[-2:]]))
    second = draw(st.sampled_from(names))
    array = draft.values[first]
    axis = draw(st.integers(-array.ndim, max(array.ndim - 1, 0)))
    if operator in UNARY:
        draft.add(operator, [first])
    elif operator in BINARY:
        draft.add(operator, [first, second] if draw(st.booleans()) else [second, first])
    elif operator == "Cast":
        draft.add("Cast", [first], to=draw(st.sampled_from(TYPES)))
    elif operator == "Concat":
        draft.add("Concat", [first, second], axis=axis)
    elif operator == "Gather":
        indices = np.array(draw(st.sampled_from([0, [0], [0, 1]])), np.int64)
        draft.add("Gather", [first, draft.constant(indices)], axis=axis)
    elif operator == "Reshape":
        choices = [list(array.shape), [-1], [0] * array.ndim, [1, *array.shape], [-1, *array.shape[1:]]]
        target = draw(st.sampled_from([*choices, list(reversed(array.shape))]))
        draft.add("Reshape", [first, draft.constant(np.array(target, np.int64))])
    elif operator == "Slice":
        start, step = draw(st.sampled_from([0, 1, -1])), draw(st.sampled_from([1, 2, -1]))
        bounds = [start, draw(st.sampled_from([1, 2, -1, 2**63 - 1])), axis, step]
        draft.add("Slice", [first, *(draft.constant(np.array([bound], np.int64)) for bound in bounds)])
    elif operator in ("Squeeze", "Unsqueeze"):
        draft.add(operator, [first, draft.constant(np.array([axis], np.int64))])
    elif operator == "Tile":
        draft.add("Tile", [first, draft.constant(np.array([draw(st.integers(1, 2))] * array.ndim, np.int64))])
    elif operator == "Transpose" and array.ndim:
        draft.add("Transpose", [first], perm=draw(st.permutations(range(array.ndim))))
    elif operator == "Where":
        conditions = [name for name, value in draft.values.items() if value.dtype == np.bool_]
        if conditions:
            draft.add("Where", [draw(st.sampled_from(conditions)), first, second])
    elif operator == "Choice":
        # Where of a negated condition, which often occurs with values of both signs.
        draft.add("Less", [first, second])
        condition = list(draft.values)[-1]
        draft.add("Not", [condition])
        draft.add("Where", [list(draft.values)[-1], first, second])
    elif operator == "Clip":
        bounds = draw(st.sampled_from([(), (-1,), (0, 1), (1, -1)]))
        draft.add("Clip", [first, *(draft.constant(np.array(bound, array.dtype)) for bound in bounds)])
    elif operator in SIZES:
        extend_with_sizes(draw, draft, operator, first, second, axis)
    elif operator == "ArgMax":
        draft.add("ArgMax", [first], axis=axis, keepdims=draw(st.integers(0, 1)))
    elif operator in REDUCTIONS:
        draft.add(operator, [first, draft.constant(np.array([axis], np.int64))], keepdims=draw(st.integers(0, 1)))


def extend_with_sizes(draw: st.DrawFn, draft: Draft, operator: str, first: str, second: str, axis: int) -> None:
    """Add nodes that compute a shape, or move axes."""
    array = draft.values[first]

    def last() -> str:
        return list(draft.values)[-1]

    def numbers(*values: int) -> str:
        return draft.constant(np.array(values, np.int64))

    if operator == "ReshapeLike":
        draft.add("Shape", [second])
        draft.add("Reshape", [first, last()], allowzero=draw(st.integers(0, 1)))
    elif operator == "KeepFirst" and array.ndim:
        draft.add("Shape", [first], start=0, end=1)
        draft.add("Concat", [last(), numbers(-1)], axis=0)
        draft.add("Reshape", [first, last()])
    elif operator == "Flat":
        draft.add("Size", [first])
        draft.add("Unsqueeze", [last(), numbers(0)])
        draft.add("Reshape", [first, last()])
    elif operator == "Divide" and array.ndim:
        draft.add("Size", [first])
        size = last()
        draft.add("Shape", [first], start=0, end=1)
        draft.add("Mul", [last(), numbers(2)])
        draft.add("Div", [last(), numbers(2)])
        front = last()
        draft.add("Div", [size, front])
        draft.add("Concat", [front, last()], axis=0)
        draft.add("Reshape", [first, last()])
    elif operator == "Halves" and array.ndim:
        middle = array.shape[axis] // 2
        for bounds in ((0, middle), (middle, 2**63 - 1)):
            draft.add("Slice", [first, *(numbers(bound) for bound in (*bounds, axis, 1))])
    elif operator == "Axes":
        kind = draw(st.sampled_from([("Unsqueeze", "Squeeze"), ("Unsqueeze", "Unsqueeze"), ("Squeeze", "Unsqueeze")]))
        for name in kind:
            draft.add(name, [first, numbers(draw(st.integers(0, 1)))])
            first = last()
    elif operator == "GatherAxis" and array.ndim:
        draft.add("Gather", [first, draft.constant(np.array(0, np.int64))], axis=axis)
        draft.add("Unsqueeze", [last(), numbers(axis)])
    elif operator == "Matrices" and array.ndim == 3:
        draft.add("Unsqueeze", [first, numbers(0)])
        source = last()
        draft.add("Shape", [first])
        shape = last()
        draft.add("Reshape", [source, shape])
        draft.add("Transpose", [last()], perm=[0, 2, 1])
        draft.add("Gather", [shape, numbers(0, 2, 1)])
        draft.add("Concat", [numbers(1), last()], axis=0)
        draft.add("Reshape", [list(draft.values)[-4], last()])
    elif operator == "IsOne" and array.ndim:
        draft.add("Shape", [first], start=axis, end=axis + 1)
        size = last()
        draft.add("Equal", [size, numbers(draw(st.sampled_from([1, -1, 2])))])
        draft.add("Where", [last(), numbers(5), size])


def same(first: Any, second: Any) -> bool:
    """Return whether arrays are equal bit by bit."""
    return bool(first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes())


def run_onnxruntime(model: bytes, inputs: dict[str, Any]) -> list[Any] | None:
    """Return the outputs in onnxruntime, or None if it does not support the model."""
    try:
        session = onnxruntime_session(model)
        return list(session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs()}))
    except Exception:
        return None


@settings(deadline=None, max_examples=amount(120))
@given(drafts())
def test_results_are_equal_bit_by_bit(drawn: tuple[ir.Model, list[Any]]) -> None:
    model, inputs = drawn
    before = ADAPTER.fingerprint(model)
    result = run("onnx.Simplify", model)
    assert ADAPTER.fingerprint(model) == before
    ADAPTER.verify(result)
    assert [value.name for value in result.graph.outputs] == [value.name for value in model.graph.outputs]
    first, second = (evaluate(ADAPTER.dumps(version), inputs) for version in (model, result))
    assert first.outputs is not None, first.error
    assert second.outputs is not None, second.error
    for left, right in zip(first.outputs, second.outputs, strict=True):
        assert same(np.asarray(left), np.asarray(right)), ADAPTER.to_text(result)


@settings(deadline=None, max_examples=amount(60))
@given(drafts())
def test_results_are_equal_in_onnxruntime(drawn: tuple[ir.Model, list[Any]]) -> None:
    model, inputs = drawn
    feeds = {f"x{index}": array for index, array in enumerate(inputs)}
    first, second = (run_onnxruntime(ADAPTER.dumps(version), feeds) for version in (model, run("onnx.Simplify", model)))
    if first is not None:
        assert second is not None
        assert all(map(same, first, second))


@settings(deadline=None, max_examples=amount(60))
@given(drafts())
def test_modified_is_honest(drawn: tuple[ir.Model, list[Any]]) -> None:
    model, _ = drawn
    before = ADAPTER.fingerprint(model)
    may_change = SimplifyPass().may_change(model)
    assert ADAPTER.fingerprint(model) == before
    modified = SimplifyPass()(model).modified
    assert modified == (ADAPTER.fingerprint(model) != before)
    assert may_change or not modified


@settings(deadline=None, max_examples=amount(60))
@given(drafts())
def test_repeated_runs_converge(drawn: tuple[ir.Model, list[Any]]) -> None:
    model, _ = drawn
    counts = [model.graph.num_nodes()]
    for _ in range(6):
        if not SimplifyPass()(model).modified:
            break
        counts.append(model.graph.num_nodes())
    else:
        pytest.fail(f"six runs did not converge: {counts}")
