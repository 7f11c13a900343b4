"""reshape with TVM's codes for dimensions, reshape_like and reverse_reshape."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType
from apass.relay.op.define.arguments import Ints, computed_expr, static_ints
from apass.relay.op.define.dims import dims_differ, product, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward

__all__ = ["ReshapeAttrs", "ReshapeLikeAttrs", "reshape", "reshape_like", "reshaped", "reverse_reshape"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshapeAttrs(Attrs):
    """The attributes of reshape and contrib_reverse_reshape."""

    newshape: tuple[int, ...]
    """The new dimensions or codes for them, as in `reshape`."""
    allowzero: bool = False
    """Whether 0 is a dimension of size 0 instead of a code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshapeLikeAttrs(Attrs):
    """The attributes of reshape_like."""

    lhs_begin: int = 0
    """The first axis that is replaced."""
    lhs_end: int | None = None
    """The end of the replaced axes, exclusive; None for the last axis."""
    rhs_begin: int = 0
    """The first axis that is taken from the other tensor."""
    rhs_end: int | None = None
    """The end of the taken axes, exclusive; None for the last axis."""


def reshaped(shape: Sequence[Dim], newshape: Sequence[int], allowzero: bool = False) -> tuple[Dim, ...]:
    """Return the shape that `newshape`, with its codes, gives a tensor of `shape`.

    Raises:
        ValueError: if the codes are invalid, or the new shape has another number of elements.

    >>> reshaped((2, 3, 4), (-4, 1, 2, -2)), reshaped((2, 3, 4), (6, 1, -1))
    ((1, 2, 3, 4), (6, 1, 4))
    """
    return _reshaped(shape, _groups(newshape), allowzero)


def _groups(newshape: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the codes, each with its operands: -4 has two, the others have none."""
    groups: list[tuple[int, ...]] = []
    position = 0
    while position < len(newshape):
        length = 3 if newshape[position] == -4 else 1
        groups.append(tuple(newshape[position : position + length]))
        position += length
    if groups and groups[-1][0] == -4 and len(groups[-1]) < 3:
        raise ValueError(f"-4 in the new shape {shape_text(newshape)} must be followed by two dimensions")
    return groups


def _reshaped(shape: Sequence[Dim], groups: Sequence[tuple[int, ...]], allowzero: bool) -> tuple[Dim, ...]:
    pieces = list(_pieces(shape, groups, allowzero))
    inferred = [piece for piece in pieces if piece.code == -1]
    if len(inferred) > 1:
        raise ValueError(f"only one dimension of the new shape can be -1, got {len(inferred)}")
    if not inferred:
        return _checked(shape, [dim for piece in pieces for dim in piece.dims])
    copied = {axis for piece in pieces for axis in piece.copied}
    others = [dim for axis, dim in enumerate(shape) if axis not in copied]
    fixed = product(dim for piece in pieces if not piece.copied for dim in piece.dims)
    rest = _inferred_dim(shape, product(others), fixed)
    return tuple(dim for piece in pieces for dim in ([rest] if piece.code == -1 else piece.dims))


@dataclass(frozen=True, slots=True)
class _Piece:
    """The expansion of one code of a new shape."""

    code: int
    dims: Sequence[Dim]
    """The new dimensions; empty for -1."""
    copied: range
    """The axes of the data that the new dimensions are copied from."""


def _pieces(shape: Sequence[Dim], groups: Sequence[tuple[int, ...]], allowzero: bool) -> Iterator[_Piece]:
    taken = 0
    for code, *operands in groups:
        if code > 0 or code == -1 or (code == 0 and allowzero):
            # The code uses up one dimension of the data, whatever its size.
            yield _Piece(code, () if code == -1 else (code,), range(0))
            taken += 1
        else:
            dims, used = _copied(code, operands, shape[taken:])
            yield _Piece(code, dims, range(taken, taken + used))
            taken += used


def _checked(shape: Sequence[Dim], new: Sequence[Dim]) -> tuple[Dim, ...]:
    if dims_differ(product(shape), product(new)):
        message = f"the shape {shape_text(shape)} cannot become {shape_text(new)}"
        raise ValueError(f"{message}: the numbers of elements differ")
    return tuple(new)


def _copied(code: int, operands: Sequence[int], dims: Sequence[Dim]) -> tuple[Sequence[Dim], int]:
    """Return the expansion of a code, and how many of the remaining `dims` it uses."""
    needed = {0: 1, -2: 0, -3: 2, -4: 1}.get(code)
    if needed is None:
        raise ValueError(f"unknown code {code} in the new shape; the codes are 0, -1, -2, -3 and -4")
    if len(dims) < needed:
        raise ValueError(f"the code {code} in the new shape needs {needed} dimensions, but only {len(dims)} are left")
    if code == -2:
        return dims, len(dims)
    if code == -3:
        return [product(dims[:2])], 2
    return (dims[:1], 1) if code == 0 else (_halves(dims[0], *operands), 1)


def _halves(dim: Dim, first: int, second: int) -> list[Dim]:
    if first == -1 and second == -1:
        raise ValueError("only one of the two dimensions after -4 can be -1, got two")
    other = second if first == -1 else first
    rest = dim // other if other else Any()
    halves: list[Dim] = [rest if half == -1 else half for half in (first, second)]
    if dims_differ(product(halves), dim):
        raise ValueError(f"a dimension of {dim} cannot be split into {first} and {second}")
    return halves


def _inferred_dim(shape: Sequence[Dim], whole: Dim, part: Dim) -> Dim:
    """Return the dimension for -1.

    It is the number of elements in the dimensions that are not copied, divided by the product of the fixed dimensions.
    """
    are_numbers = isinstance(part, int) and isinstance(whole, int)
    if part == 0 or (are_numbers and whole % part):
        raise ValueError(f"-1 cannot be inferred: {part} does not divide the remaining {whole} of {shape_text(shape)}")
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
    copied = like[attrs.rhs_begin : attrs.rhs_end]
    return _checked(shape, (*shape[:begin], *copied, *shape[end:]))


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
    description="The elements in another shape, with codes that are read from right to left.",
)
_RESHAPE_LIKE = register_op(
    "reshape_like",
    arguments=("data", "shape_like"),
    attrs_type=ReshapeLikeAttrs,
    relation=forward("reshape_like", ("data", "shape_like"), _relate_like),
    compute=_compute_like,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The elements in the shape, or a part of the shape, of another tensor.",
)
for _op in (_RESHAPE, _REVERSE_RESHAPE, _RESHAPE_LIKE):
    _op.set_attr("TReshapeOp", True)


def reshape(data: Expr, newshape: Ints, allowzero: bool = False) -> Call:
    """Return the elements in another shape, in the same order.

    A positive number is a dimension of that size. The others are codes:

    - 0 copies the dimension of the data at this position (with `allowzero`, it is a dimension of size 0);
    - -1 is inferred from the remaining elements; at most one dimension can be -1;
    - -2 copies all remaining dimensions;
    - -3 is the product of the next two dimensions;
    - -4 splits the next dimension into the two numbers that follow, one of which may be -1.

    A shape that is an expression, and not a constant, can contain only the codes 0 and -1. The type of the result then
    does not contain its sizes.
    """
    shape = computed_expr(newshape)
    if shape is not None:
        return call_op("dyn.reshape", data, shape, allowzero=allowzero)
    attrs = ReshapeAttrs(newshape=static_ints("reshape", "newshape", newshape), allowzero=allowzero)
    return Call(_RESHAPE, (data,), attrs)


def reverse_reshape(data: Expr, newshape: Ints) -> Call:
    """Return the elements in another shape, with codes read from right to left.

    The codes are those of `reshape`. For data of shape (10, 5, 4), the new shape (-1, 0) means (40, 5) to `reshape`
    and (50, 4) to `reverse_reshape`.

    Raises:
        TypeError: if the new shape is an expression that is not a constant.

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
    """Return the elements with some axes of the shape replaced by axes of another.

    The axes from `lhs_begin` to `lhs_end` are replaced by those of `shape_like` from `rhs_begin` to `rhs_end`. By
    default, all axes are replaced by all axes.
    """
    attrs = ReshapeLikeAttrs(lhs_begin=lhs_begin, lhs_end=lhs_end, rhs_begin=rhs_begin, rhs_end=rhs_end)
    return Call(_RESHAPE_LIKE, (data, shape_like), attrs)
