"""reshape, with TVM's codes for dimensions that are copied, inferred, joined or split, and its two relatives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apass.relay.expr import Call, Expr
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.arguments import Ints, computed, static_ints
from apass.relay.op.define.dims import clash, product, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward
from apass.relay.ty import Any, Dim, TensorType

__all__ = ["ReshapeAttrs", "ReshapeLikeAttrs", "reshape", "reshape_like", "reshaped", "reverse_reshape"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshapeAttrs(Attrs):
    """The attributes of reshape and contrib_reverse_reshape."""

    newshape: tuple[int, ...]
    """The new dimensions, or codes for them; see `reshape`."""
    allowzero: bool = False
    """Whether 0 is a dimension of that size instead of a code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshapeLikeAttrs(Attrs):
    """The attributes of reshape_like."""

    lhs_begin: int = 0
    """The first axis that is replaced."""
    lhs_end: int | None = None
    """The axis before which replacing ends; None for all the rest."""
    rhs_begin: int = 0
    """The first axis that is taken."""
    rhs_end: int | None = None
    """The axis before which taking ends; None for all the rest."""


def reshaped(shape: Sequence[Dim], newshape: Sequence[int], allowzero: bool = False) -> tuple[Dim, ...]:
    """Return the shape that `newshape`, with its codes, means for a tensor of `shape`.

    Raises:
        ValueError: if it means none, or one of another number of elements.

    >>> reshaped((2, 3, 4), (-4, 1, 2, -2)), reshaped((2, 3, 4), (6, 1, -1))
    ((1, 2, 3, 4), (6, 1, 4))
    """
    return _reshaped(shape, _groups(newshape), allowzero)


def _groups(newshape: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the codes, each with its operands: -4 has two, the others none."""
    groups: list[tuple[int, ...]] = []
    place = 0
    while place < len(newshape):
        length = 3 if newshape[place] == -4 else 1
        groups.append(tuple(newshape[place : place + length]))
        place += length
    if groups and groups[-1][0] == -4 and len(groups[-1]) < 3:
        raise ValueError(f"-4 in the new shape {shape_text(newshape)} must be followed by two dimensions")
    return groups


def _reshaped(shape: Sequence[Dim], groups: Sequence[tuple[int, ...]], allowzero: bool) -> tuple[Dim, ...]:
    pieces = list(_pieces(shape, groups, allowzero))
    inferred = [one for one in pieces if one.code == -1]
    if len(inferred) > 1:
        raise ValueError("only one dimension of the new shape can be -1")
    if not inferred:
        return _checked(shape, [dim for one in pieces for dim in one.dims])
    copied = {place for one in pieces for place in one.copied}
    kept = [dim for place, dim in enumerate(shape) if place not in copied]
    rest = _rest(shape, product(kept), product(dim for one in pieces if not one.copied for dim in one.dims))
    return tuple(dim for one in pieces for dim in ([rest] if one.code == -1 else one.dims))


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one code of a new shape stands for."""

    code: int
    dims: Sequence[Dim]
    """The new dimensions; none for -1."""
    copied: range
    """The dimensions of the data that have gone into them."""


def _pieces(shape: Sequence[Dim], groups: Sequence[tuple[int, ...]], allowzero: bool) -> Iterator[_Piece]:
    taken = 0
    for code, *operands in groups:
        if code > 0 or code == -1 or (code == 0 and allowzero):
            # It stands in the place of a dimension, but need not have its size.
            yield _Piece(code, () if code == -1 else (code,), range(0))
            taken += 1
        else:
            dims, used = _copied(code, operands, shape[taken:])
            yield _Piece(code, dims, range(taken, taken + used))
            taken += used


def _checked(shape: Sequence[Dim], made: Sequence[Dim]) -> tuple[Dim, ...]:
    if clash(product(shape), product(made)):
        texts = f"{shape_text(shape)} cannot become {shape_text(made)}"
        raise ValueError(f"the shape {texts}: the numbers of elements differ")
    return tuple(made)


def _copied(code: int, operands: Sequence[int], left: Sequence[Dim]) -> tuple[Sequence[Dim], int]:
    """Return the dimensions that a code makes of those that are left, and how many of these it uses."""
    needed = {0: 1, -2: 0, -3: 2, -4: 1}.get(code)
    if needed is None:
        raise ValueError(f"{code} means nothing in a new shape; the codes are 0, -1, -2, -3 and -4")
    if len(left) < needed:
        raise ValueError(f"{code} in the new shape stands for {needed} dimensions, but only {len(left)} are left")
    if code == -2:
        return left, len(left)
    if code == -3:
        return [product(left[:2])], 2
    return (left[:1], 1) if code == 0 else (_halves(left[0], *operands), 1)


def _halves(dim: Dim, first: int, second: int) -> list[Dim]:
    if first == -1 and second == -1:
        raise ValueError("only one of the two dimensions behind -4 can be -1")
    other = second if first == -1 else first
    rest = dim // other if isinstance(dim, int) and other else Any()
    halves: list[Dim] = [rest if one == -1 else one for one in (first, second)]
    if clash(product(halves), dim):
        raise ValueError(f"a dimension of {dim} cannot be split into {first} and {second}")
    return halves


def _rest(shape: Sequence[Dim], whole: Dim, part: Dim) -> Dim:
    """Return what -1 stands for: the elements of the dimensions that were not copied, over those of the fixed ones."""
    if not isinstance(part, int) or not isinstance(whole, int):
        return whole if part == 1 else Any()
    if part == 0 or whole % part:
        raise ValueError(f"{part} does not divide the {whole} elements of {shape_text(shape)} that are left for -1")
    return whole // part


def _relate(data: TensorType, attrs: ReshapeAttrs) -> TensorType:
    return TensorType(reshaped(data.shape, attrs.newshape, attrs.allowzero), data.dtype)


def _compute(attrs: ReshapeAttrs, data: Array) -> Array:
    shape = reshaped(data.shape, attrs.newshape, attrs.allowzero)
    return data.reshape([dim for dim in shape if isinstance(dim, int)])


def _reversed(shape: Sequence[Dim], attrs: ReshapeAttrs) -> tuple[Dim, ...]:
    backwards = [(code, *reversed(operands)) for code, *operands in reversed(_groups(attrs.newshape))]
    return _reshaped(tuple(reversed(shape)), backwards, attrs.allowzero)[::-1]


def _relate_reversed(data: TensorType, attrs: ReshapeAttrs) -> TensorType:
    return TensorType(_reversed(data.shape, attrs), data.dtype)


def _compute_reversed(attrs: ReshapeAttrs, data: Array) -> Array:
    return data.reshape([dim for dim in _reversed(data.shape, attrs) if isinstance(dim, int)])


def _shape_like(shape: Sequence[Dim], like: Sequence[Dim], attrs: ReshapeLikeAttrs) -> tuple[Dim, ...]:
    lhs = slice(attrs.lhs_begin, attrs.lhs_end)
    begin, end, _ = lhs.indices(len(shape))
    taken = like[attrs.rhs_begin : attrs.rhs_end]
    made = (*shape[:begin], *taken, *shape[end:])
    if clash(product(shape), product(made)):
        raise ValueError(
            f"the shape {shape_text(shape)} cannot become {shape_text(made)}: the numbers of elements differ"
        )
    return made


def _relate_like(data: TensorType, shape_like: TensorType, attrs: ReshapeLikeAttrs) -> TensorType:
    return TensorType(_shape_like(data.shape, shape_like.shape, attrs), data.dtype)


def _compute_like(attrs: ReshapeLikeAttrs, data: Array, shape_like: Array) -> Array:
    return data.reshape([dim for dim in _shape_like(data.shape, shape_like.shape, attrs) if isinstance(dim, int)])


_RESHAPE = register_op(
    "reshape",
    arguments=("data",),
    attrs_type=ReshapeAttrs,
    relation=forward("reshape", ("data",), _relate),
    compute=_compute,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The elements in the same order, in another shape.",
)
_REVERSE_RESHAPE = register_op(
    "contrib_reverse_reshape",
    arguments=("data",),
    attrs_type=ReshapeAttrs,
    relation=forward("contrib_reverse_reshape", ("data",), _relate_reversed),
    compute=_compute_reversed,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="The elements in another shape, whose codes are read from right to left.",
)
_RESHAPE_LIKE = register_op(
    "reshape_like",
    arguments=("data", "shape_like"),
    attrs_type=ReshapeLikeAttrs,
    relation=forward("reshape_like", ("data", "shape_like"), _relate_like),
    compute=_compute_like,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The elements in the shape, or part of the shape, of another tensor.",
)
for _op in (_RESHAPE, _REVERSE_RESHAPE, _RESHAPE_LIKE):
    _op.set_attr("TReshapeOp", True)


def reshape(data: Expr, newshape: Ints, allowzero: bool = False) -> Call:
    """Return the elements in the same order in another shape.

    A number above 0 is a dimension of that size. The others are codes:

    - 0 copies the dimension of the data at this place (with `allowzero` it is a dimension of size 0);
    - -1 is inferred from what is left; there may be one;
    - -2 copies all dimensions that are left;
    - -3 is the product of the next two dimensions;
    - -4 splits the next dimension into the two numbers that follow it, one of which may be -1.

    A shape that is an expression, and no constant, can only have the codes 0 and -1, and is not part of the type.
    """
    shape = computed(newshape)
    if shape is not None:
        return call_op("dyn.reshape", data, shape, allowzero=allowzero)
    attrs = ReshapeAttrs(newshape=static_ints("reshape", "newshape", newshape), allowzero=allowzero)
    return Call(_RESHAPE, (data,), attrs)


def reverse_reshape(data: Expr, newshape: Ints) -> Call:
    """Return the elements in another shape; the codes are those of `reshape`, read from right to left.

    For data of shape (10, 5, 4), the new shape (-1, 0) means (40, 5) to `reshape` and (50, 4) here.

    Raises:
        TypeError: if the new shape is an expression, and no constant.

    """
    attrs = ReshapeAttrs(newshape=static_ints("reverse_reshape", "newshape", newshape))
    return Call(_REVERSE_RESHAPE, (data,), attrs)


def reshape_like(
    data: Expr,
    shape_like: Expr,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> Call:
    """Return the elements with the axes from `lhs_begin` to `lhs_end` replaced by axes of the shape of another tensor.

    The axes that are taken are those of `shape_like` from `rhs_begin` to `rhs_end`; the default is all for all.
    """
    attrs = ReshapeLikeAttrs(lhs_begin=lhs_begin, lhs_end=lhs_end, rhs_begin=rhs_begin, rhs_end=rhs_end)
    return Call(_RESHAPE_LIKE, (data, shape_like), attrs)
