"""`pickle` and `copy` of nodes."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from apass import relay
from apass.relay.errors import SerializationError
from apass.relay.expr import Call, Var
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.attrs import DictAttrs
from apass.relay.testing import mlp
from tests.helpers.amounts import levels


def pickled(value: object) -> object:
    """Return a value after a round trip."""
    return pickle.loads(pickle.dumps(value))


COPIES: list[Callable[[object], object]] = [pickled, copy.deepcopy]


@pytest.mark.parametrize("copied", COPIES)
def test_copy_of_module_is_equal(copied: Callable[[object], object]) -> None:
    mod, weights = mlp.get_workload(1)
    arguments = [np.ones((1, 1, 28, 28), "float32"), *weights.values()]
    new = copied(mod)
    assert isinstance(new, relay.IRModule)
    assert new is not mod
    assert relay.structural_equal(new, mod)
    assert new["main"].checked_type == mod["main"].checked_type
    np.testing.assert_array_equal(evaluate(new, *arguments), evaluate(mod, *arguments))


@pytest.mark.parametrize("copied", COPIES)
def test_copy_of_expression_keeps_sharing(copied: Callable[[object], object]) -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    func = relay.Function([x], relay.add(shared, shared)).with_attr("note", "a")
    new = copied(func)
    assert isinstance(new, relay.Function)
    assert isinstance(new.body, Call)
    assert new.body.args[0] is new.body.args[1]
    assert new.attrs["note"] == "a"
    assert relay.structural_equal(new, func)


@pytest.mark.parametrize("copied", COPIES)
def test_copy_of_deep_expression_is_no_recursion(copied: Callable[[object], object]) -> None:
    expr: relay.Expr = Var("x")
    for _ in range(levels(5000)):
        expr = relay.negative(expr)
    assert relay.structural_equal(copied(expr), expr, map_free_vars=True)


def test_copy_of_operator_is_itself() -> None:
    add = relay.op.get("add")
    assert pickled(add) is add


def test_copies_of_other_nodes_are_equal() -> None:
    pattern = relay.PatternTuple([relay.PatternVar(Var("x")), relay.PatternWildcard()])
    assert str(pickled(pattern)) == "(%x, _)"
    attrs = DictAttrs({"a": 1, "b": (2, 3)})
    assert [pickled(attrs), copy.copy(attrs), copy.deepcopy(attrs)] == [attrs] * 3


def test_shallow_copies_share_parts() -> None:
    x = relay.var("x", shape=(2,))
    call = relay.exp(x)
    new = copy.copy(call)
    assert new is not call
    assert new.args[0] is x
    mod = relay.IRModule.from_expr(relay.Function([x], call))
    other = copy.copy(mod)
    other["more"] = relay.Function([], relay.const(1))
    assert (other["main"] is mod["main"], "more" in mod) == (True, False)


def test_value_without_form_cannot_be_pickled() -> None:
    func = relay.Function([], relay.const(1)).with_attr("note", object())
    with pytest.raises(SerializationError, match="has no form in JSON"):
        pickle.dumps(func)
