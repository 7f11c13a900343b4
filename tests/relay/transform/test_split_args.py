"""SplitArgs: no concatenation has too many operands, and the numbers stay."""

import pytest

from apass.relay.expr import Call, Tuple
from apass.relay.ir.post_order import post_order
from apass.relay.make import var
from apass.relay.op import concatenate
from tests.relay.meaning import ops_of, optimized


@pytest.mark.parametrize(("operands", "limit"), [(3, 2), (9, 2), (9, 3), (10, 3), (10, 9)])
def test_no_concatenation_has_more_operands_than_are_allowed(operands: int, limit: int) -> None:
    fields = [var(f"x{at}", shape=(2, at + 1)) for at in range(operands)]
    after = optimized(concatenate(Tuple(fields), 1), "SplitArgs", max_function_args=limit)
    widths = [len(one.fields) for one in post_order(after) if isinstance(one, Tuple)]
    assert max(widths) <= limit
    # One by itself is not concatenated.
    assert min(widths) > 1
    calls = [one for one in post_order(after) if isinstance(one, Call)]
    assert ops_of(after).count("annotation.stop_fusion") == len(widths) - 1 == len(calls) - len(widths)


def test_what_is_within_the_limit_stays() -> None:
    call = concatenate(Tuple([var("x", shape=(2,)), var("y", shape=(2,))]), 0)
    assert ops_of(optimized(call, "SplitArgs", max_function_args=2)) == ["concatenate"]


def test_a_limit_below_two_is_an_error() -> None:
    with pytest.raises(ValueError, match="max_function_args must be at least 2, not 1"):
        optimized(var("x", shape=(2,)), "SplitArgs", max_function_args=1)
