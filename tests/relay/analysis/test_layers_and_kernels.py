"""`count_layers`, `extract_fused_functions` and `search_fc_transpose`."""

import pytest

import apass
from apass.relay.analysis import count_layers, extract_fused_functions, search_fc_transpose
from apass.relay.expr import Expr, Tuple
from apass.relay.function import Function
from apass.relay.ir.expr import var
from apass.relay.ir.module import IRModule
from apass.relay.op import nn, transpose
from apass.relay.op.elementwise.math import exp
from apass.relay.structural.equality import structural_equal, structural_hash
from apass.relay.testing import resnet
from apass.relay.transform import FuseOps
from apass.relay.ty import FuncType
from tests.helpers.amounts import levels
from tests.helpers.relay.meaning import ops_of

X, Y = (var(name, shape=(2, 3)) for name in "xy")


def test_count_layers_returns_longest_path() -> None:
    branches = Tuple([exp(nn.relu(exp(X))), nn.relu(X)])
    assert (count_layers(branches, ["exp"]), count_layers(branches, ["exp", "nn.relu"])) == (2, 3)
    assert count_layers(X, ["exp"]) == 0


def test_count_layers_of_resnet_18_returns_18() -> None:
    mod, _ = resnet.get_workload(num_layers=18)
    assert count_layers(mod, ["nn.conv2d", "nn.dense"]) == 18


def test_count_layers_handles_deep_expressions() -> None:
    deep: Expr = X
    for _ in range(levels(20_000)):
        deep = exp(deep)
    assert count_layers(deep, ["exp"]) == levels(20_000)


def test_extracted_functions_are_fused_and_listed_once() -> None:
    mod = IRModule.from_expr(Function([X], nn.softmax(exp(nn.softmax(exp(nn.softmax(X)))))))
    kernels = extract_fused_functions(mod)
    assert [structural_hash(func) for func in kernels.values()] == [int(name.name_hint) for name in kernels]
    assert [ops_of(func) for func in kernels.values()] == [["nn.softmax"], ["nn.softmax", "exp"]]
    assert [func.attrs["Primitive"] for func in kernels.values()] == [1, 1]
    # A fused module stays as it is.
    fused = apass.run(FuseOps(3), mod)
    assert {name.name_hint for name in extract_fused_functions(fused)} == {name.name_hint for name in kernels}


def test_extracted_functions_are_simplified_first() -> None:
    (kernel,) = extract_fused_functions(IRModule.from_expr(exp(nn.dropout(X)))).values()
    assert kernel.checked_type == FuncType([X.checked_type], X.checked_type)
    assert structural_equal(kernel.body, exp(kernel.params[0]))
    assert ops_of(kernel) == ["exp"]


def test_extracted_functions_are_those_of_main() -> None:
    mod = IRModule({"main": Function([X], X), "other": Function([Y], exp(Y))})
    assert extract_fused_functions(mod) == {}
    with pytest.raises(KeyError):
        extract_fused_functions(IRModule({"other": Function([Y], exp(Y))}))


def test_search_fc_transpose_finds_transposed_weights() -> None:
    swapped, plain = var("swapped", shape=(3, 4)), var("plain", shape=(4, 3))
    both = Tuple([nn.dense(X, transpose(swapped, [1, 0])), nn.dense(X, plain), nn.dense(X, transpose(swapped, [1, 0]))])
    assert search_fc_transpose(Function([X, swapped, plain], both)) == ["swapped"]


def test_search_fc_transpose_ignores_other_operators() -> None:
    assert search_fc_transpose(nn.dense(X, exp(var("w", shape=(4, 3))))) == []
