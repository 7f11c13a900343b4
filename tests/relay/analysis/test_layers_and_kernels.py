"""`count_layers`, `extract_fused_functions` and `search_fc_transpose`."""

import apass
from apass.relay.analysis import count_layers, extract_fused_functions, search_fc_transpose
from apass.relay.expr import Expr, GlobalVar, Tuple
from apass.relay.function import Function
from apass.relay.ir.expr import var
from apass.relay.ir.module import IRModule
from apass.relay.op import nn, transpose
from apass.relay.op.elementwise.math import exp
from apass.relay.testing import resnet
from apass.relay.transform import FuseOps

X = var("x", shape=(2, 3))


def test_count_layers_returns_longest_path() -> None:
    branches = Tuple([exp(nn.relu(exp(X))), nn.relu(X)])
    assert (count_layers(branches, ["exp"]), count_layers(branches, ["exp", "nn.relu"])) == (2, 3)
    assert count_layers(X, ["exp"]) == 0


def test_count_layers_of_resnet_18_returns_18() -> None:
    mod, _ = resnet.get_workload(num_layers=18)
    assert count_layers(mod, ["nn.conv2d", "nn.dense"]) == 18


def test_count_layers_handles_deep_expressions() -> None:
    deep: Expr = X
    for _ in range(20_000):
        deep = exp(deep)
    assert count_layers(deep, ["exp"]) == 20_000


def test_extract_fused_functions_lists_equal_kernels_once() -> None:
    body = nn.softmax(exp(nn.softmax(exp(nn.softmax(X)))))
    mod = apass.run(FuseOps(2), IRModule.from_expr(Function([X], body)))
    kernels = extract_fused_functions(mod)
    assert [isinstance(name, GlobalVar) for name in kernels] == [True, True]
    assert [func.attrs["Primitive"] for func in kernels.values()] == [1, 1]
    assert extract_fused_functions(IRModule.from_expr(body)) == {}


def test_search_fc_transpose_finds_transposed_weights() -> None:
    swapped, plain = var("swapped", shape=(3, 4)), var("plain", shape=(4, 3))
    both = Tuple([nn.dense(X, transpose(swapped, [1, 0])), nn.dense(X, plain), nn.dense(X, transpose(swapped, [1, 0]))])
    assert search_fc_transpose(Function([X, swapped, plain], both)) == ["swapped"]


def test_search_fc_transpose_ignores_other_operators() -> None:
    assert search_fc_transpose(nn.dense(X, exp(var("w", shape=(4, 3))))) == []
