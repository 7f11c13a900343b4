"""Ways to join the tensors of parallel calls, and to split the result into parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from apass.relay.ir.calls import call_op, tensor_type
from apass.relay.ir.expr import Call, Expr, Tuple, TupleGetItem

__all__ = ["Concatenated", "Joining", "Repeated", "Stacked"]


class Joining(Protocol):
    """A way to join several tensors into one.

    This is a Protocol because its implementations share no code.
    """

    def operand_fits(self, first: Call, second: Call, index: int) -> bool:
        """Return whether the operands of two calls can be joined as their results are.

        `index` is the index of the operand in both calls.
        """
        ...

    def result_fits(self, call: Call, index: int) -> bool:
        """Return whether the result of a call can be split as its operand at `index` is."""
        ...

    def join_operands(self, calls: Sequence[Call], index: int) -> Expr:
        """Return the operands of the calls at `index`, joined."""
        ...

    def parts(self, joined: Expr, calls: Sequence[Call]) -> list[Expr]:
        """Return the result of each call, taken from the joined result."""
        ...


@dataclass(frozen=True, slots=True)
class Concatenated:
    """Tensors are concatenated along an axis of the result."""

    axis: int
    """The axis; if it is negative, it counts from the end, and broadcasting may add axes before it."""

    def operand_fits(self, first: Call, second: Call, index: int) -> bool:
        """Return whether both operands have the whole axis and are otherwise equal."""
        left, right = tensor_type(first.args[index]), tensor_type(second.args[index])
        axis = self._axis_of_operand(first, index)
        if axis < 0 or left.dtype != right.dtype or len(left.shape) != len(right.shape):
            return False
        if any(
            tensor_type(call.args[index]).shape[axis] != tensor_type(call).shape[self.axis] for call in (first, second)
        ):
            return False
        return all(a == b for i, (a, b) in enumerate(zip(left.shape, right.shape, strict=True)) if i != axis)

    def result_fits(self, call: Call, index: int) -> bool:
        """Return whether the joined axis is the same one in the result and in the operand."""
        result, operand = tensor_type(call).shape, tensor_type(call.args[index]).shape
        return result == operand or (self.axis < 0 and result[self.axis :] == operand[self.axis :])

    def join_operands(self, calls: Sequence[Call], index: int) -> Expr:
        """Return the concatenation of the operands."""
        operands = Tuple([call.args[index] for call in calls])
        axis = self.axis if self.axis < 0 else self._axis_of_operand(calls[0], index)
        return call_op("concatenate", operands, axis=axis)

    def parts(self, joined: Expr, calls: Sequence[Call]) -> list[Expr]:
        """Return a slice for each call, of the axes up to the joined one as in TVM."""
        before = self.axis % len(tensor_type(calls[0]).shape)
        strides = (1,) * (before + 1)
        slices: list[Expr] = []
        start = 0
        for call in calls:
            size = tensor_type(call).concrete_shape[self.axis]
            begin, sizes = (0,) * before + (start,), (-1,) * before + (size,)
            slices.append(call_op("strided_slice", joined, begin=begin, end=sizes, strides=strides, slice_mode="size"))
            start += size
        return slices

    def _axis_of_operand(self, call: Call, index: int) -> int:
        """Return the axis in an operand that broadcasts; negative if the operand lacks it."""
        from_end = self.axis if self.axis < 0 else self.axis - len(tensor_type(call).shape)
        return from_end + len(tensor_type(call.args[index]).shape)


@dataclass(frozen=True, slots=True)
class Repeated(Concatenated):
    """Tensors are concatenated along their last axis.

    Before that, scalars and axes of size 1 are repeated.
    """

    def operand_fits(self, first: Call, second: Call, index: int) -> bool:
        """Return whether both operands are equal but for the last axis."""
        left, right = tensor_type(first.args[index]), tensor_type(second.args[index])
        if left.dtype != right.dtype or len(left.shape) != len(right.shape) or left.shape[:-1] != right.shape[:-1]:
            return False
        return all(isinstance(dim, int) for dim in (*left.shape[-1:], *right.shape[-1:]))

    def join_operands(self, calls: Sequence[Call], index: int) -> Expr:
        """Return the concatenation of the operands, each as long as its result."""
        axis = max(len(tensor_type(calls[0].args[index]).shape) - 1, 0)
        return call_op("concatenate", Tuple([self._as_long_as_result(call, index, axis) for call in calls]), axis=axis)

    def _as_long_as_result(self, call: Call, index: int, axis: int) -> Expr:
        operand, size = call.args[index], tensor_type(call).concrete_shape[self.axis]
        shape = tensor_type(operand).concrete_shape
        if not shape:
            operand = call_op("expand_dims", operand, axis=-1, num_newaxis=1)
        is_repeated = not shape or shape[-1] != size
        return call_op("repeat", operand, repeats=size, axis=axis) if is_repeated else operand


@dataclass(frozen=True, slots=True)
class Stacked:
    """Tensors are stacked along a new first axis."""

    def operand_fits(self, first: Call, second: Call, index: int) -> bool:
        """Return whether both operands are of one type."""
        return tensor_type(first.args[index]) == tensor_type(second.args[index])

    def result_fits(self, call: Call, index: int) -> bool:
        """Return whether the result has the shape of the operand."""
        return tensor_type(call).shape == tensor_type(call.args[index]).shape

    def join_operands(self, calls: Sequence[Call], index: int) -> Expr:
        """Return the operands stacked, expanded to the rank of the result."""
        rank = len(tensor_type(calls[0]).shape)
        missing = rank - len(tensor_type(calls[0].args[index]).shape)
        operands = [call.args[index] for call in calls]
        if missing:
            operands = [call_op("expand_dims", operand, axis=0, num_newaxis=missing) for operand in operands]
        return call_op("stack", Tuple(operands), axis=0)

    def parts(self, joined: Expr, calls: Sequence[Call]) -> list[Expr]:
        """Return one layer of the stack for each call."""
        split = call_op("split", joined, indices_or_sections=len(calls), axis=0)
        return [call_op("squeeze", TupleGetItem(split, index), axis=(0,)) for index in range(len(calls))]
