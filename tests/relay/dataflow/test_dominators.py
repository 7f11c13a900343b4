"""The dominator tree agrees with the definition: a node that is on every path."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from apass.relay.dataflow.dominators import NOWHERE, DominatorTree
from tests.helpers.amounts import amount

Users = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Users:
    """Return the later users of each node; nodes without users are results."""
    size = draw(st.integers(1, 24))
    return [
        draw(st.lists(st.integers(node + 1, size - 1), max_size=3)) if node < size - 1 else [] for node in range(size)
    ]


def build(users: Users, weights: dict[tuple[int, int], int]) -> DominatorTree:
    """Return the tree of a graph."""
    tree = DominatorTree(len(users))
    for node in reversed(range(len(users))):
        tree.attach_to_all(node, [(user, weights.get((node, user), 0)) for user in users[node]])
    return tree


def escapes(users: Users, start: int, without: int) -> bool:
    """Return whether a result is reachable from a node without passing another."""
    work, seen = [start], {without}
    while work:
        node = work.pop()
        if node in seen:
            continue
        seen.add(node)
        if not users[node]:
            return True
        work += users[node]
    return False


def dominators(users: Users, node: int) -> list[int]:
    """Return the other nodes on every path from a node, nearest first."""
    return [other for other in range(node + 1, len(users)) if not escapes(users, node, other)]


def weight_between(users: Users, weights: dict[tuple[int, int], int], node: int, end: int) -> int:
    """Return the greatest edge weight on paths from a node to a dominator of it."""
    weight, work, seen = 0, [node], {end}
    while work:
        current = work.pop()
        if current not in seen:
            seen.add(current)
            weight = max([weight, *(weights.get((current, user), 0) for user in users[current])])
            work += users[current]
    return weight


@given(graphs())
def test_parent_is_nearest_node_on_every_path(users: Users) -> None:
    tree = build(users, {})
    for node in range(len(users)):
        assert tree.parent(node) == next(iter(dominators(users, node)), NOWHERE)


@given(graphs())
def test_dominator_is_on_every_path(users: Users) -> None:
    tree = build(users, {})
    for node in range(len(users)):
        result = [other for other in range(len(users)) if tree.dominates(other, node)]
        assert result == dominators(users, node)


@given(graphs(), st.randoms(use_true_random=False))
def test_weight_is_greatest_on_paths_to_parent(users: Users, random: Random) -> None:
    weights = {(node, user): random.randrange(9) for node, some in enumerate(users) for user in some}
    tree = build(users, weights)
    for node in range(len(users)):
        if tree.parent(node) != NOWHERE:
            assert tree.weight(node) == weight_between(users, weights, node, tree.parent(node))


@given(graphs(), st.integers(0, 23), st.integers(0, 23))
def test_meet_returns_nearest_common_ancestor(users: Users, left: int, right: int) -> None:
    left, right = left % len(users), right % len(users)
    above = [{node, *dominators(users, node)} for node in (left, right)]
    assert build(users, {}).meet(left, right)[0] == min(above[0] & above[1], default=NOWHERE)


def test_ladder_does_not_take_quadratic_time() -> None:
    """Test two chains with a rung at each step, whose sides meet only at the end."""
    length = amount(100_000)
    tree = DominatorTree(2 * length + 1)
    end = 2 * length
    tree.attach(end, NOWHERE)
    for step in reversed(range(length)):
        right, left = 2 * step + 1, 2 * step
        last = step == length - 1
        tree.attach_to_all(right, [(end if last else right + 2, 0)])
        tree.attach_to_all(left, [(end if last else left + 2, 0), (right, 0)])
    assert (tree.parent(0), tree.parent(1)) == (end, 3)
