"""Type relations that many operators share: what holds between the types of their inputs and of their result."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Relation
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.op_definition import NAMED_RELATIONS
from apass.relay.op.define.dims import broadcast_dims
from apass.relay.ty import IncompleteType, TensorType, TupleType, Type

__all__ = [
    "Rule",
    "broadcast_relation",
    "comparison_relation",
    "elementwise_relation",
    "forward",
    "forward_tuple",
    "identity_relation",
    "one_dtype",
    "predicate_relation",
    "tensor_of",
    "tensors_of",
]

Rule: TypeAlias = Callable[..., Type | None]
"""`rule(*arguments, attrs)` from the types of the arguments to that of the result; ValueError if they do not fit."""


def identity_relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
    """All of one type, of tensors or not: whatever one of them is known to be."""
    known = next((one for one in types if not isinstance(one, IncompleteType)), None)
    return None if known is None else [known] * len(types)


def elementwise_relation(op: str) -> Relation:
    """All of one type, which is that of a tensor: an elementwise operator of one input."""

    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        for one in types:
            tensor_of(op, "data", one)
        return identity_relation(types, attrs)

    return relation


def forward(op: str, arguments: Sequence[str], rule: Rule) -> Relation:
    """Return the relation that waits until the types of all arguments, tensors, are known, then tells the result's.

    `rule(*arguments, attrs)` gets a TensorType for each argument. It returns the type of the result, None to wait for
    more, and raises ValueError if the types do not fit.
    """

    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        given = [tensor_of(op, name, one) for name, one in zip(arguments, types[:-1], strict=True)]
        return None if None in given else _told(op, rule, given, attrs)

    return relation


def forward_tuple(op: str, argument: str, rule: Rule) -> Relation:
    """As `forward`, for one argument that is a tuple: `rule(fields, attrs)` gets the types of its fields."""

    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        fields = tensors_of(op, argument, types[0])
        return None if fields is None else _told(op, rule, [fields], attrs)

    return relation


def _told(op: str, rule: Rule, given: Sequence[object], attrs: Attrs | None) -> Sequence[Type | None] | None:
    try:
        result = rule(*given, attrs)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {error}") from error
    return None if result is None else [*(None for _ in given), result]


def tensor_of(op: str, name: str, ty: Type) -> TensorType | None:
    """Return the type of an argument that is a tensor, None if it is not known yet.

    Raises:
        TypeInferenceError: if it is something else.

    """
    if isinstance(ty, IncompleteType):
        return None
    if not isinstance(ty, TensorType):
        raise TypeInferenceError(f"{op}: {name} must be a tensor, but it is a {ty}")
    return ty


def tensors_of(op: str, name: str, ty: Type) -> tuple[TensorType, ...] | None:
    """Return the types of the fields of an argument that is a tuple of tensors, None if one is not known yet.

    Raises:
        TypeInferenceError: if it is something else.

    """
    if isinstance(ty, IncompleteType):
        return None
    if not isinstance(ty, TupleType):
        raise TypeInferenceError(f"{op}: {name} must be a tuple of tensors, but it is a {ty}")
    fields = [tensor_of(op, f"field {place} of {name}", one) for place, one in enumerate(ty.fields)]
    tensors = tuple(one for one in fields if one is not None)
    return tensors if len(tensors) == len(fields) else None


def one_dtype(*tensors: TensorType) -> str:
    """Return the element type that several tensors share.

    Raises:
        ValueError: if they do not.

    """
    if len({one.dtype for one in tensors}) > 1:
        raise ValueError(f"the element types differ: {' and '.join(map(str, tensors))}; cast to one of them")
    return tensors[0].dtype


def broadcast_relation(op: str) -> Relation:
    """The two inputs have one element type; the result has it too, and their shapes broadcast as in numpy."""
    return forward(op, ("the left operand", "the right operand"), _broadcast)


def comparison_relation(op: str) -> Relation:
    """As `broadcast_relation`, but the result is of bools."""
    return forward(op, ("the left operand", "the right operand"), _compare)


def predicate_relation(op: str) -> Relation:
    """A bool for each element of the one input."""
    return forward(op, ("data",), _bools)


def _broadcast(lhs: TensorType, rhs: TensorType, attrs: Attrs | None) -> TensorType:
    return TensorType(broadcast_dims(lhs.shape, rhs.shape), one_dtype(lhs, rhs))


def _compare(lhs: TensorType, rhs: TensorType, attrs: Attrs | None) -> TensorType:
    return TensorType(_broadcast(lhs, rhs, attrs).shape, "bool")


def _bools(data: TensorType, attrs: Attrs | None) -> TensorType:
    return TensorType(data.shape, "bool")


NAMED_RELATIONS.update(
    Identity=lambda _: identity_relation, Broadcast=broadcast_relation, BroadcastComp=comparison_relation
)
