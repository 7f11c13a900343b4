"""ONNX models for the tests, written in ONNX's syntax or taken from onnx's tests."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.outputs import evaluate
from examples.optimize_onnx_corpus import HEAVY, Case, file_cases, load_node_case
from tests.helpers.amounts import amount
from tests.helpers.onnx_node_cases import node_cases

OPSETS = '"": 21, "local": 1'


def proto_of(graph: str, *functions: str) -> onnx.ModelProto:
    """Return a model of a graph and of functions in the domain `local`."""
    opsets = OPSETS if functions else '"": 21'
    bodies = [f'<domain: "local", opset_import: [{OPSETS}]>\n{function}' for function in functions]
    return onnx.parser.parse_model("\n".join([f"<ir_version: 10, opset_import: [{opsets}]>", graph, *bodies]))


def model_of(graph: str, *functions: str) -> ir.Model:
    """Return the model of `proto_of` as an onnx_ir model."""
    return ir.from_proto(proto_of(graph, *functions))


def onnxruntime_session(model: bytes) -> Any:
    """Return a session of onnxruntime that optimizes nothing.

    onnxruntime raises an error if it does not support the model.
    """
    runtime: Any = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def relu(name: str = "g") -> ir.Model:
    """Return a model with one Relu node."""
    return model_of(f"{name} (float[N, 4] a) => (float[N, 4] x) {{ x = Relu(a) }}")


def with_functions() -> ir.Model:
    """Return a model with two local functions, one of which calls the other."""
    return model_of(
        "g (float[4] a) => (float[4] x) { t = local.f(a) x = local.h(t) }",
        "f (p) => (q) { r = Relu(p) q = Neg(r) }",
        "h (p) => (q) { q = local.f(p) }",
    )


def chain(length: int) -> ir.Model:
    """Return a model of a chain of Relu nodes."""
    nodes = " ".join(f"v{i + 1} = Relu(v{i})" for i in range(length))
    return model_of(f"g (float[4] v0) => (float[4] v{length}) {{ {nodes} }}")


def endless() -> ir.Model:
    """Return a model with a loop that takes hours."""
    return model_of(
        """g (float[4] a) => (float[4] x) {
            n = Constant <value_int: int = 1000000000> ()
            t = Constant <value: tensor = bool {1}> ()
            x = Loop(n, t, a) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
                d = Identity(c) w = Abs(v)
            }>
        }"""
    )


def corpus() -> list[Callable[[], Case]]:
    """Return the functions that load real models with data.

    The large networks are left out.
    """
    generated = [partial(load_node_case, case) for case in node_cases()]
    return [*generated, *(source.load for source in file_cases() if not source.name.startswith(f"{HEAVY}/"))]


@cache
def spread() -> tuple[Case, ...]:
    """Return real models with data, spread over the corpus.

    In a deep run they are eighty, one in twenty-five.
    """
    count, loads = amount(80, least=25), corpus()
    return tuple(load() for load in loads[:: len(loads) // count][:count])


def op_types(model: ir.Model) -> list[str]:
    """Return the operators of the main graph, in order."""
    return [node.op_type for node in model.graph]


def feeds(case: Case) -> Any:
    """Return the first set of inputs of a case."""
    return case.data[0][0]


def rich_proto() -> onnx.ModelProto:
    """Return a model with a value in almost every field that onnx_ir keeps."""
    proto = proto_of(
        """g (float[N, 4] a, seq(int64[2]) s) => (float[N, 4] x) <float[4] w = {1, 2, 3, 4}, float[N, 4] t> {
            c = Constant <value: tensor = float[1] {2}> ()
            k = Constant <value_floats: floats = [1.5, -2]> ()
            t = local.f <n: int = 3> (a, w)
            u = If (cond) <then_branch = yes () => (float[N, 4] y) { y = Relu(t) },
                           else_branch = no () => (float[N, 4] z) <float[1] e = {5}> { z = Mul(t, e) }>
            cond = Constant <value: tensor = bool {1}> ()
            x = Add(u, c)
        }""",
        "f <n: int = 1> (p, b) => (q) { q = Selu <alpha: float = 0.5> (p) }",
    )
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend([nodes[4], *nodes[:4], nodes[5]])
    for message in (proto, proto.graph, proto.functions[0], nodes[0], proto.graph.input[0], proto.graph.initializer[0]):
        message.metadata_props.add(key="k", value="v")
    proto.graph.node[1].metadata_props.add(key="k", value="v")
    proto.graph.value_info[0].metadata_props.add(key="k", value="v")
    proto.graph.input[0].type.denotation = "IMAGE"
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    annotation = proto.graph.quantization_annotation.add(tensor_name="t")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    proto.producer_name = proto.producer_version = proto.domain = proto.doc_string = "text"
    proto.graph.doc_string = proto.graph.node[2].doc_string = proto.functions[0].doc_string = "text"
    proto.graph.node[2].name = "node"
    proto.model_version = 7
    return proto


def weights(count: int = 1000, **fields: Any) -> ir.Model:
    """Return a model with one large initializer, loaded from bytes."""
    proto = proto_of(f"g (float[{count}] a) => (float[{count}] x) {{ x = Add(a, w) }}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(count, dtype=np.float32), "w"))
    for key, value in fields.items():
        setattr(proto, key, value)
    return ADAPTER.loads(proto.SerializeToString())


def names(model: ir.Model) -> list[str]:
    """Return the names of the functions of a model."""
    return [name for name, _ in ADAPTER.functions(model)]


def run(name: str, model: ir.Model, **options: Any) -> Any:
    """Run one pass in a new event loop, with inlining enabled."""
    return apass.run(apass.get_pass(name, **options), model, context=apass.PassContext(opt_level=3))


def outputs(model: ir.Model, *inputs: Any) -> Any:
    """Return the outputs of a model in the reference evaluator."""
    evaluation = evaluate(ADAPTER.dumps(model), inputs)
    assert evaluation.outputs is not None, evaluation.error
    return [value.tolist() for value in evaluation.outputs]
