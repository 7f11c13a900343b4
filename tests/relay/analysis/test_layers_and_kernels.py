"""How deep a network is, which kernels it has, and which of its weights are transposed."""

import apass
from apass.relay.analysis import count_layers, extract_fused_functions, search_fc_transpose
from apass.relay.expr import Expr, GlobalVar, Tuple
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.make import var
from apass.relay.op import nn, transpose
from apass.relay.op.elementwise.math import exp
from apass.relay.testing import resnet
from apass.relay.transform import FuseOps

X = var("x", shape=(2, 3))


def test_layers_are_those_one_behind_the_other() -> None:
    branches = Tuple([exp(nn.relu(exp(X))), nn.relu(X)])
    assert (count_layers(branches, ["exp"]), count_layers(branches, ["exp", "nn.relu"])) == (2, 3)
    assert count_layers(X, ["exp"]) == 0


def test_a_resnet_is_as_deep_as_its_name_says() -> None:
    mod, _ = resnet.get_workload(num_layers=18)
    assert count_layers(mod, ["nn.conv2d", "nn.dense"]) == 18


def test_depth_has_no_limit() -> None:
    deep: Expr = X
    for _ in range(20_000):
        deep = exp(deep)
    assert count_layers(deep, ["exp"]) == 20_000


def test_kernels_that_are_alike_come_once() -> None:
    body = nn.softmax(exp(nn.softmax(exp(nn.softmax(X)))))
    mod = apass.run(FuseOps(2), IRModule.from_expr(Function([X], body)))
    kernels = extract_fused_functions(mod)
    assert [isinstance(name, GlobalVar) for name in kernels] == [True, True]
    assert [func.attrs["Primitive"] for func in kernels.values()] == [1, 1]
    assert extract_fused_functions(IRModule.from_expr(body)) == {}


def test_weights_that_are_transposed_for_a_dense_layer_are_found() -> None:
    turned, plain = var("turned", shape=(3, 4)), var("plain", shape=(4, 3))
    both = Tuple([nn.dense(X, transpose(turned, [1, 0])), nn.dense(X, plain), nn.dense(X, transpose(turned, [1, 0]))])
    assert search_fc_transpose(Function([X, turned, plain], both)) == ["turned"]


def test_a_weight_that_something_else_is_done_to_is_not_transposed() -> None:
    assert search_fc_transpose(nn.dense(X, exp(var("w", shape=(4, 3))))) == []
