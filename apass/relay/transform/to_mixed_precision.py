"""ToMixedPrecision: compute in a lower precision where that is safe.

The counterpart of TVM's `to_mixed_precision.cc`.

Each operator has a category: see `relay.transform.mixed_precision`. Operators of the category ALWAYS get their
floating-point operands in the lower precision. Operators of the category NEVER get them as float32. Those of the
category FOLLOW get the lower precision if all operands have it; constants and variables can have it. A tensor is cast
once to each type. The parameters of the function keep their types, but its result may be of the lower precision.

Where TVM returns an ill-typed program, this pass casts to the type of the original program: for branches whose types
differ, for the values of cells, and for arguments of functions.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from apass.core.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.errors import OpNotImplementedError
from apass.relay.ir.adt import Clause, Constructor, Match
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import FuncType, RefType, TensorType, TupleType, Type
from apass.relay.op.define.attrs import InitOpAttrs
from apass.relay.op.nn.conv.conv import ConvAttrs
from apass.relay.op.nn.conv.deformable import DeformableConv2DAttrs
from apass.relay.op.nn.conv.transpose import Conv1DTransposeAttrs, Conv2DTransposeAttrs, Conv3DTransposeAttrs
from apass.relay.op.nn.dense.dense import BatchMatmulAttrs, DenseAttrs
from apass.relay.transform.function_pass import function_pass
from apass.relay.transform.mixed_precision import (
    MIXED_PRECISION_ALWAYS,
    MIXED_PRECISION_FOLLOW,
    MIXED_PRECISION_NEVER,
)
from apass.relay.type_inference.infer import ensure_typed, infer_expr
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["ToMixedPrecision", "to_mixed_precision"]

_FLOATS: Final = re.compile("b?float[0-9]+")
_CATEGORIES: Final = (MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER)
_WITH_OUT_DTYPE: Final = (
    ConvAttrs,
    Conv1DTransposeAttrs,
    Conv2DTransposeAttrs,
    Conv3DTransposeAttrs,
    DeformableConv2DAttrs,
    DenseAttrs,
    BatchMatmulAttrs,
)


def to_mixed_precision(func: Function, mixed_precision_type: str = "float16") -> tuple[Function, Counter[str]]:
    """Return the function in mixed precision, and its unregistered operators.

    The function must be typed. The second result counts the calls of each operator without a
    `FTVMMixedPrecisionConversionType`. Such an operator has the category FOLLOW.

    Raises:
        OpNotImplementedError: if the function uses a constructor or a global function, or calls a variable.
        PassDefinitionError: if a conversion that was registered for an operator returns anything but three values.

    """
    converter = _Converter(mixed_precision_type)
    return rewrite_function(converter, func), converter.missing_ops


@provide_pass("ToMixedPrecision")
def ToMixedPrecision(
    mixed_precision_type: str = "float16", missing_op_mode: int = 1
) -> FunctionPass[IRModule, Function]:
    """Convert floating-point computations to a lower precision where that is safe.

    An operator without a registered conversion is an error if `missing_op_mode` is 0, and a warning if it is 0 or 1.
    """
    _check_options(mixed_precision_type, missing_op_mode)

    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        result, missing = to_mixed_precision(ensure_typed(func, mod), mixed_precision_type)
        for name, count in missing.items() if missing_op_mode < 2 else ():
            ctx.diag_ctx.warning(
                f'Op "{name}" not registered FTVMMixedPrecisionConversionType appears {count} times in graph.'
            )
        if missing and missing_op_mode == 0:
            raise OpNotImplementedError(
                f"missing ops were found: no conversion to mixed precision is registered for {', '.join(missing)}; "
                "use relay.op.register_mixed_precision_conversion, or missing_op_mode=1"
            )
        return result

    # Not cacheable: the result also depends on conversions that users register, and warnings are not cached.
    return function_pass(convert, opt_level=0, name="ToMixedPrecision", cacheable=False)


def _check_options(mixed_precision_type: str, missing_op_mode: int) -> None:
    if not isinstance(mixed_precision_type, str) or not _FLOATS.fullmatch(mixed_precision_type):
        error = PassDefinitionError(
            f"mixed_precision_type must be a floating-point type, such as float16, got {mixed_precision_type!r}"
        )
        error.option = "mixed_precision_type"
        raise error
    if missing_op_mode not in {0, 1, 2}:
        error = PassDefinitionError(f"missing_op_mode must be 0, 1 or 2, got {missing_op_mode!r}")
        error.option = "missing_op_mode"
        raise error


class _Converter(ExprMutator, scopes_first=True):
    """Rewrites a typed function, and records the types of the new expressions."""

    def __init__(self, mixed_precision_type: str) -> None:
        super().__init__()
        self.missing_ops: Counter[str] = Counter()
        """Number of calls of each operator without a registered conversion."""
        self._mixed = mixed_precision_type
        self._types: dict[Expr, Type] = {}
        self._casts: dict[tuple[Expr, str], Expr] = {}
        self._fields: dict[tuple[Expr, int], Expr] = {}

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        assert isinstance(new, Call), "an ExprMutator returns a call for a call"
        if isinstance(call.op, Function):
            args = [self._as_type(arg, old.checked_type) for arg, old in zip(new.args, call.args, strict=True)]
            return self._call(call, new.op, args, call.attrs)
        if not isinstance(call.op, Op):
            raise _unsupported(call.op)
        category, accumulated, result = self._conversion(call, call.op)
        if category == MIXED_PRECISION_FOLLOW and not all(map(self._can_follow, new.args)):
            category = MIXED_PRECISION_NEVER
        if category == MIXED_PRECISION_NEVER:
            return self._call(call, new.op, [self._as_dtype(arg, "float32") for arg in new.args], call.attrs)
        args = [self._as_dtype(arg, self._mixed) for arg in new.args]
        output = self._call(call, new.op, args, _with_dtype(call.attrs, accumulated))
        return output if accumulated == result else self._as_dtype(output, result)

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        raise _unsupported(gvar)

    def visit_constructor(self, con: Constructor) -> Expr:
        raise _unsupported(con)

    def visit_tuple(self, tup: Tuple) -> Expr:
        new = super().visit_tuple(tup)
        return self._typed(new, TupleType(map(self._type_of, new.children)))

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        new = super().visit_tuple_getitem(op)
        return self._typed(new, _field_types(self._type_of(new.children[0]))[op.index])

    def visit_function(self, fn: Function) -> Expr:
        body = self.visit(fn.body)
        new = Function(fn.params, body, None, fn.type_params, fn.attrs, span=fn.span) if body is not fn.body else fn
        types = [param.checked_type for param in fn.params]
        return self._typed(new, FuncType(types, self._type_of(body), fn.type_params))

    def pre_visit_let(self, let: Let) -> None:
        ty = self._type_of(self.visit(let.value))
        if ty != let.var.checked_type:
            self.memo_map[let.var] = Var(let.var.name_hint, ty, span=let.var.span)

    def post_visit_let(self, let: Let) -> Expr:
        new = super().post_visit_let(let)
        return self._typed(new, self._type_of(self.visit(let.body)))

    def visit_if(self, ite: If) -> Expr:
        cond, *results = self.mutate_all(ite.children)
        true_branch, false_branch = self._unified(results, ite.checked_type)
        children = (cond, true_branch, false_branch)
        new = ite if children == ite.children else If(*children, span=ite.span)
        return self._typed(new, self._type_of(true_branch))

    def visit_match(self, match: Match) -> Expr:
        data = self.visit(match.data)
        results = self._unified([self.visit(clause.rhs) for clause in match.clauses], match.checked_type)
        clauses = [Clause(old.lhs, rhs) for old, rhs in zip(match.clauses, results, strict=True)]
        if data is match.data and all(new.rhs is old.rhs for new, old in zip(clauses, match.clauses, strict=True)):
            clauses = list(match.clauses)
        new = Match(data, clauses, match.complete, span=match.span)
        return self._typed(new, self._type_of(results[0]) if results else match.checked_type)

    def visit_ref_create(self, ref: RefCreate) -> Expr:
        value = self._as_type(self.visit(ref.value), ref.value.checked_type)
        new = ref if value is ref.value else RefCreate(value, span=ref.span)
        return self._typed(new, RefType(self._type_of(value)))

    def visit_ref_read(self, ref: RefRead) -> Expr:
        return self._typed(super().visit_ref_read(ref), ref.checked_type)

    def visit_ref_write(self, ref: RefWrite) -> Expr:
        value = self._as_type(self.visit(ref.value), ref.value.checked_type)
        return self._typed(RefWrite(self.visit(ref.ref), value, span=ref.span), TupleType([]))

    def _conversion(self, call: Call, op: Op) -> tuple[int, str, str]:
        """Return the category of a call, its type for accumulation, and its result type."""
        convert = op.get_attr("FTVMMixedPrecisionConversionType")
        if not callable(convert):
            self.missing_ops[op.name] += 1
            return MIXED_PRECISION_FOLLOW, self._mixed, self._mixed
        values: object = convert(call, self._mixed)
        match values:
            case (int() as category, str() as accumulated, str() as result) if category in _CATEGORIES:
                return category, accumulated, result
            case _:
                raise PassDefinitionError(
                    f"the FTVMMixedPrecisionConversionType of {op.name} must return a category, an accumulation type "
                    f"and a result type, got {values!r}"
                )

    def _can_follow(self, arg: Expr) -> bool:
        return isinstance(arg, Var | Constant) or _is_of(self._type_of(arg), self._mixed)

    def _call(self, old: Call, op: Expr, args: Sequence[Expr], attrs: Attrs | None) -> Expr:
        """Return a call, the old one if it is equal, and record its type."""
        if op is old.op and tuple(args) == old.args and attrs == old.attrs:
            return self._typed(old, old.checked_type)
        callee = op if isinstance(op, Op) else Var("callee", self._type_of(op))
        # The type of a call depends on the types of its operands alone, so variables replace them here.
        similar = Call(callee, [Var("operand", self._type_of(arg)) for arg in args], attrs)
        return self._typed(Call(op, args, attrs, span=old.span), infer_expr(similar).checked_type)

    def _typed(self, expr: Expr, ty: Type) -> Expr:
        self._types[expr] = ty
        return expr

    def _type_of(self, expr: Expr) -> Type:
        known = self._types.get(expr)
        return expr.checked_type if known is None else known

    def _unified(self, results: Sequence[Expr], ty: Type) -> list[Expr]:
        """Return alternative results, cast to the type `ty` if their types differ."""
        types = [self._type_of(result) for result in results]
        return list(results) if types[1:] == types[:-1] else [self._as_type(result, ty) for result in results]

    def _as_type(self, expr: Expr, wanted: Type) -> Expr:
        """Return an expression with its tensors cast to the element types of a type."""
        actual = self._type_of(expr)
        if isinstance(actual, TensorType) and isinstance(wanted, TensorType):
            return self._cast(expr, actual, wanted.dtype)
        if not isinstance(actual, TupleType) or not isinstance(wanted, TupleType) or actual == wanted:
            return expr
        return self._fieldwise(expr, [self._as_type(self._field(expr, i), ty) for i, ty in enumerate(wanted.fields)])

    def _as_dtype(self, expr: Expr, dtype: str) -> Expr:
        """Return an expression with its floating-point tensors cast to an element type."""
        actual = self._type_of(expr)
        if isinstance(actual, TensorType):
            return self._cast(expr, actual, dtype)
        if not isinstance(actual, TupleType):
            return expr
        return self._fieldwise(expr, [self._as_dtype(self._field(expr, i), dtype) for i in range(len(actual.fields))])

    def _fieldwise(self, expr: Expr, fields: list[Expr]) -> Expr:
        if all(field is self._field(expr, i) for i, field in enumerate(fields)):
            return expr
        return self._typed(Tuple(fields), TupleType(map(self._type_of, fields)))

    def _field(self, expr: Expr, index: int) -> Expr:
        if isinstance(expr, Tuple):
            return expr.fields[index]
        if (expr, index) not in self._fields:
            self._fields[expr, index] = field = TupleGetItem(expr, index)
            self._typed(field, _field_types(self._type_of(expr))[index])
        return self._fields[expr, index]

    def _cast(self, expr: Expr, actual: TensorType, dtype: str) -> Expr:
        if not actual.dtype.startswith("float") or actual.dtype == dtype:
            return expr
        if (expr, dtype) not in self._casts:
            cast = self._typed(call_op("cast", expr, dtype=dtype), TensorType(actual.shape, dtype))
            self._casts[expr, dtype] = cast
            self._casts[cast, actual.dtype] = expr  # casting back returns the original
        return self._casts[expr, dtype]


def _unsupported(callee: Expr) -> OpNotImplementedError:
    return OpNotImplementedError(
        f"ToMixedPrecision supports operators and function expressions, got {callee!r}, whose result may change its "
        "type; run Inline first, or leave the function out"
    )


def _is_of(ty: Type, dtype: str) -> bool:
    """Return whether a type has only floating-point tensors of one element type."""
    if isinstance(ty, TupleType):
        return all(_is_of(field, dtype) for field in ty.fields)
    return isinstance(ty, TensorType) and ty.dtype == dtype and dtype.startswith("float")


def _field_types(ty: Type) -> tuple[Type, ...]:
    assert isinstance(ty, TupleType), "the fields of typed expressions are those of tuples"
    return ty.fields


def _with_dtype(attrs: Attrs | None, dtype: str) -> Attrs | None:
    """Return attributes with a floating-point or unset result type replaced."""
    if isinstance(attrs, _WITH_OUT_DTYPE):
        return attrs.replaced(out_dtype=dtype) if _is_replaceable(attrs.out_dtype) else attrs
    if isinstance(attrs, InitOpAttrs):
        return attrs.replaced(dtype=dtype) if _is_replaceable(attrs.dtype) else attrs
    return attrs


def _is_replaceable(dtype: str) -> bool:
    return not dtype or dtype.startswith("float")
