"""Structural equality, hash and fingerprint of programs and their parts.

Two expressions are structurally equal if they differ only in the names of bound variables: parameters, variables of
Lets and patterns, and type parameters. The rules in detail:

- A free variable equals only itself. With `map_free_vars`, free variables are matched one to one.
- Calls, tuples, functions and variables are nodes of a graph: a call that is used twice differs from two equal calls.
  Sharing between functions of a module does not matter.
- Floats in attributes are equal if they differ by less than 1e-9, as in TVM. Hashes ignore them; fingerprints do not.
- Constants are compared by element type, shape and bits. Operators, tuple fields, attributes and types are compared by
  value.
- Global variables, and the functions, data types and attributes of a module, are compared by name. Their order does
  not matter.
- `span`, `checked_type_` and the type arguments of operator calls are ignored.

Operands are expressions, types, attributes, modules, arrays, numbers, strings, and lists, tuples and dicts of these.
Other operands raise TypeError. Time is linear in the size, and depth is not limited.
"""

from hashlib import blake2b
from itertools import chain, islice
from typing import Final

from apass.relay.ir.expr import Expr, Var
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TypeVar
from apass.relay.structural.canonical import CanonicalForm, floats_in

__all__ = ["assert_structural_equal", "exact_fingerprint", "fingerprint", "structural_equal", "structural_hash"]

_TOLERANCE: Final = 1e-9
"""The difference below which two floats in attributes are equal, as in TVM's `BaseValueEqual`."""


def structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> bool:
    """Return whether two programs, or parts of programs, are structurally equal.

    >>> from apass.relay.expr import Var
    >>> from apass.relay.ir.function import Function
    >>> x, y = Var("x"), Var("y")
    >>> structural_equal(Function([x], x), Function([y], y)), structural_equal(x, y), structural_equal(x, y, True)
    (True, False, True)
    """
    if lhs is rhs:
        return True
    left, right = _form(lhs, map_free_vars), _form(rhs, map_free_vars)
    return left == right or _are_close(lhs, rhs, left, right)


def _are_close(lhs: object, rhs: object, left: CanonicalForm, right: CanonicalForm) -> bool:
    """Return whether programs with different forms differ only in close floats.

    Such floats are no equivalence classes, so a form cannot represent them.
    """
    if next(chain.from_iterable(map(floats_in, left.heads)), None) is None:
        return False
    left, right = (_form(node, left.free is None, ignores_floats=True) for node in (lhs, rhs))
    if left != right:
        return False
    # The forms agree, so both programs have the same nodes and children.
    stack = [(lhs, rhs)]
    seen: set[tuple[int, int]] = set()
    while stack:
        pair = stack.pop()
        (lhs_head, lhs_children), (rhs_head, rhs_children) = left.parts(pair[0]), right.parts(pair[1])
        if lhs_head != rhs_head:
            floats = zip(floats_in(lhs_head), floats_in(rhs_head), strict=True)
            if any(a != b and not abs(a - b) < _TOLERANCE for a, b in floats):
                return False
        for children in zip(lhs_children, rhs_children, strict=True):
            key = (id(children[0]), id(children[1]))
            if children[0] is not children[1] and key not in seen:
                seen.add(key)
                stack.append(children)
    return True


def structural_hash(node: object, map_free_vars: bool = False) -> int:
    """Return a hash consistent with `structural_equal`.

    Without `map_free_vars`, the hash of a free variable is valid only in this process.
    """
    return int(_form(node, map_free_vars, ignores_floats=True).digest()[:15], 16)


def fingerprint(node: object) -> str:
    """Return a hash that identifies a program up to structural equality.

    The hash is the same in all processes. A free variable is identified by its name, because its address differs
    between processes.
    """
    form = CanonicalForm(free=_name_of)
    form.add(node)
    return form.digest()


def exact_fingerprint(node: object) -> str:
    """Return a fingerprint that depends on the names of local variables too.

    Parameter names matter to callers that pass arguments by name.
    """
    form = CanonicalForm(free=_name_of)
    form.add(node)
    names = [node.name_hint for node in form.nodes if isinstance(node, Var | TypeVar)]
    return blake2b(repr((form.digest(), names)).encode(), digest_size=16).hexdigest()


def assert_structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> None:
    """Check that two programs, or parts of programs, are structurally equal.

    Raises:
        ValueError: if they differ. The message shows the first difference and the enclosing nodes.

    """
    left, right = _form(lhs, map_free_vars), _form(rhs, map_free_vars)
    if left == right or _are_close(lhs, rhs, left, right):
        return
    path = _first_difference(left, right)
    lhs_number, rhs_number = path[-1]
    within = " > ".join(type(left.nodes[number]).__name__ for number, _ in path[-6:-1])
    (lhs_head, lhs_children), (rhs_head, rhs_children) = left.tokens()[lhs_number], right.tokens()[rhs_number]
    differ_in_sharing = lhs_head == rhs_head and len(lhs_children) == len(rhs_children)
    hint = "\nthe nodes are alike, but one of them corresponds to another node elsewhere" if differ_in_sharing else ""
    raise ValueError(
        f"not structurally equal; first difference{within and f' (within {within})'}:\n"
        f"lhs: {_text_of(left.nodes[lhs_number])}\nrhs: {_text_of(right.nodes[rhs_number])}{hint}"
    )


def _form(node: object, map_free_vars: bool, ignores_floats: bool = False) -> CanonicalForm:
    form = CanonicalForm(free=None if map_free_vars else id, ignores_floats=ignores_floats)
    form.add(node)
    return form


def _name_of(variable: object) -> str:
    return str(getattr(variable, "name_hint", variable))


def _first_difference(left: CanonicalForm, right: CanonicalForm) -> list[tuple[int, int]]:
    """Return the path of pairs of node numbers from the roots to the first difference."""
    left_tokens, right_tokens = left.tokens(), right.tokens()
    root = (len(left_tokens) - 1, len(right_tokens) - 1)
    parents: dict[tuple[int, int], tuple[int, int] | None] = {root: None}
    right_of: dict[int, int] = {}
    left_of: dict[int, int] = {}
    stack = [root]
    pair = root
    while stack:
        pair = lhs, rhs = stack.pop()
        (lhs_head, lhs_children), (rhs_head, rhs_children) = left_tokens[lhs], right_tokens[rhs]
        is_paired = right_of.setdefault(lhs, rhs) == rhs and left_of.setdefault(rhs, lhs) == lhs
        if lhs_head != rhs_head or len(lhs_children) != len(rhs_children) or not is_paired:
            break
        child_pairs = dict.fromkeys(zip(lhs_children, rhs_children, strict=True))
        new_pairs = [child_pair for child_pair in child_pairs if child_pair not in parents]
        parents |= dict.fromkeys(new_pairs, pair)
        stack += reversed(new_pairs)
    path: list[tuple[int, int]] = []
    step: tuple[int, int] | None = pair
    while step is not None:
        path.append(step)
        step = parents[step]
    return path[::-1]


def _text_of(node: object) -> str:
    """Return the text of a node, or only its `repr` if it is large."""
    is_large = isinstance(node, Expr) and next(islice(post_order(node), 100, None), None) is not None
    name = repr(node)
    text = name if is_large else str(node)
    return name if text == name else "\n    ".join([name, *text.splitlines()])
