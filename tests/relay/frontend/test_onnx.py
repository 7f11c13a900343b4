"""What goes into `from_onnx`, and what comes out of it."""

import subprocess
import sys
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
from tests.relay.frontend.models import computed, evaluated, imported, model, result_type

ROOT = Path(__file__).parents[3]

DENSE = """
g (float[N, 3] x, float[N, 2] z) => (float[N, 2] y)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {10, 20}, float[2] unused = {0, 0}>
{ t = MatMul(x, w)  u = Add(t, b)  y = Add(u, z) }
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_importing_relay_loads_no_onnx() -> None:
    code = "import sys, apass.relay, apass.relay.frontend; print(*sorted({'onnx', 'onnx_ir'} & set(sys.modules)))"
    done = python(code)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_without_onnx_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['onnx'] = None\nfrom apass.relay.frontend import from_onnx\nfrom_onnx('m.onnx')"
    last = python(code).stderr.strip().splitlines()[-1]
    assert last.startswith("apass.errors.MissingExtraError: from_onnx needs onnx (")
    assert last.endswith("): pip install 'apass[onnx]'")


def test_inputs_come_first_then_the_weights_that_are_used() -> None:
    mod, params = from_onnx(model(DENSE))
    assert [one.name_hint for one in mod["main"].params] == ["x", "z", "w", "b"]
    assert {name: one.tolist() for name, one in params.items()} == {"w": [[1, 2], [3, 4], [5, 6]], "b": [10, 20]}


def test_an_input_that_nothing_uses_is_still_a_parameter() -> None:
    mod, _ = from_onnx(model("g (float[2] a, float[2] b) => (float[2] y) { y = Relu(b) }"))
    assert [one.name_hint for one in mod["main"].params] == ["a", "b"]


def test_frozen_weights_are_constants() -> None:
    mod, params = from_onnx(model(DENSE), freeze_params=True)
    assert ([one.name_hint for one in mod["main"].params], params) == (["x", "z"], {})
    assert computed(mod, np.ones((1, 3), "float32"), np.zeros((1, 2), "float32"))[0].tolist() == [[19, 32]]


def test_weights_that_old_models_list_among_their_inputs_are_weights() -> None:
    proto = model(DENSE)
    proto.graph.input.insert(0, helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 2]))
    mod, _ = from_onnx(proto)
    assert [one.name_hint for one in mod["main"].params] == ["x", "z", "w", "b"]


def test_sparse_weights_are_filled_up_with_zeros() -> None:
    proto = model("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    values, places = np.array([5, 7], "float32"), np.array([1, 3], "int64")
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(values, "w"), numpy_helper.from_array(places), [4])
    proto.graph.sparse_initializer.append(sparse)
    assert evaluated(proto, np.zeros(4, "float32"))[0].tolist() == [0, 5, 0, 7]


def test_one_output_is_the_result_and_several_are_a_tuple() -> None:
    graph = "g (float[2] x) => ({}) {{ a = Relu(x)  b = Neg(x) }}"
    one, two = (model(graph.format(outputs)) for outputs in ("float[2] b", "float[2] b, float[2] a"))
    assert [str(infer_module(from_onnx(each)[0])["main"].checked_type) for each in (one, two)] == [
        "fn (Tensor[(2), float32]) -> Tensor[(2), float32]",
        "fn (Tensor[(2), float32]) -> (Tensor[(2), float32], Tensor[(2), float32])",
    ]


def test_a_dimension_without_a_number_is_any_unless_it_is_given() -> None:
    proto = model(DENSE)
    mod, _ = from_onnx(proto)
    assert mod["main"].params[0].type_annotation == TensorType((Any(), 3))
    mod, _ = from_onnx(proto, shape={"x": (4, 3)})
    assert mod["main"].params[0].type_annotation == TensorType((4, 3))
    assert result_type(mod) == "Tensor[(4, 2), float32]"


def test_element_types_can_be_given_by_name() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    made = [from_onnx(proto, dtype=dtype)[0]["main"].params[0] for dtype in ("int8", {"x": "float64"})]
    assert [one.type_annotation for one in made] == [TensorType((2,), "float32"), TensorType((2,), "float64")]


def test_an_input_of_unknown_rank_needs_a_shape() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ValueError, match="does not state how many dimensions its input 'x' has; give its shape: "):
        from_onnx(proto)
    mod, _ = from_onnx(proto, shape={"x": (2, 2)})
    assert mod["main"].params[0].type_annotation == TensorType((2, 2))


def test_a_name_that_is_no_input_is_told_with_the_nearest_one() -> None:
    proto = model("g (float[2] image) => (float[2] y) { y = Relu(image) }")
    message = r"from_onnx was given a {} for 'imgae', which is unknown; did you mean 'image'\?"
    with pytest.raises(ValueError, match=message.format("shape")):
        from_onnx(proto, shape={"imgae": (2,)})
    with pytest.raises(ValueError, match=message.format("dtype")):
        from_onnx(proto, dtype={"imgae": "int8"})


def test_a_model_may_be_a_file_with_its_weights_beside_it(tmp_path: Path) -> None:
    path, proto = tmp_path / "model.onnx", model(DENSE)
    # Only tensors in raw bytes are put beside a model.
    raw = [numpy_helper.from_array(numpy_helper.to_array(one), one.name) for one in proto.graph.initializer]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(raw)
    convert_model_to_external_data(proto, location="weights", size_threshold=0)
    path.write_bytes(write_external_data_tensors(proto, str(tmp_path)).SerializeToString())
    assert (tmp_path / "weights").exists()
    for given in (path, str(path)):
        _, params = from_onnx(given)
        assert params["b"].tolist() == [10, 20]


def test_a_model_may_be_of_onnx_ir() -> None:
    _, params = from_onnx(ir.from_proto(model(DENSE)))
    assert params["b"].tolist() == [10, 20]


def test_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"takes an onnx.ModelProto, a path or an onnx_ir.Model, not 7$"):
        from_onnx(7)


def test_the_version_of_the_operators_can_be_given() -> None:
    proto = model("g (float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Softmax(x) }", opset=13)
    data = np.zeros((2, 2, 2), "float32")
    made = [computed(from_onnx(proto, opset=opset)[0], data)[0] for opset in (None, 11)]
    assert [one.reshape(-1)[0] for one in made] == [0.5, 0.25]


def test_a_model_that_states_no_version_is_of_the_first() -> None:
    proto = model("g (float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Softmax(x) }")
    del proto.opset_import[:]
    assert evaluated(proto, np.zeros((2, 2, 2), "float32"))[0].reshape(-1)[0] == 0.25


@pytest.mark.parametrize("transposed", [True, False])
def test_stacks_of_matrices_are_multiplied_as_configured(transposed: bool) -> None:
    proto = model("g (float[2, 3, 4] a, float[2, 4, 5] b) => (float[2, 3, 5] y) { y = MatMul(a, b) }")
    mod, _ = from_onnx(proto, convert_config={"use_nt_batch_matmul": transposed})
    body = mod["main"].body
    assert isinstance(body, Call)
    assert body.attrs is not None
    assert (body.op, body.attrs["transpose_b"]) == (Op.get("nn.batch_matmul"), transposed)


def test_a_configuration_that_is_unknown_is_told() -> None:
    message = "convert_config for 'use_nt_batchmatmul', which is unknown; did you mean 'use_nt_batch_matmul'"
    with pytest.raises(ValueError, match=message):
        from_onnx(model(DENSE), convert_config={"use_nt_batchmatmul": True})


def test_all_operators_that_are_unknown_are_named_at_once() -> None:
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
    assert str(raised.value) == (
        "from_onnx does not know 5 of the model's operators: Foo of operator set 20 (2 nodes), "
        "StringConcat of operator set 20 (1 node), local.Bar of operator set 1 (1 node), "
        "Baz of operator set 20 (1 node), ImageDecoder of operator set 20 (1 node)"
    )


def test_a_use_that_cannot_be_expressed_is_told_with_the_node() -> None:
    proto = model("g (float[2, 2] x, int64[1] axes) => (float[2] y) { y = ReduceSum(x, axes) }")
    proto.graph.node[0].name = "total"
    with pytest.raises(OpNotImplementedError) as raised:
        from_onnx(proto)
    assert str(raised.value) == (
        "the node 'total' (ReduceSum, operator set 18) cannot be imported: "
        "its input 1 decides a shape, but is computed from the inputs of the model"
    )


def test_a_missing_or_mistaken_attribute_is_told() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Cast(x) }")
    with pytest.raises(OpNotImplementedError, match="its attribute 'to' must be of type int, not None"):
        from_onnx(proto)


def test_a_value_that_nothing_makes_is_told() -> None:
    with pytest.raises(ValueError, match="the ONNX model uses the value 'ghost', which nothing before it makes"):
        from_onnx(model("g (float[2] x) => (float[2] y) { y = Add(x, ghost) }"))


def test_types_that_do_not_fit_are_told_with_the_node() -> None:
    with pytest.raises(TypeInferenceError) as raised:
        from_onnx(model("g (float[2] x, float[3] z) => (float[2] y) { t = Neg(x)  y = Add(t, z) }"))
    assert raised.value.__notes__ == ["in the node 'y' (Add) of the ONNX model"]


def test_strings_are_refused() -> None:
    with pytest.raises(OpNotImplementedError, match="a tensor of strings, which Relay has no type for"):
        from_onnx(model("g (string[2] x) => (string[2] y) { y = Identity(x) }"))


def test_an_input_that_is_no_tensor_is_refused() -> None:
    with pytest.raises(OpNotImplementedError, match="the input 's' of the ONNX model is no tensor"):
        from_onnx(model("g (seq(float[2]) s) => (int64 n) { n = SequenceLength(s) }"))


def test_constants_stay_constants() -> None:
    body = imported(model("g (float[1] x) => (float[1] y) { c = Constant<value_floats=[2.0]>()  y = Mul(x, c) }")).body
    assert isinstance(body, Call)
    factor = body.args[1]
    assert isinstance(factor, Constant)
    assert (factor.data.tolist(), str(factor.data.dtype)) == ([2.0], "float32")


def test_a_long_chain_is_imported_in_linear_time() -> None:
    """Ten thousand nodes, each of which knows its type from the one before it."""
    nodes = " ".join(f"v{i + 1} = Relu(v{i})" for i in range(10_000))
    mod, _ = from_onnx(model(f"g (float[4] v0) => (float[4] v10000) {{ {nodes} }}"))
    assert computed(mod, np.asarray([-1, 2, -3, 4], "float32"))[0].tolist() == [0, 2, 0, 4]
