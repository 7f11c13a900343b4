"""How the tensors of parallel calls become one tensor, and how the parts are taken out again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from apass.relay.expr import Call, Expr, Tuple, TupleGetItem
from apass.relay.ir.calls import call_op, tensor_type

__all__ = ["Concatenated", "Joining", "Stacked"]


class Joining(Protocol):
    """A way to make one tensor of several. A Protocol: the two ways share no code."""

    def operand_fits(self, one: Call, other: Call, place: int) -> bool:
        """Tell whether the operands of two elementwise calls at a place can be joined as their results are."""
        ...

    def join_operands(self, calls: Sequence[Call], place: int) -> Expr:
        """Return the operands at a place, joined."""
        ...

    def parts(self, joined: Expr, calls: Sequence[Call]) -> list[Expr]:
        """Return what each call computed, taken out of the joined result."""
        ...


@dataclass(frozen=True, slots=True)
class Concatenated:
    """One behind the other along an axis of the result."""

    axis: int
    """The axis."""

    def operand_fits(self, one: Call, other: Call, place: int) -> bool:
        """Tell whether both have the whole axis, and are alike in all others."""
        left, right = tensor_type(one.args[place]), tensor_type(other.args[place])
        at = self._axis_of_operand(one, place)
        if at < 0 or left.dtype != right.dtype or len(left.shape) != len(right.shape):
            return False
        if any(tensor_type(call.args[place]).shape[at] != tensor_type(call).shape[self.axis] for call in (one, other)):
            return False
        return all(a == b for i, (a, b) in enumerate(zip(left.shape, right.shape, strict=True)) if i != at)

    def join_operands(self, calls: Sequence[Call], place: int) -> Expr:
        """Return the concatenation of the operands."""
        operands = Tuple([call.args[place] for call in calls])
        return call_op("concatenate", operands, axis=self._axis_of_operand(calls[0], place))

    def parts(self, joined: Expr, calls: Sequence[Call]) -> list[Expr]:
        """Return a slice for each call."""
        rank = len(tensor_type(calls[0]).shape)
        made: list[Expr] = []
        start = 0
        for call in calls:
            size = tensor_type(call).concrete_shape[self.axis]
            begin = tuple(start if at == self.axis else 0 for at in range(rank))
            sizes = tuple(size if at == self.axis else -1 for at in range(rank))
            made.append(
                call_op("strided_slice", joined, begin=begin, end=sizes, strides=(1,) * rank, slice_mode="size")
            )
            start += size
        return made

    def _axis_of_operand(self, call: Call, place: int) -> int:
        """Return the axis in an operand that broadcasts; negative if it does not reach so far."""
        return self.axis - len(tensor_type(call).shape) + len(tensor_type(call.args[place]).shape)


@dataclass(frozen=True, slots=True)
class Stacked:
    """One upon the other, along a new first axis."""

    def operand_fits(self, one: Call, other: Call, place: int) -> bool:
        """Tell whether both are of one type."""
        return tensor_type(one.args[place]) == tensor_type(other.args[place])

    def join_operands(self, calls: Sequence[Call], place: int) -> Expr:
        """Return the operands stacked, those of fewer axes than the result broadcast along its own."""
        rank = len(tensor_type(calls[0]).shape)
        missing = rank - len(tensor_type(calls[0].args[place]).shape)
        operands = [call.args[place] for call in calls]
        if missing:
            operands = [call_op("expand_dims", one, axis=0, num_newaxis=missing) for one in operands]
        return call_op("stack", Tuple(operands), axis=0)

    def parts(self, joined: Expr, calls: Sequence[Call]) -> list[Expr]:
        """Return a layer for each call."""
        split = call_op("split", joined, indices_or_sections=len(calls), axis=0)
        return [call_op("squeeze", TupleGetItem(split, place), axis=(0,)) for place in range(len(calls))]
