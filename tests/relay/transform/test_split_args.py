"""SplitArgs: concatenations have few enough operands, with the same results."""

import pytest

from apass.relay.expr import Call, Tuple
from apass.relay.ir.expr import var
from apass.relay.ir.post_order import post_order
from apass.relay.op import concatenate
from tests.helpers.relay.meaning import ops_of, optimized


@pytest.mark.parametrize(("operands", "limit"), [(3, 2), (9, 2), (9, 3), (10, 3), (10, 9)])
def test_concatenations_are_split_to_limit(operands: int, limit: int) -> None:
    fields = [var(f"x{i}", shape=(2, i + 1)) for i in range(operands)]
    after = optimized(concatenate(Tuple(fields), 1), "SplitArgs", max_function_args=limit)
    widths = [len(node.fields) for node in post_order(after) if isinstance(node, Tuple)]
    assert max(widths) <= limit
    # A single tensor is not concatenated.
    assert min(widths) > 1
    calls = [node for node in post_order(after) if isinstance(node, Call)]
    assert ops_of(after).count("annotation.stop_fusion") == len(widths) - 1 == len(calls) - len(widths)


def test_concatenation_within_limit_stays() -> None:
    call = concatenate(Tuple([var("x", shape=(2,)), var("y", shape=(2,))]), 0)
    assert ops_of(optimized(call, "SplitArgs", max_function_args=2)) == ["concatenate"]


def test_limit_below_two_raises_error() -> None:
    with pytest.raises(ValueError, match="max_function_args must be at least 2, got 1"):
        optimized(var("x", shape=(2,)), "SplitArgs", max_function_args=1)
