"""How operators on data and a weight are registered: convolutions and transposed ones."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from apass.relay.expr import Compute, Op
from apass.relay.ir.attrs import Attrs
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import tensors
from apass.relay.ty import TensorType, Type

__all__ = ["define_with_weight"]

AttrsT = TypeVar("AttrsT", bound=Attrs)
Types: TypeAlias = Sequence[Type | None] | None


def define_with_weight(
    name: str,
    attrs_type: type[AttrsT],
    rank: int,
    what: str,
    relate: Callable[[str, int, TensorType, TensorType | None, AttrsT], Types],
    compute: Compute,
) -> Op:
    """Register an operator over so many spatial dimensions and return it.

    `relate(name, rank, data, weight, attrs)` tells the types once that of the data is known; see `Op.relation`.
    """

    def relation(types: Sequence[Type], attrs: AttrsT) -> Types:
        data, weight, _ = tensors(name, types)
        return None if data is None else relate(name, rank, data, weight, attrs)

    return register_op(
        name,
        arguments=("data", "weight"),
        attrs_type=attrs_type,
        relation=relation,
        compute=compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        level=2,
        description=f"{what} over {rank} spatial dimension{'s' if rank > 1 else ''}.",
    )
