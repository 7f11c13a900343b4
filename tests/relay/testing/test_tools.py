"""Initializers, layers and the helpers for tests of passes."""

from collections.abc import Awaitable

import numpy as np
import pytest

import apass
from apass.relay.expr import Call, Op, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op import nn
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.structural.equality import structural_equal
from apass.relay.testing import count_ops, create_workload, layers, mlp, rand, run_infer_type, run_opt_pass
from apass.relay.testing.init import Constant, Initializer, Writable, Xavier
from apass.relay.testing.temp_op_attr import TempOpAttr
from apass.relay.transform import FoldConstant, SimplifyInference
from apass.relay.ty import Any, TensorType, TupleType

X = var("x", shape=(2,))


def test_parameters_depend_only_on_the_seed() -> None:
    net = mlp.get_net(1)
    first, again, other = (create_workload(net, seed=seed)[1]["fc1_weight"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_create_workload_accepts_plain_function() -> None:
    names: list[str] = []

    def initialize(name: str, arr: Writable) -> None:
        names.append(name)
        arr[...] = np.random.random(arr.shape)

    np.random.seed(1)
    expected = np.random.random((128, 784)).astype("float32")
    following = np.random.random()
    np.random.seed(1)
    np.random.random((128, 784))
    mod, params = create_workload(mlp.get_net(1), initialize, seed=1)
    assert names == [param.name_hint for param in mod["main"].params if param.name_hint != "data"]
    np.testing.assert_array_equal(params["fc1_weight"], expected)
    assert np.random.random() == following


def test_create_workload_leaves_global_random_state_unchanged() -> None:
    np.random.seed(7)
    expected = np.random.random()
    np.random.seed(7)
    create_workload(mlp.get_net(1))
    assert np.random.random() == expected


def test_initializer_fills_by_suffix_of_name() -> None:
    fill, array = Initializer(), np.full(3, 7.0)
    for name, value in {"bias": 0, "x_gamma": 1, "x_beta": 0, "x_moving_mean": 0, "x_moving_var": 1}.items():
        fill(name, array)
        assert array.tolist() == [value] * 3


@pytest.mark.parametrize(("factor", "fan"), [("in", 5 * 12), ("out", 8 * 12), ("avg", (5 + 8) * 12 / 2)])
def test_xavier_scale_decreases_with_fan(factor: str, fan: float) -> None:
    array = np.zeros((8, 5, 3, 4))
    Xavier(factor_type=factor)("w_weight", array)
    bound = np.sqrt(3 / fan)
    assert 0.95 * bound < np.abs(array).max() <= bound
    Xavier("gaussian", factor, 2)("w_weight", array)
    assert array.std() == pytest.approx(np.sqrt(2 / fan), rel=0.1)


def test_depthwise_weight_has_fan_of_its_window() -> None:
    array = np.zeros((64, 1, 3, 3))
    Xavier()("x_depthwise_weight", array)
    assert 0.95 * np.sqrt(3 / 9) < np.abs(array).max() <= np.sqrt(3 / 9)


def test_constant_weights_sum_to_one() -> None:
    array = np.zeros((4, 5))
    Constant()("w_weight", array)
    assert set(array.ravel()) == {1 / 20}


def test_unsupported_parameters_and_options_are_rejected() -> None:
    with pytest.raises(ValueError, match="cannot initialize scale: its name must end with one of weight, bias"):
        Xavier()("scale", np.zeros(1))
    with pytest.raises(ValueError, match=r"at least 2 dimensions, but w_weight has the shape \(3,\)$"):
        Xavier()("w_weight", np.zeros(3))
    with pytest.raises(NotImplementedError, match="Initializer cannot initialize weight w_weight: override"):
        Initializer()("w_weight", np.zeros(3))
    with pytest.raises(ValueError, match="rnd_type must be 'uniform' or 'gaussian', got 'normal'"):
        Xavier("normal")
    with pytest.raises(ValueError, match="factor_type must be 'avg', 'in' or 'out', got 'both'"):
        Xavier(factor_type="both")
    pair, open_ended = Var("pair", TupleType([])), var("x_weight", shape=(Any(), 2))
    with pytest.raises(TypeError, match=r"^parameter pair must be a tensor, got \(\)$"):
        create_workload(Function([pair], pair))
    with pytest.raises(TypeError, match="has a symbolic dimension; expected only integers"):
        create_workload(Function([open_ended], open_ended))


def test_layers_create_named_variables_for_missing_weights() -> None:
    weight = Var("weight")
    dense = layers.dense_add_bias(Var("x"), weight, units=2, name="fc")
    product, bias = dense.args
    assert isinstance(product, Call)
    assert product.args[1] is weight
    assert isinstance(bias, Var)
    assert bias.name_hint == "fc_bias"
    norm = layers.batch_norm_infer(Var("x"), name="bn", axis=3).tuple_value
    assert isinstance(norm, Call)
    assert [arg.name_hint for arg in norm.args if isinstance(arg, Var)] == [
        "x",
        "bn_gamma",
        "bn_beta",
        "bn_moving_mean",
        "bn_moving_var",
    ]


def test_run_opt_pass_accepts_expressions_and_functions() -> None:
    x = var("x", shape=(2,))

    def double(mod: IRModule) -> IRModule:
        main = mod["main"]
        assert isinstance(main, Function)
        result = mod.copy()
        result["main"] = Function(main.params, add(main.body, main.body))
        return result

    out = run_opt_pass(nn.relu(x), double)
    assert isinstance(out, Call)
    assert out.op is Op.get("add")
    func = run_opt_pass(Function([x], nn.relu(x)), double)
    assert isinstance(func, Function)
    assert run_infer_type(nn.relu(x)).checked_type == TensorType((2,))


def test_count_ops_counts_each_call_once() -> None:
    shared = nn.relu(Var("x"))
    assert count_ops(add(shared, nn.relu(shared))) == {"add": 1, "nn.relu": 2}


def test_rand_has_shape_and_element_type() -> None:
    result = rand("float16", 2, 3)
    assert (result.shape, result.dtype) == ((2, 3), np.dtype("float16"))
    assert 0 <= float(result.min()) <= float(result.max()) <= 1


def test_temp_op_attr_restores_previous_value() -> None:
    op = Op.get("nn.relu")
    before = op.get_attr("TOpPattern")
    with TempOpAttr("nn.relu", "TOpPattern", 8) as temporary:
        assert op.get_attr("TOpPattern") == 8
        assert temporary.op is op
    assert op.get_attr("TOpPattern") is before


def test_run_opt_pass_runs_passes_and_sequentials() -> None:
    func = Function([X], add(X, add(const(1.0), const(2.0))))
    for opt_pass in (FoldConstant(), apass.Sequential([SimplifyInference(), FoldConstant()])):
        result = run_opt_pass(func, opt_pass)
        assert isinstance(result, Function)
        assert structural_equal(result, run_infer_type(Function([X], add(X, const(3.0)))))


def test_run_opt_pass_rejects_async_functions() -> None:
    async def unawaited(mod: IRModule) -> IRModule:
        return mod

    def work(mod: IRModule) -> Awaitable[IRModule]:
        result = unawaited(mod)
        result.close()
        return result

    with pytest.raises(TypeError, match="use a pass, or a function from module to module"):
        run_opt_pass(X, work)
