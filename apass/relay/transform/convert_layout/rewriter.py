"""The rewriter of ConvertLayout and AlterOpLayout: it inserts changes of layout.

The counterpart of TVM's `transform_layout.h`. The rules of the operators infer layouts twice: for the program as it was
written, and for the present layouts of the operands. If a rule has no solution, the operands are converted back to the
layouts of the program.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from apass.relay.ir.calls import call_op, known_type, op_name
from apass.relay.ir.expr import Call, Expr, Op, Tuple, TupleGetItem
from apass.relay.ir.ty import TensorType, TupleType, Type
from apass.relay.op.layouts import InferCorrectLayoutOutput
from apass.relay.op.layouts.names import expanded, primal, rank
from apass.relay.op.shape.axes import LayoutTransformAttrs
from apass.relay.transform.convert_layout.calls import Operand, Operands, TensorLayout, fits, infer_layouts
from apass.relay.visitors.expr_functor import ExprMutator

__all__ = ["Alteration", "LayoutRewriter"]

Alteration: TypeAlias = Callable[[Call, Sequence[Expr], Sequence[Type]], Expr | None]
"""`alter(call, inputs, types)` returns a call of the original program in new layouts, or None to leave it unchanged.

`inputs` are the rewritten operands, in any layout. `types` are the types of the original operands.
"""


class LayoutRewriter(ExprMutator):
    """Rewrites calls to work in new layouts.

    Every result is returned in its original layout. The same tensor in its new layout is recorded in `layouts`.
    """

    def __init__(self, attribute: str, alter: Alteration) -> None:
        """Create a rewriter; `attribute` names what `alter` calls in error messages."""
        super().__init__()
        self.attribute = attribute
        self.alter = alter
        self.layouts: dict[Expr, tuple[TensorLayout, ...]] = {}
        """The tensors of an original expression; several for a tuple."""
        self.moved: dict[tuple[Expr, str, str], Expr] = {}
        """Inserted changes of layout, each of which is made once."""
        self.fields: dict[tuple[Expr, int], Expr] = {}
        """The expressions that read the fields of tuples, each of which is made once."""

    def visit_call(self, call: Call) -> Expr:
        """Return the result in its original layout, and record its new layout."""
        results = self._layout_transform(call) if op_name(call) == "layout_transform" else self._rewritten(call)
        if results is None:
            return super().visit_call(call)
        self.layouts[call] = results
        if not isinstance(call.checked_type, TupleType):
            return self._back(results[0])
        first = results[0].value
        # If no field changes its layout, use the tuple itself instead of a tuple of its fields.
        if all(tensor.new == tensor.old for tensor in results) and isinstance(first, TupleGetItem):
            return first.tuple_value
        return Tuple([self._back(tensor) for tensor in results])

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Return the field in its original layout, and record its new layout."""
        fields = self._field_layouts(op.tuple_value)
        tensor = fields[op.index] if fields else None
        if tensor is None:
            return super().visit_tuple_getitem(op)
        if tensor.new == tensor.old and self.visit(op.tuple_value) is op.tuple_value:
            tensor = TensorLayout(op, tensor.new, tensor.old)
        self.layouts[op] = (tensor,)
        return self._back(tensor)

    def _field_layouts(self, whole: Expr) -> Sequence[TensorLayout | None]:
        """Return the layouts of the fields of a tuple; empty if they are unknown."""
        if isinstance(whole, Tuple):
            return [self._layout_of(field) for field in whole.fields]
        return self.layouts.get(whole, ())

    def _layout_of(self, old: Expr) -> TensorLayout | None:
        if old not in self.layouts or isinstance(known_type(old), TupleType):
            return None
        return self.layouts[old][0]

    def _field(self, whole: Expr, index: int) -> Expr:
        """Return a field of a tuple, the same expression each time."""
        return self.fields.setdefault((whole, index), TupleGetItem(whole, index))

    def _back(self, tensor: TensorLayout) -> Expr:
        """Return a tensor in its original layout."""
        return self._move(tensor.value, tensor.new, tensor.old)

    def _move(self, value: Expr, source: str, target: str) -> Expr:
        """Return a value in another layout."""
        if source == target or not source or (rank(primal(source)) < rank(primal(target)) and _is_one_element(value)):
            return value
        # Merge two consecutive changes of layout into one from the first source.
        attrs = value.attrs if isinstance(value, Call) else None
        if isinstance(value, Call) and isinstance(attrs, LayoutTransformAttrs) and attrs.dst_layout == source:
            return self._move(value.args[0], attrs.src_layout, target)
        key = (value, source, target)
        if key not in self.moved:
            self.moved[key] = _transformed(value, source, target)
        return self.moved[key]

    def _layout_transform(self, call: Call) -> tuple[TensorLayout, ...] | None:
        """Return the result of a `layout_transform` of the program.

        The result is computed from the present layout of the operand.
        """
        attrs, (old,) = call.attrs, call.args
        if not isinstance(attrs, LayoutTransformAttrs):
            return None
        tensor = self._layout_of(old)
        if tensor is None or tensor.old != attrs.src_layout:
            tensor = TensorLayout(self.visit(old), attrs.src_layout, attrs.src_layout)
        # If the operand is unchanged, reuse the call itself.
        if tensor.value is old:
            self.moved.setdefault((old, attrs.src_layout, attrs.dst_layout), call)
        value = self._move(tensor.value, tensor.new, attrs.dst_layout)
        return (TensorLayout(value, attrs.dst_layout, attrs.dst_layout),)

    def _rewritten(self, call: Call) -> tuple[TensorLayout, ...] | None:
        """Return the results of a call in new layouts; None if its layouts are unknown."""
        if not isinstance(call.op, Op) or call.op.get_attr("FInferCorrectLayout") is None:
            return None
        operands = self._operands(call)
        if operands is None:
            return None
        olds = [operand.layout.old if operand.layout else None for operand in operands.each]
        before = infer_layouts(call, None, olds, operands.types)
        if before is None:
            return None
        pairs = zip(operands.each, before.input_layouts, strict=True)
        present = [operand.current_layout(old) for operand, old in pairs]
        converted = self._converted(call, operands)
        unknown = (None,) * len(present)
        # The layouts of a call that a hook returned are inferred from the call alone. If an attempt fails, for example
        # because a block does not divide an axis, the next one is tried; the last keeps the original layouts.
        for candidate, new, old in (
            *([(converted, None, unknown)] if converted is not call else []),
            (converted, present, before.input_layouts),
            (call, present, before.input_layouts),
            (call, before.input_layouts, before.input_layouts),
        ):
            after = infer_layouts(candidate, new, old, operands.types)
            if after is not None and fits(operands.types, call.checked_type, before, after):
                values = self._replaced(candidate, operands, present, after) if candidate is not call else {}
                return self._results(call, candidate.op, operands, values, before, after)
        return None

    def _operands(self, call: Call) -> Operands | None:
        """Return the operands of a call; None if the type of an argument is unknown."""
        types = [ty for ty in map(known_type, call.args) if ty is not None]
        if len(types) != len(call.args):
            return None
        each: list[Operand] = []
        sizes: list[int | None] = []
        for arg, ty in zip(call.args, types, strict=True):
            fields = self._field_layouts(arg) if isinstance(ty, TupleType) else ()
            olds = arg.fields if isinstance(arg, Tuple) else [self._field(arg, index) for index in range(len(fields))]
            is_flat = isinstance(arg, Tuple) or bool(fields)
            pairs = zip(olds, fields, strict=True) if is_flat else [(arg, self._layout_of(arg))]
            each += [Operand(old, tensor.value if tensor else self.visit(old), tensor) for old, tensor in pairs]
            sizes.append(len(fields) if is_flat else None)
        return Operands(call.args, types, each, sizes)

    def _converted(self, call: Call, operands: Operands) -> Call:
        """Return the call that the hook of the operator returns, or the call itself."""
        inputs = operands.grouped(operand.value for operand in operands.each)
        result = self.alter(call, inputs, operands.types)
        if result is None:
            return call
        if not isinstance(result, Call) or len(result.args) != len(call.args):
            raise TypeError(
                f"the {self.attribute} of {op_name(call)} must return None or a call with {len(call.args)} "
                f"arguments, got {result!r}"
            )
        return result

    def _replaced(
        self, converted: Call, operands: Operands, present: Sequence[str | None], after: InferCorrectLayoutOutput
    ) -> dict[int, Expr]:
        """Return the operands that a hook replaced, in the layouts that the call takes.

        A replacement is taken to be in the present layout of the operand that it replaces.
        """
        replaced: dict[int, Expr] = {}
        indices = iter(range(len(operands.each)))
        for arg, size in zip(converted.args, operands.sizes, strict=True):
            for number in range(size or 1):
                index = next(indices)
                value = (
                    arg if size is None else arg.fields[number] if isinstance(arg, Tuple) else self._field(arg, number)
                )
                old, new = present[index], after.input_layouts[index]
                if value is not operands.each[index].value:
                    replaced[index] = value if old is None or new is None else self._move(value, old, new)
        return replaced

    def _results(
        self,
        call: Call,
        op: Expr,
        operands: Operands,
        replaced: Mapping[int, Expr],
        before: InferCorrectLayoutOutput,
        after: InferCorrectLayoutOutput,
    ) -> tuple[TensorLayout, ...]:
        """Return the results of a call, with its operands converted to its layouts."""
        triples = zip(operands.each, before.input_layouts, after.input_layouts, strict=True)
        values = [self._converted_operand(operand, old, new) for operand, old, new in triples]
        args = operands.grouped(replaced.get(index, value) for index, value in enumerate(values))
        is_same = op is call.op and args == list(call.args) and after.new_attrs == call.attrs
        result = call if is_same else Call(op, args, after.new_attrs, span=call.span)
        layouts = [(new or "", old or "") for new, old in zip(after.output_layouts, before.output_layouts, strict=True)]
        if not isinstance(call.checked_type, TupleType):
            return (TensorLayout(result, *layouts[0]),)
        return tuple(TensorLayout(self._field(result, index), *pair) for index, pair in enumerate(layouts))

    def _converted_operand(self, operand: Operand, old: str | None, new: str | None) -> Expr:
        """Return an operand in layout `new`; unconverted if `new` is None.

        `old` is the layout in which the original call has it.
        """
        layout = operand.layout
        if layout is not None and layout.old == old and new is not None:
            return self._move(layout.value, layout.new, new)
        value = self._back(layout) if layout else operand.value
        return value if old is None or new is None else self._move(value, old, new)


def _is_one_element(value: Expr) -> bool:
    """Return whether a value is known to be a tensor of one element.

    It is broadcast against a tensor in any layout.
    """
    ty = known_type(value)
    return isinstance(ty, TensorType) and all(dim == 1 for dim in ty.shape)


def _transformed(value: Expr, source: str, target: str) -> Expr:
    """Return a call that changes a layout.

    Axes that only the target has are added in front, with size 1.
    """
    whole = expanded(source, target)
    if whole != source:
        value = call_op("expand_dims", value, axis=0, num_newaxis=rank(whole) - rank(source))
    return value if whole == target else call_op("layout_transform", value, src_layout=whole, dst_layout=target)
