"""Structural equality, hash and fingerprint of programs and of their parts.

Two expressions are structurally equal if one becomes the other by renaming bound variables: parameters, variables of
a Let or of a pattern, type parameters. Further:

- a variable that is not bound equals only itself, unless `map_free_vars` lets each stand for one of the other side;
- calls, tuples, functions and variables are nodes of a graph: a call that is used twice differs from two calls that
  are alike; but it does not matter whether two functions of a module share one. Constants (element type, shape, bits),
  operators, fields of a tuple, attributes and types compare by value;
- global variables compare by name, and so do the functions of a module and its data types, whatever their order;
- `span`, `checked_type_` and the type arguments of a call of an operator have no part.

What is compared may be an expression, a type, attributes, a module, the data of a constant, a number or a string, or a
list, tuple or dict of these; anything else is a TypeError. The time grows with the size alone, whatever the depth.
"""

from hashlib import blake2b
from itertools import islice

from apass.relay.expr import Expr, Var
from apass.relay.ir.post_order import post_order
from apass.relay.structural.canonical import CanonicalForm
from apass.relay.ty import TypeVar

__all__ = ["assert_structural_equal", "exact_fingerprint", "fingerprint", "structural_equal", "structural_hash"]


def structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> bool:
    """Tell whether two programs, or parts of such, are structurally equal.

    >>> from apass.relay.expr import Var
    >>> from apass.relay.function import Function
    >>> x, y = Var("x"), Var("y")
    >>> structural_equal(Function([x], x), Function([y], y)), structural_equal(x, y), structural_equal(x, y, True)
    (True, False, True)
    """
    if lhs is rhs:
        return True
    return _form(lhs, map_free_vars) == _form(rhs, map_free_vars)


def structural_hash(node: object, map_free_vars: bool = False) -> int:
    """Return a hash that structurally equal nodes share; that of a free variable, unless mapped, is of this process."""
    return int(_form(node, map_free_vars).digest()[:15], 16)


def fingerprint(node: object) -> str:
    """Return a text that structurally equal nodes share and others do not, the same in every process.

    A free variable goes by its name, as it has no address that another process could know.
    """
    form = CanonicalForm(free=_name_of)
    form.add(node)
    return form.digest()


def exact_fingerprint(node: object) -> str:
    """Return a fingerprint that goes by the names of local variables too, which callers may give parameters by."""
    form = CanonicalForm(free=_name_of)
    form.add(node)
    names = [one.name_hint for one in form.nodes if isinstance(one, Var | TypeVar)]
    return blake2b(repr((form.digest(), names)).encode(), digest_size=16).hexdigest()


def assert_structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> None:
    """Return if two programs, or parts of such, are structurally equal.

    Raises:
        ValueError: if they are not; the message shows the first place where they differ, and what encloses it.

    """
    left, right = _form(lhs, map_free_vars), _form(rhs, map_free_vars)
    if left == right:
        return
    path = _first_difference(left, right)
    here, there = path[-1]
    within = " > ".join(type(left.nodes[one]).__name__ for one, _ in path[-6:-1])
    (head, below), (other_head, other_below) = left.tokens()[here], right.tokens()[there]
    is_alike = head == other_head and len(below) == len(other_below)
    hint = "\nthey are alike, but one is used in another place, where the other is not" if is_alike else ""
    raise ValueError(
        f"not structurally equal; the first difference{within and f' (within {within})'}:\n"
        f"lhs: {_shown(left.nodes[here])}\nrhs: {_shown(right.nodes[there])}{hint}"
    )


def _form(node: object, map_free_vars: bool) -> CanonicalForm:
    form = CanonicalForm(free=None if map_free_vars else id)
    form.add(node)
    return form


def _name_of(variable: object) -> str:
    return str(getattr(variable, "name_hint", variable))


def _first_difference(left: CanonicalForm, right: CanonicalForm) -> list[tuple[int, int]]:
    """Return the pairs of numbers that lead from the roots of two forms that differ to the first difference."""
    left_tokens, right_tokens = left.tokens(), right.tokens()
    root = (len(left_tokens) - 1, len(right_tokens) - 1)
    above: dict[tuple[int, int], tuple[int, int] | None] = {root: None}
    partner: tuple[dict[int, int], dict[int, int]] = ({}, {})
    work = [root]
    pair = root
    while work:
        pair = here, there = work.pop()
        (head, below), (other_head, other_below) = left_tokens[here], right_tokens[there]
        paired = partner[0].setdefault(here, there) == there and partner[1].setdefault(there, here) == here
        if head != other_head or len(below) != len(other_below) or not paired:
            break
        fresh = [one for one in dict.fromkeys(zip(below, other_below, strict=True)) if one not in above]
        above |= dict.fromkeys(fresh, pair)
        work += reversed(fresh)
    path: list[tuple[int, int]] = []
    step: tuple[int, int] | None = pair
    while step is not None:
        path.append(step)
        step = above[step]
    return path[::-1]


def _shown(node: object) -> str:
    """Return the text of a node, only its kind if there is much below it."""
    is_large = isinstance(node, Expr) and next(islice(post_order(node), 100, None), None) is not None
    name = repr(node)
    text = name if is_large else str(node)
    return name if text == name else "\n    ".join([name, *text.splitlines()])
