"""The dominator tree against the definition: a node on every path, found by taking it away."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from apass.relay.dataflow.dominators import NOWHERE, DominatorTree

Users = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Users:
    """Return for each node the nodes that use it, all later; those without are the results."""
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
    """Tell whether a result can be reached from a node without another."""
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
    """Return the other nodes that are on every path from a node, the nearest first."""
    return [one for one in range(node + 1, len(users)) if not escapes(users, node, one)]


def weight_between(users: Users, weights: dict[tuple[int, int], int], node: int, end: int) -> int:
    """Return the greatest weight of an edge on the paths from a node to one that dominates it."""
    found, work, seen = 0, [node], {end}
    while work:
        one = work.pop()
        if one not in seen:
            seen.add(one)
            found = max([found, *(weights.get((one, user), 0) for user in users[one])])
            work += users[one]
    return found


@given(graphs())
def test_the_parent_is_the_nearest_node_on_every_path(users: Users) -> None:
    tree = build(users, {})
    for node in range(len(users)):
        assert tree.parent(node) == next(iter(dominators(users, node)), NOWHERE)


@given(graphs())
def test_a_node_dominates_those_all_of_whose_paths_lead_through_it(users: Users) -> None:
    tree = build(users, {})
    for node in range(len(users)):
        found = [one for one in range(len(users)) if tree.dominates(one, node)]
        assert found == dominators(users, node)


@given(graphs(), st.randoms(use_true_random=False))
def test_the_weight_is_the_greatest_on_the_ways_to_the_parent(users: Users, random: Random) -> None:
    weights = {(node, user): random.randrange(9) for node, some in enumerate(users) for user in some}
    tree = build(users, weights)
    for node in range(len(users)):
        if tree.parent(node) != NOWHERE:
            assert tree.weight(node) == weight_between(users, weights, node, tree.parent(node))


@given(graphs(), st.integers(0, 23), st.integers(0, 23))
def test_two_nodes_meet_at_the_first_that_is_above_both(users: Users, left: int, right: int) -> None:
    left, right = left % len(users), right % len(users)
    above = [{one, *dominators(users, one)} for one in (left, right)]
    assert build(users, {}).meet(left, right)[0] == min(above[0] & above[1], default=NOWHERE)


def test_ladders_do_not_take_quadratic_time() -> None:
    """Two chains with a rung at each step: the two sides of a node meet only at the end."""
    length = 100_000
    tree = DominatorTree(2 * length + 1)
    end = 2 * length
    tree.attach(end, NOWHERE)
    for step in reversed(range(length)):
        right, left = 2 * step + 1, 2 * step
        last = step == length - 1
        tree.attach_to_all(right, [(end if last else right + 2, 0)])
        tree.attach_to_all(left, [(end if last else left + 2, 0), (right, 0)])
    assert (tree.parent(0), tree.parent(1)) == (end, 3)
