"""The arguments, results and errors of `from_onnx`."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data, write_external_data_tensors

from apass.relay.errors import OpNotImplementedError, TypeInferenceError
from apass.relay.expr import Call, Constant, Op
from apass.relay.frontend import from_onnx
from apass.relay.ty import Any, TensorType
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels
from tests.helpers.repository import ROOT
from tests.relay.frontend.models import evaluate_model, evaluate_module, import_function, model, result_type

DENSE = """
g (float[N, 3] x, float[N, 2] z) => (float[N, 2] y)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {10, 20}, float[2] unused = {0, 0}>
{ t = MatMul(x, w)  u = Add(t, b)  y = Add(u, z) }
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.process
@pytest.mark.parametrize("dims", [2, (-1, 3), "23"])
def test_wrong_shape_of_input_is_an_error(dims: Sequence[int]) -> None:
    source = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N, 3] x) => (float[N, 3] y) { y = Neg(x) }'
    )
    with pytest.raises(ValueError, match="the shape of input 'x' must be a sequence of dimensions from 0, or Any"):
        from_onnx(source, shape={"x": dims})


@pytest.mark.slow
def test_importing_relay_does_not_load_onnx() -> None:
    code = "import sys, apass.relay, apass.relay.frontend; print(*sorted({'onnx', 'onnx_ir'} & set(sys.modules)))"
    process = python(code)
    assert (process.stdout.strip(), process.stderr) == ("", "")


@pytest.mark.process
@pytest.mark.slow
def test_missing_onnx_error_names_the_extra() -> None:
    code = "import sys; sys.modules['onnx'] = None\nfrom apass.relay.frontend import from_onnx\nfrom_onnx('m.onnx')"
    last = python(code).stderr.strip().splitlines()[-1]
    assert last.startswith("apass.errors.MissingExtraError: from_onnx needs onnx (")
    assert last.endswith("): pip install 'apass[onnx]'")


def test_parameters_are_inputs_then_used_weights() -> None:
    mod, params = from_onnx(model(DENSE))
    assert [param.name_hint for param in mod["main"].params] == ["x", "z", "w", "b"]
    assert {name: weight.tolist() for name, weight in params.items()} == {"w": [[1, 2], [3, 4], [5, 6]], "b": [10, 20]}


def test_unused_input_is_a_parameter() -> None:
    mod, _ = from_onnx(model("g (float[2] a, float[2] b) => (float[2] y) { y = Relu(b) }"))
    assert [param.name_hint for param in mod["main"].params] == ["a", "b"]


def test_frozen_weights_are_constants() -> None:
    mod, params = from_onnx(model(DENSE), freeze_params=True)
    assert ([param.name_hint for param in mod["main"].params], params) == (["x", "z"], {})
    assert evaluate_module(mod, np.ones((1, 3), "float32"), np.zeros((1, 2), "float32"))[0].tolist() == [[19, 32]]


def test_initializers_listed_as_inputs_are_weights() -> None:
    proto = model(DENSE)
    proto.graph.input.insert(0, helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 2]))
    mod, _ = from_onnx(proto)
    assert [param.name_hint for param in mod["main"].params] == ["x", "z", "w", "b"]


def test_sparse_weights_become_dense() -> None:
    proto = model("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    values, indices = np.array([5, 7], "float32"), np.array([1, 3], "int64")
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(values, "w"), numpy_helper.from_array(indices), [4])
    proto.graph.sparse_initializer.append(sparse)
    assert evaluate_model(proto, np.zeros(4, "float32"))[0].tolist() == [0, 5, 0, 7]


def test_several_outputs_are_returned_as_a_tuple() -> None:
    graph = "g (float[2] x) => ({}) {{ a = Relu(x)  b = Neg(x) }}"
    single, pair = (model(graph.format(outputs)) for outputs in ("float[2] b", "float[2] b, float[2] a"))
    assert [str(infer_module(from_onnx(proto)[0])["main"].checked_type) for proto in (single, pair)] == [
        "fn (Tensor[(2), float32]) -> Tensor[(2), float32]",
        "fn (Tensor[(2), float32]) -> (Tensor[(2), float32], Tensor[(2), float32])",
    ]


def test_symbolic_dimension_is_any_unless_shape_is_given() -> None:
    proto = model(DENSE)
    mod, _ = from_onnx(proto)
    assert mod["main"].params[0].type_annotation == TensorType((Any(), 3))
    mod, _ = from_onnx(proto, shape={"x": (4, 3)})
    assert mod["main"].params[0].type_annotation == TensorType((4, 3))
    assert result_type(mod) == "Tensor[(4, 2), float32]"


def test_dtype_overrides_element_types_by_name() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    params = [from_onnx(proto, dtype=dtype)[0]["main"].params[0] for dtype in ("int8", {"x": "float64"})]
    assert [param.type_annotation for param in params] == [TensorType((2,), "float32"), TensorType((2,), "float64")]


def test_input_of_unknown_rank_requires_shape() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ValueError, match="input 'x' of the ONNX model has no rank; give its shape: "):
        from_onnx(proto)
    mod, _ = from_onnx(proto, shape={"x": (2, 2)})
    assert mod["main"].params[0].type_annotation == TensorType((2, 2))


def test_unknown_input_name_error_suggests_nearest_name() -> None:
    proto = model("g (float[2] image) => (float[2] y) { y = Relu(image) }")
    message = r"{} of from_onnx has the unknown name 'imgae'; did you mean 'image'\?"
    with pytest.raises(ValueError, match=message.format("shape")):
        from_onnx(proto, shape={"imgae": (2,)})
    with pytest.raises(ValueError, match=message.format("dtype")):
        from_onnx(proto, dtype={"imgae": "int8"})


def test_from_onnx_reads_files_with_external_weights(tmp_path: Path) -> None:
    path, proto = tmp_path / "model.onnx", model(DENSE)
    # onnx stores only tensors in raw bytes externally.
    raw = [numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name) for tensor in proto.graph.initializer]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(raw)
    convert_model_to_external_data(proto, location="weights", size_threshold=0)
    path.write_bytes(write_external_data_tensors(proto, str(tmp_path)).SerializeToString())
    assert (tmp_path / "weights").exists()
    for source in (path, str(path)):
        _, params = from_onnx(source)
        assert params["b"].tolist() == [10, 20]


def test_from_onnx_accepts_onnx_ir_model() -> None:
    _, params = from_onnx(ir.from_proto(model(DENSE)))
    assert params["b"].tolist() == [10, 20]


def test_from_onnx_rejects_other_types() -> None:
    with pytest.raises(TypeError, match=r"^model must be an onnx\.ModelProto, a path or an onnx_ir\.Model, got 7$"):
        from_onnx(7)


def test_opset_overrides_version_of_model() -> None:
    proto = model("g (float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Softmax(x) }", opset=13)
    data = np.zeros((2, 2, 2), "float32")
    results = [evaluate_module(from_onnx(proto, opset=opset)[0], data)[0] for opset in (None, 11)]
    assert [result.reshape(-1)[0] for result in results] == [0.5, 0.25]


def test_model_without_opset_has_version_1() -> None:
    proto = model("g (float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Softmax(x) }")
    del proto.opset_import[:]
    assert evaluate_model(proto, np.zeros((2, 2, 2), "float32"))[0].reshape(-1)[0] == 0.25


@pytest.mark.parametrize("transposed", [True, False])
def test_use_nt_batch_matmul_selects_transposition(transposed: bool) -> None:
    proto = model("g (float[2, 3, 4] a, float[2, 4, 5] b) => (float[2, 3, 5] y) { y = MatMul(a, b) }")
    mod, _ = from_onnx(proto, convert_config={"use_nt_batch_matmul": transposed})
    body = mod["main"].body
    assert isinstance(body, Call)
    assert body.attrs is not None
    assert (body.op, body.attrs["transpose_b"]) == (Op.get("nn.batch_matmul"), transposed)


def test_unknown_convert_config_error_suggests_nearest_name() -> None:
    message = (
        "convert_config of from_onnx has the unknown name 'use_nt_batchmatmul'; did you mean 'use_nt_batch_matmul'"
    )
    with pytest.raises(ValueError, match=message):
        from_onnx(model(DENSE), convert_config={"use_nt_batchmatmul": True})


def test_error_lists_all_unsupported_operators() -> None:
    proto = model(
        """
        g (float[2] x, bool c) => (float[2] y) {
            a = Foo(x)  b = Foo(a)  d = local.f(b)  e = Relu(d)
            y = If(c) <then_branch = t () => (float[2] p) { p = local.Bar(e) },
                       else_branch = f () => (float[2] q) { q = StringConcat(e, e) }>
        }
        """,
        "f (p) => (q) { r = Baz(p)  q = ImageDecoder(r) }",
        opset=20,
    )
    with pytest.raises(OpNotImplementedError) as raised:
        from_onnx(proto)
    operators = [
        "Foo of operator set 20 (2 nodes)",
        "StringConcat of operator set 20 (1 node)",
        "local.Bar of operator set 1 (1 node)",
        "Baz of operator set 20 (1 node)",
        "ImageDecoder of operator set 20 (1 node)",
    ]
    message = f"from_onnx does not support 5 operators of the model: {', '.join(operators)}"
    assert str(raised.value) == message


def test_unsupported_use_error_names_the_node() -> None:
    proto = model("g (float[2, 2] x, int64[1] axes) => (float[2] y) { y = ReduceSum(x, axes) }")
    proto.graph.node[0].name = "total"
    with pytest.raises(OpNotImplementedError) as raised:
        from_onnx(proto)
    assert str(raised.value) == (
        "cannot import node 'total' (ReduceSum, operator set 18): "
        "input 1 determines a shape and must not depend on the inputs of the model"
    )


def test_missing_attribute_error_names_attribute_and_type() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Cast(x) }")
    with pytest.raises(OpNotImplementedError, match="attribute 'to' must be of type int, got None"):
        from_onnx(proto)


def test_undefined_value_raises_value_error() -> None:
    with pytest.raises(ValueError, match="the ONNX model uses the value 'ghost' before any node produces it"):
        from_onnx(model("g (float[2] x) => (float[2] y) { y = Add(x, ghost) }"))


def test_type_error_has_note_with_node() -> None:
    with pytest.raises(TypeInferenceError) as raised:
        from_onnx(model("g (float[2] x, float[3] z) => (float[2] y) { t = Neg(x)  y = Add(t, z) }"))
    assert raised.value.__notes__ == ["in node 'y' (Add) of the ONNX model"]


def test_string_tensors_are_rejected() -> None:
    with pytest.raises(OpNotImplementedError, match="a tensor of strings, which Relay does not support"):
        from_onnx(model("g (string[2] x) => (string[2] y) { y = Identity(x) }"))


def test_non_tensor_input_is_rejected() -> None:
    with pytest.raises(OpNotImplementedError, match="input 's' of the ONNX model must be a tensor"):
        from_onnx(model("g (seq(float[2]) s) => (int64 n) { n = SequenceLength(s) }"))


def test_constants_stay_constants() -> None:
    body = import_function(
        model("g (float[1] x) => (float[1] y) { c = Constant<value_floats=[2.0]>()  y = Mul(x, c) }")
    ).body
    assert isinstance(body, Call)
    factor = body.args[1]
    assert isinstance(factor, Constant)
    assert (factor.data.tolist(), str(factor.data.dtype)) == ([2.0], "float32")


def test_long_chain_is_imported_in_linear_time() -> None:
    """The type of each node is computed from the previous one."""
    count = levels(10_000)
    nodes = " ".join(f"v{i + 1} = Relu(v{i})" for i in range(count))
    mod, _ = from_onnx(model(f"g (float[4] v0) => (float[4] v{count}) {{ {nodes} }}"))
    assert evaluate_module(mod, np.asarray([-1, 2, -3, 4], "float32"))[0].tolist() == [0, 2, 0, 4]
