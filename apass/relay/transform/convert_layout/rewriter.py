"""How ConvertLayout goes over a program: calls in new layouts, and changes of layout between them where needed.

TVM's `transform_layout.h`. A layout is found in two steps, by the rules of the operators: as the program was written,
and with what is at hand now. Where a rule has nothing to say, operands come back in the layouts of the program.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from apass.relay.expr import Call, Expr, Op, Tuple, TupleGetItem
from apass.relay.expr_functor import ExprMutator
from apass.relay.ir.calls import call_op, known_type, op_name
from apass.relay.op.layouts import InferCorrectLayoutOutput
from apass.relay.op.layouts.convert import FTVMConvertOpLayout
from apass.relay.op.layouts.names import expanded, rank
from apass.relay.op.shape.axes import LayoutTransformAttrs
from apass.relay.transform.convert_layout.calls import Laid, Operand, Operands, fits, infer_layouts
from apass.relay.ty import TupleType

__all__ = ["LayoutRewriter"]


class LayoutRewriter(ExprMutator):
    """Every result is in the layout of the program; beside it stands, in `laid`, the same in another."""

    def __init__(self, desired_layouts: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.desired = desired_layouts
        self.laid: dict[Expr, tuple[Laid, ...]] = {}
        """For an old expression: its tensors, several if it is a tuple."""
        self.moved: dict[tuple[Expr, str, str], Expr] = {}
        """Changes of layout that were made, so that each is made once."""
        self.fields: dict[tuple[Expr, int], Expr] = {}
        """Fields that were taken."""

    def visit_call(self, call: Call) -> Expr:
        """Return a call's result in the layout of the program, and note which it is in."""
        made = self._relaid(call) if op_name(call) == "layout_transform" else self._rewritten(call)
        if made is None:
            return super().visit_call(call)
        self.laid[call] = made
        if not isinstance(call.checked_type, TupleType):
            return self._back(made[0])
        first = made[0].value
        if all(one.new == one.old for one in made) and isinstance(first, TupleGetItem):
            return first.tuple_value
        return Tuple([self._back(one) for one in made])

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Return a field in the layout of the program, and note which it is in."""
        fields = self._laid_fields(op.tuple_value)
        one = fields[op.index] if fields else None
        if one is None:
            return super().visit_tuple_getitem(op)
        if one.new == one.old and self.visit(op.tuple_value) is op.tuple_value:
            one = Laid(op, one.new, one.old)
        self.laid[op] = (one,)
        return self._back(one)

    def _laid_fields(self, whole: Expr) -> Sequence[Laid | None]:
        """Return what is known of the fields of a tuple; nothing if nothing is."""
        if isinstance(whole, Tuple):
            return [self._laid_one(field) for field in whole.fields]
        return self.laid.get(whole, ())

    def _laid_one(self, old: Expr) -> Laid | None:
        if old not in self.laid or isinstance(known_type(old), TupleType):
            return None
        return self.laid[old][0]

    def _field(self, whole: Expr, place: int) -> Expr:
        """Return a field of a tuple, always the same expression."""
        return self.fields.setdefault((whole, place), TupleGetItem(whole, place))

    def _back(self, one: Laid) -> Expr:
        """Return a tensor in the layout of the program."""
        return self._move(one.value, one.new, one.old)

    def _move(self, value: Expr, source: str, target: str) -> Expr:
        """Return a value in another layout; one that was moved to where it is comes from where it was."""
        if source == target or not source:
            return value
        attrs = value.attrs if isinstance(value, Call) else None
        if isinstance(value, Call) and isinstance(attrs, LayoutTransformAttrs) and attrs.dst_layout == source:
            return self._move(value.args[0], attrs.src_layout, target)
        key = (value, source, target)
        if key not in self.moved:
            self.moved[key] = _transformed(value, source, target)
        return self.moved[key]

    def _relaid(self, call: Call) -> tuple[Laid, ...] | None:
        """Return the result of a change of layout that the program makes: from where its operand is now."""
        attrs, (old,) = call.attrs, call.args
        if not isinstance(attrs, LayoutTransformAttrs):
            return None
        one = self._laid_one(old)
        if one is None or one.old != attrs.src_layout:
            one = Laid(self.visit(old), attrs.src_layout, attrs.src_layout)
        if one.value is old:
            self.moved.setdefault((old, attrs.src_layout, attrs.dst_layout), call)
        return (Laid(self._move(one.value, one.new, attrs.dst_layout), attrs.dst_layout, attrs.dst_layout),)

    def _rewritten(self, call: Call) -> tuple[Laid, ...] | None:
        """Return the results of a call in the layouts that it takes; None if nothing is known of its layouts."""
        if not isinstance(call.op, Op) or call.op.get_attr("FInferCorrectLayout") is None:
            return None
        operands = self._operands(call)
        if operands is None:
            return None
        olds = [one.laid.old if one.laid else None for one in operands.each]
        before = infer_layouts(call, None, olds, operands.types)
        if before is None:
            return None
        given = [one.layout_as(old) for one, old in zip(operands.each, before.input_layouts, strict=True)]
        wanted = self._converted(call, operands)
        unknown = (None,) * len(given)
        # A call that a hook made is asked as it is written. If that cannot be, as a block does not divide an axis, the
        # call stays in the layouts that it had.
        for made, new, old in (
            *([(wanted, None, unknown)] if wanted is not call else []),
            (wanted, given, before.input_layouts),
            (call, given, before.input_layouts),
            (call, before.input_layouts, before.input_layouts),
        ):
            after = infer_layouts(made, new, old, operands.types)
            if after is not None and fits(operands.types, call.checked_type, before, after):
                values = self._changed(made, operands, given, after) if made is not call else {}
                return self._laid_out(call, made.op, operands, values, before, after)
        return None

    def _operands(self, call: Call) -> Operands | None:
        """Return the operands of a call; None if the type of one is not known."""
        types = [ty for ty in map(known_type, call.args) if ty is not None]
        if len(types) != len(call.args):
            return None
        each: list[Operand] = []
        sizes: list[int | None] = []
        for arg, ty in zip(call.args, types, strict=True):
            fields = self._laid_fields(arg) if isinstance(ty, TupleType) else ()
            olds = arg.fields if isinstance(arg, Tuple) else [self._field(arg, place) for place in range(len(fields))]
            is_flat = isinstance(arg, Tuple) or bool(fields)
            pairs = zip(olds, fields, strict=True) if is_flat else [(arg, self._laid_one(arg))]
            each += [Operand(old, one.value if one else self.visit(old), one) for old, one in pairs]
            sizes.append(len(fields) if is_flat else None)
        return Operands(call.args, types, each, sizes)

    def _converted(self, call: Call, operands: Operands) -> Call:
        """Return the call as the hook of its operator makes it, if the operator is to be converted."""
        layouts = self.desired.get(op_name(call))
        hook = call.op.get_attr("FTVMConvertOpLayout") if isinstance(call.op, Op) else None
        if layouts is None or hook is None:
            return call
        inputs = operands.grouped(one.value for one in operands.each)
        made = cast("FTVMConvertOpLayout", hook)(call.attrs, inputs, operands.types, list(layouts))
        if made is None:
            return call
        if not isinstance(cast("object", made), Call) or len(made.args) != len(call.args):
            raise TypeError(
                f"the FTVMConvertOpLayout of {op_name(call)} must return a call with as many arguments, "
                f"{len(call.args)}, or None, not {made!r}"
            )
        return made

    def _changed(
        self, made: Call, operands: Operands, given: Sequence[str | None], after: InferCorrectLayoutOutput
    ) -> dict[int, Expr]:
        """Return what a hook put in the place of operands, taken to be in their layouts, as the call takes it."""
        changed: dict[int, Expr] = {}
        rest = iter(range(len(operands.each)))
        for arg, size in zip(made.args, operands.sizes, strict=True):
            for number in range(size or 1):
                place = next(rest)
                value = (
                    arg if size is None else arg.fields[number] if isinstance(arg, Tuple) else self._field(arg, number)
                )
                old, new = given[place], after.input_layouts[place]
                if value is not operands.each[place].value:
                    changed[place] = value if old is None or new is None else self._move(value, old, new)
        return changed

    def _laid_out(
        self,
        call: Call,
        op: Expr,
        operands: Operands,
        changed: Mapping[int, Expr],
        before: InferCorrectLayoutOutput,
        after: InferCorrectLayoutOutput,
    ) -> tuple[Laid, ...]:
        """Return the results of a call whose operands are brought into the layouts that it takes."""
        triples = zip(operands.each, before.input_layouts, after.input_layouts, strict=True)
        brought = [self._brought(*one) for one in triples]
        args = operands.grouped(changed.get(place, value) for place, value in enumerate(brought))
        is_same = op is call.op and args == list(call.args) and after.new_attrs == call.attrs
        made = call if is_same else Call(op, args, after.new_attrs, span=call.span)
        layouts = [(new or "", old or "") for new, old in zip(after.output_layouts, before.output_layouts, strict=True)]
        if not isinstance(call.checked_type, TupleType):
            return (Laid(made, *layouts[0]),)
        return tuple(Laid(self._field(made, place), *one) for place, one in enumerate(layouts))

    def _brought(self, one: Operand, old: str | None, new: str | None) -> Expr:
        """Return an operand, which the call has in layout `old` in the program, in `new`; None is as it was."""
        if one.laid is not None and one.laid.old == old and new is not None:
            return self._move(one.laid.value, one.laid.new, new)
        value = self._back(one.laid) if one.laid else one.value
        return value if old is None or new is None else self._move(value, old, new)


def _transformed(value: Expr, source: str, target: str) -> Expr:
    """Return a call that changes a layout, with dimensions of 1 put in front that the source has not."""
    whole = expanded(source, target)
    if whole != source:
        value = call_op("expand_dims", value, axis=0, num_newaxis=rank(whole) - rank(source))
    return value if whole == target else call_op("layout_transform", value, src_layout=whole, dst_layout=target)
