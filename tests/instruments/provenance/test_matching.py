"""Which nodes are taken for the same ones."""

from apass.adapters.nodes import Node
from apass.instruments.provenance.matching import Matching, match_nodes


def numbered(*texts: str) -> list[Node]:
    """Return nodes without given names; in a text, operands follow: `add 0 1`."""
    parts = [text.split() for text in texts]
    return [
        Node(
            name=f"%{index}",
            text=op,
            operands=tuple(f"%{number}" for number in numbers),
            results=(f"%{index}",),
            is_named=False,
        )
        for index, (op, *numbers) in enumerate(parts)
    ]


def partners(matching: Matching) -> list[tuple[int, int]]:
    """Return the pairs, each with the index before and after."""
    return sorted((old, new) for new, (old, _) in matching.pairs.items())


def test_unchanged_nodes_keep_identity_when_names_shift() -> None:
    old = numbered("load", "unused", "exp 0", "add 0 2")
    new = numbered("load", "exp 0", "add 0 1")
    matching = match_nodes(old, new)
    assert partners(matching) == [(0, 0), (2, 1), (3, 2)]
    assert not matching.changed


def test_other_operand_is_a_change() -> None:
    old = numbered("load", "load", "exp 0", "exp 1")
    new = numbered("load", "load", "exp 0", "exp 0")
    matching = match_nodes(old, new)
    assert partners(matching) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert matching.changed == {3}


def test_users_of_changed_node_are_found() -> None:
    old = numbered("load", "mul 0", "exp 1", "exp 2")
    new = numbered("load", "shl 0", "exp 1", "exp 2")
    matching = match_nodes(old, new)
    # Without location, the multiplication is removed. Its user has another operand, and the user of that has none.
    assert partners(matching) == [(0, 0), (2, 2), (3, 3)]
    assert matching.changed == {2}


def test_location_pairs_changed_node() -> None:
    old = [Node(name="%0", text="mul", location="a.c:1:1", is_named=False)]
    new = [Node(name="%0", text="shl", location="a.c:1:1", is_named=False)]
    assert match_nodes(old, new).pairs == {0: (0, "location")}
    assert match_nodes([*old, *old], new).pairs == {}


def test_given_name_counts_before_contents() -> None:
    old = [Node(name="a", text="Relu"), Node(name="b", text="Tanh")]
    new = [Node(name="a", text="Tanh"), Node(name="c", text="Relu")]
    matching = match_nodes(old, new)
    assert matching.pairs == {0: (0, "name")}
    assert matching.changed == {0}


def test_renamed_node_is_found_by_contents() -> None:
    old = [Node(name="a", text="Relu", operands=("x",), results=("y",))]
    new = [Node(name="b", text="Relu", operands=("x",), results=("y",))]
    matching = match_nodes(old, new)
    assert matching.pairs == {0: (0, "contents")}
    assert matching.changed == {0}


def test_shared_object_is_unchanged() -> None:
    shared = object()
    old = [*numbered("a", "b"), Node(name="%2", text="c", identity=shared, is_named=False)]
    new = [Node(name="%0", text="c", identity=shared, is_named=False)]
    matching = match_nodes(old, new)
    assert matching.pairs == {0: (2, "identity")}
    assert not matching.changed


def test_equal_nodes_are_paired_in_order() -> None:
    matching = match_nodes(numbered("exp", "exp", "exp"), numbered("exp", "exp"))
    assert partners(matching) == [(0, 0), (1, 1)]
