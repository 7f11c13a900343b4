"""Caching failed paths in the search for a parent does not change its result."""

from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apass.relay.dataflow_pattern import DFPattern, is_constant, is_op, is_tuple, is_var, wildcard
from apass.relay.dataflow_pattern import matcher as module
from apass.relay.dataflow_pattern.grouper import find_groups
from apass.relay.dataflow_pattern.matcher import Matcher
from apass.relay.expr import Call, Expr, Op, Tuple
from apass.relay.ir.expr import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.trigonometry import tanh
from apass.relay.op.nn.activation import relu
from apass.relay.op.nn.conv.conv import conv2d
from tests.helpers.counting import calls_of

X, W = var("x"), var("w")
RELU, TANH, CONV, ADD = (is_op(name) for name in ("nn.relu", "tanh", "nn.conv2d", "add"))


@st.composite
def graphs(draw: st.DrawFn) -> Expr:
    """Return a random graph of additions, activations and convolutions."""
    nodes: list[Expr] = [X, W, const(1.0), conv2d(X, W)]
    for _ in range(draw(st.integers(1, 12))):
        left, right = (draw(st.sampled_from(nodes[-5:])) for _ in range(2))
        node = draw(st.sampled_from([relu(left), tanh(left), add(left, right), add(left, X), conv2d(X, W)]))
        nodes.append(node)
    return Tuple(draw(st.lists(st.sampled_from(nodes[-2:]), min_size=1, max_size=2)))


def patterns() -> list[DFPattern]:
    """Return patterns with a dominator, some independent of the rest."""
    shared = wildcard()
    any_call = RELU(wildcard()) | ADD(wildcard(), wildcard())
    return [
        RELU(wildcard()).dominates(CONV(is_var(), is_var())),
        ADD(wildcard(), wildcard()).dominates(CONV(wildcard(), wildcard()), RELU(None) | ADD(None)),
        (ADD(None) | RELU(None)).dominates(CONV(None), any_call | is_constant()),
        ADD(wildcard(), shared).dominates(CONV(shared, wildcard()), any_call | TANH(None) | is_var()),
        RELU(TANH(wildcard()).dominates(CONV(None), any_call)),
        ADD(TANH(wildcard()).dominates(CONV(None), any_call), wildcard()).dominates(CONV(None)),
        RELU(wildcard()).dominates(ADD(shared, shared), any_call | TANH(shared)),
        is_tuple([ADD(None).dominates(CONV(None)) | RELU(None).dominates(TANH(None), any_call)]),
    ]


def matches(pattern: DFPattern, expr: Expr) -> list[list[tuple[object, list[Expr]]]]:
    """Return the matches of a pattern at each node."""
    matcher = Matcher(expr)
    return [list(matcher.node_map.items()) if matcher.match(pattern, node) else [] for node in matcher.graph.nodes]


@pytest.mark.parametrize("pattern", patterns())
@example(expr=Tuple([add(tanh(add(X, X)), tanh(conv2d(X, W)))]))
@given(expr=graphs())
def test_cached_failures_do_not_change_matches(pattern: DFPattern, expr: Expr) -> None:
    expected = matches(pattern, expr)
    with patch.object(module, "_is_independent", return_value=False):
        assert matches(pattern, expr) == expected


def chain(length: int, bottom: Expr) -> Expr:
    """Return a chain of activations on top of an expression."""
    expr = bottom
    for _ in range(length):
        expr = Call(Op.get("nn.relu"), [expr])
    return expr


def work_without_a_match(pattern: DFPattern, expr: Expr) -> int:
    """Return the number of calls it takes to find no match."""

    def find() -> None:
        assert find_groups(pattern, expr) == {}

    return calls_of(find)


@pytest.mark.parametrize(
    ("pattern", "bottom"),
    [
        (RELU(wildcard()).dominates(CONV(None)), X),
        (RELU(wildcard()).dominates(CONV(None), RELU(None)), X),
        (RELU(wildcard()).dominates(CONV(None), RELU(None)), tanh(conv2d(X, W))),
    ],
)
def test_long_path_without_parent_is_followed_once(pattern: DFPattern, bottom: Expr) -> None:
    short, long = (work_without_a_match(pattern, chain(length, bottom)) for length in (500, 4_000))
    assert long < 9 * short, "eight times the length is eight times the work, not sixty-four times"
