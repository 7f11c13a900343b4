"""Type relations that many operators share."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Relation
from apass.relay.ir.op_definition import NAMED_RELATIONS
from apass.relay.ir.ty import IncompleteType, TensorType, TupleType, Type
from apass.relay.op.define.dims import broadcast_dims

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
"""`rule(*arguments, attrs)` maps the types of the arguments to that of the result; ValueError if they do not fit."""


def identity_relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
    """Unify all types: each becomes the first one that is known, a tensor or not."""
    known = next((ty for ty in types if not isinstance(ty, IncompleteType)), None)
    return None if known is None else [known] * len(types)


def elementwise_relation(op: str) -> Relation:
    """Return the relation of one tensor, with a result of the same type."""

    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        for ty in types:
            tensor_of(op, "data", ty)
        return identity_relation(types, attrs)

    return relation


def forward(op: str, arguments: Sequence[str], rule: Rule) -> Relation:
    """Return a relation that computes the result type from the types of all arguments.

    All arguments are tensors. The relation waits until all their types are known.

    `rule(*arguments, attrs)` gets a TensorType for each argument. It returns the type of the result, or None to wait
    for more types. It raises ValueError if the types do not fit.
    """

    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        tensors = [tensor_of(op, name, ty) for name, ty in zip(arguments, types[:-1], strict=True)]
        return None if None in tensors else _apply_rule(op, rule, tensors, attrs)

    return relation


def forward_tuple(op: str, argument: str, rule: Rule) -> Relation:
    """Return a relation as `forward` does, for one argument that is a tuple.

    `rule(fields, attrs)` gets the types of the fields of the tuple.
    """

    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        fields = tensors_of(op, argument, types[0])
        return None if fields is None else _apply_rule(op, rule, [fields], attrs)

    return relation


def _apply_rule(op: str, rule: Rule, arguments: Sequence[object], attrs: Attrs | None) -> Sequence[Type | None] | None:
    try:
        result = rule(*arguments, attrs)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {error}") from error
    return None if result is None else [*(None for _ in arguments), result]


def tensor_of(op: str, name: str, ty: Type) -> TensorType | None:
    """Return the type of an argument that is a tensor, or None if it is not known yet.

    Raises:
        TypeInferenceError: if the argument is not a tensor.

    """
    if isinstance(ty, IncompleteType):
        return None
    if not isinstance(ty, TensorType):
        raise TypeInferenceError(f"{op}: {name} must be a tensor, got {ty}")
    return ty


def tensors_of(op: str, name: str, ty: Type) -> tuple[TensorType, ...] | None:
    """Return the field types of an argument that is a tuple of tensors.

    Return None if one of them is not known yet.

    Raises:
        TypeInferenceError: if the argument is not a tuple of tensors.

    """
    if isinstance(ty, IncompleteType):
        return None
    if not isinstance(ty, TupleType):
        raise TypeInferenceError(f"{op}: {name} must be a tuple of tensors, got {ty}")
    fields = [tensor_of(op, f"field {index} of {name}", field) for index, field in enumerate(ty.fields)]
    tensors = tuple(field for field in fields if field is not None)
    return tensors if len(tensors) == len(fields) else None


def one_dtype(*tensors: TensorType) -> str:
    """Return the element type of several tensors.

    Raises:
        ValueError: if the element types differ.

    """
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise ValueError(f"the element types differ: {' and '.join(map(str, tensors))}; cast to one of them")
    return tensors[0].dtype


def broadcast_relation(op: str) -> Relation:
    """Return the relation of two inputs that broadcast as in numpy.

    Both inputs and the result have the same element type.
    """
    return forward(op, ("the left operand", "the right operand"), _broadcast)


def comparison_relation(op: str) -> Relation:
    """Return a relation as `broadcast_relation` does, but with a result of bools."""
    return forward(op, ("the left operand", "the right operand"), _compare)


def predicate_relation(op: str) -> Relation:
    """Return the relation of one input, whose result has a bool for each element."""
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
