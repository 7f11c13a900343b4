"""Registration of operators, for this package and for users."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from typing import TypeAlias, TypeVar, overload

from apass.errors import PassRegistrationError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import OPS, Call, Compute, Expr, Op, Relation
from apass.relay.ir.type_keys import add_attrs_type

__all__ = [
    "FPrimalGradient",
    "OpPattern",
    "get",
    "register",
    "register_alter_op_layout",
    "register_convert_op_layout",
    "register_gradient",
    "register_infer_correct_layout",
    "register_legalize",
    "register_mixed_precision_conversion",
    "register_op",
    "register_op_attr",
    "register_pattern",
    "register_stateful",
]

ValueT = TypeVar("ValueT")

FPrimalGradient: TypeAlias = Callable[[Call, Expr], Sequence[Expr]]
"""`gradient(orig, grad)` returns one expression for each argument of the call `orig`; see `register_gradient`."""


class OpPattern(IntEnum):
    """How an operator can be fused: TVM's `TOpPattern`, with the same numbers."""

    ELEMWISE = 0
    """Each output element is computed from the input element at the same index."""
    BROADCAST = 1
    """As `ELEMWISE`, after the inputs are broadcast."""
    INJECTIVE = 2
    """Each output element is one element of the input."""
    COMM_REDUCE = 3
    """A reduction that can be computed in any order."""
    OUT_ELEMWISE_FUSABLE = 4
    """A complex operator such as conv2d; elementwise operators can follow it in the same kernel."""
    TUPLE = 7
    """A tuple of several tensors."""
    OPAQUE = 8
    """The operator cannot be fused."""


def register_op(
    name: str,
    *,
    arguments: Iterable[str],
    relation: Relation,
    compute: Compute,
    attrs_type: type[Attrs] | None = None,
    pattern: OpPattern = OpPattern.OPAQUE,
    level: int = 10,
    description: str = "",
    stateful: bool = False,
) -> Op:
    """Register an operator and return it.

    The operator takes one input for each name in `arguments`. Its `TOpPattern` and `TOpIsStateful` are set from
    `pattern` and `stateful`. A user's operator is defined as those of this package are: a relation for its types, a
    kernel for its values, and a function that builds its calls.

    Raises:
        PassRegistrationError: if an operator of that name is registered already.

    >>> from apass.relay.interpreter.evaluate import evaluate
    >>> from apass.relay.expr import Call
    >>> from apass.relay.ir.expr import const
    >>> from apass.relay.op.define.relations import identity_relation
    >>> cube = register_op(
    ...     "example.cube",
    ...     arguments=("data",),
    ...     relation=identity_relation,
    ...     compute=lambda data: data**3,
    ...     pattern=OpPattern.ELEMWISE,
    ...     description="The third power of each element.",
    ... )
    >>> evaluate(Call(cube, [const([1, 2, -3])]))
    array([  1,   8, -27], dtype=int32)
    >>> get("example.cube").get_attr("TOpPattern")
    <OpPattern.ELEMWISE: 0>
    """
    if name in OPS:
        raise PassRegistrationError(f"operator {name!r} is already registered")
    names = tuple(arguments)
    op = Op(
        name=name,
        description=description,
        arguments=names,
        num_inputs=len(names),
        attrs_type=attrs_type,
        relation=relation,
        compute=compute,
        support_level=level,
    )
    OPS[name] = op
    if attrs_type is not None:
        add_attrs_type(attrs_type)
    op.set_attr("TOpPattern", pattern)
    op.set_attr("TOpIsStateful", stateful)
    return op


def register(op_name: str, describe: str = "") -> None:
    """Register an operator by its name alone, as TVM does.

    Complete it with the methods of `get(op_name)`, as below. It has no kernel: it can be typed and printed, but not
    evaluated. To define an operator in one call, use `register_op`.

    Raises:
        PassRegistrationError: if an operator of that name is registered already.

    >>> register("example.identity", "The input itself.")
    >>> op = get("example.identity")
    >>> op.set_num_inputs(1)
    >>> op.add_argument("data", "Tensor", "The input.")
    >>> op.add_type_rel("IdentityOf", lambda types, attrs: types[0])
    >>> del OPS["example.identity"]
    """
    if op_name in OPS:
        raise PassRegistrationError(f"operator {op_name!r} is already registered")
    OPS[op_name] = Op(name=op_name, description=describe)


def get(op_name: str) -> Op:
    """Return the operator of a name.

    Raises:
        UnknownOpError: if no operator has that name; the message suggests the nearest name.

    """
    return Op.get(op_name)


@overload
def register_op_attr(
    op_name: str, attr_key: str, value: None = None, level: int = 10
) -> Callable[[ValueT], ValueT]: ...
@overload
def register_op_attr(op_name: str, attr_key: str, value: ValueT, level: int = 10) -> ValueT: ...
def register_op_attr(op_name: str, attr_key: str, value: object = None, level: int = 10) -> object:
    """Set an attribute of an operator that passes read, and return the value.

    Without `value`, return a decorator. A value that is set at a higher level is not replaced.

    Raises:
        UnknownOpError: if no operator has that name.

    >>> @register_op_attr("add", "FSlogan")
    ... def slogan():
    ...     return "more is more"
    >>> get("add").get_attr("FSlogan") is slogan
    True
    """
    op = Op.get(op_name)
    return partial(_set, op, attr_key, level) if value is None else _set(op, attr_key, level, value)


def _set(op: Op, attr_key: str, level: int, value: ValueT) -> ValueT:
    op.set_attr(attr_key, value, level)
    return value


def register_pattern(op_name: str, pattern: int, level: int = 10) -> OpPattern:
    """Set how an operator can be fused: its `TOpPattern`.

    Raises:
        UnknownOpError: if no operator has that name.
        ValueError: if `pattern` is not a number of `OpPattern`.

    """
    return register_op_attr(op_name, "TOpPattern", OpPattern(pattern), level)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> bool:
    """Set whether the calls of an operator have effects: its `TOpIsStateful`.

    Passes neither remove nor merge nor move the calls of a stateful operator.

    Raises:
        UnknownOpError: if no operator has that name.

    >>> register_stateful("nn.dropout", True), get("nn.dropout").get_attr("TOpIsStateful")
    (True, True)
    """
    return register_op_attr(op_name, "TOpIsStateful", stateful, level)


@overload
def register_convert_op_layout(
    op_name: str, convert_layout: None = None, level: int = 10
) -> Callable[[ValueT], ValueT]: ...
@overload
def register_convert_op_layout(op_name: str, convert_layout: ValueT, level: int = 10) -> ValueT: ...
def register_convert_op_layout(op_name: str, convert_layout: object = None, level: int = 10) -> object:
    """Set how ConvertLayout converts the calls of an operator.

    The value, its `FTVMConvertOpLayout`, is `hook(attrs, inputs, tinfos, desired_layouts)`. `tinfos` are the types of
    the inputs, and `desired_layouts` are the layouts that the pass was configured with for the operator. The hook
    returns the call in these layouts, or None to leave the call unchanged. The pass then changes the layouts of inputs
    and results according to the operator's `FInferCorrectLayout`. Without `convert_layout`, return a decorator.

    Raises:
        UnknownOpError: if no operator has that name.

    >>> @register_convert_op_layout("nn.dense", level=11)
    ... def convert_dense(attrs, inputs, tinfos, desired_layouts):
    ...     return None
    >>> get("nn.dense").get_attr("FTVMConvertOpLayout") is convert_dense
    True
    >>> get("nn.dense").reset_attr("FTVMConvertOpLayout")
    """
    return register_op_attr(op_name, "FTVMConvertOpLayout", convert_layout, level)


@overload
def register_alter_op_layout(
    op_name: str, alter_layout: None = None, level: int = 10
) -> Callable[[ValueT], ValueT]: ...
@overload
def register_alter_op_layout(op_name: str, alter_layout: ValueT, level: int = 10) -> ValueT: ...
def register_alter_op_layout(op_name: str, alter_layout: object = None, level: int = 10) -> object:
    """Set how AlterOpLayout alters the calls of an operator.

    The value, its `FTVMAlterOpLayout`, is `hook(attrs, inputs, tinfos, out_type)`. `tinfos` are the types of the
    inputs, with the fields of tuples listed one by one. The hook returns another call, or None to leave the call
    unchanged. The pass then changes the layouts of inputs and results according to the `FInferCorrectLayout` of the new
    operator. Without `alter_layout`, return a decorator.

    Raises:
        UnknownOpError: if no operator has that name.

    >>> @register_alter_op_layout("nn.dense", level=11)
    ... def alter_dense(attrs, inputs, tinfos, out_type):
    ...     return None
    >>> get("nn.dense").get_attr("FTVMAlterOpLayout") is alter_dense
    True
    >>> get("nn.dense").reset_attr("FTVMAlterOpLayout")
    """
    return register_op_attr(op_name, "FTVMAlterOpLayout", alter_layout, level)


@overload
def register_infer_correct_layout(
    op_name: str, infer_layout: None = None, level: int = 10
) -> Callable[[ValueT], ValueT]: ...
@overload
def register_infer_correct_layout(op_name: str, infer_layout: ValueT, level: int = 10) -> ValueT: ...
def register_infer_correct_layout(op_name: str, infer_layout: object = None, level: int = 10) -> object:
    """Set which layouts of inputs and results are valid together for an operator.

    The value, its `FInferCorrectLayout`, is `rule(attrs, new_in_layouts, old_in_layouts, old_in_types)`. It returns an
    `InferCorrectLayoutOutput`, or None if the layouts are unknown. AlterOpLayout and ConvertLayout call it. Without
    `infer_layout`, return a decorator.

    Raises:
        UnknownOpError: if no operator has that name.

    >>> @register_infer_correct_layout("nn.batch_matmul", level=11)
    ... def infer_matmul(attrs, new_in_layouts, old_in_layouts, old_in_types):
    ...     return None
    >>> get("nn.batch_matmul").get_attr("FInferCorrectLayout") is infer_matmul
    True
    >>> get("nn.batch_matmul").reset_attr("FInferCorrectLayout")
    """
    return register_op_attr(op_name, "FInferCorrectLayout", infer_layout, level)


@overload
def register_gradient(
    op_name: str, fgradient: None = None, level: int = 10
) -> Callable[[FPrimalGradient], FPrimalGradient]: ...
@overload
def register_gradient(op_name: str, fgradient: FPrimalGradient, level: int = 10) -> FPrimalGradient: ...
def register_gradient(op_name: str, fgradient: object = None, level: int = 10) -> object:
    """Set the gradient of an operator: its `FPrimalGradient`.

    The value is `fgradient(orig, grad)`. `orig` is a typed call of the operator, and `grad` is the gradient of its
    result. The function returns the gradients of the arguments, with the types of the arguments. The gradient of a
    tuple is a tuple. Without `fgradient`, return a decorator.

    Raises:
        UnknownOpError: if no operator has that name.

    >>> @register_gradient("negative", level=9)
    ... def negative_gradient(orig, grad):
    ...     return [-grad]
    """
    return register_op_attr(op_name, "FPrimalGradient", fgradient, level)


@overload
def register_legalize(op_name: str, legal_op: None = None, level: int = 10) -> Callable[[ValueT], ValueT]: ...
@overload
def register_legalize(op_name: str, legal_op: ValueT, level: int = 10) -> ValueT: ...
def register_legalize(op_name: str, legal_op: object = None, level: int = 10) -> object:
    """Set how Legalize replaces the calls of an operator.

    The value, its `FTVMLegalize`, is `hook(attrs, inputs, types)`. `types` are the types of the inputs and, as the last
    one, of the result. The hook returns another call of the same type, or None to leave the call unchanged. Without
    `legal_op`, return a decorator.

    Raises:
        UnknownOpError: if no operator has that name.

    >>> @register_legalize("nn.dense", level=11)
    ... def legalize_dense(attrs, inputs, types):
    ...     return None
    >>> get("nn.dense").get_attr("FTVMLegalize") is legalize_dense
    True
    >>> get("nn.dense").reset_attr("FTVMLegalize")
    """
    return register_op_attr(op_name, "FTVMLegalize", legal_op, level)


@overload
def register_mixed_precision_conversion(
    op_name: str, func: None = None, level: int = 10
) -> Callable[[ValueT], ValueT]: ...
@overload
def register_mixed_precision_conversion(op_name: str, func: ValueT, level: int = 10) -> ValueT: ...
def register_mixed_precision_conversion(op_name: str, func: object = None, level: int = 10) -> object:
    """Set how ToMixedPrecision converts the calls of an operator.

    The value, its `FTVMMixedPrecisionConversionType`, is `func(call, mixed_precision_type)`. It returns three values: a
    category of `relay.transform.mixed_precision`, the element type to accumulate in, and that of the result. Without
    `func`, return a decorator.

    Raises:
        UnknownOpError: if no operator has that name.

    >>> @register_mixed_precision_conversion("nn.lrn", level=11)
    ... def never(call, mixed_precision_type):
    ...     return [2, "float32", "float32"]
    >>> get("nn.lrn").get_attr("FTVMMixedPrecisionConversionType") is never
    True
    >>> get("nn.lrn").reset_attr("FTVMMixedPrecisionConversionType")
    """
    return register_op_attr(op_name, "FTVMMixedPrecisionConversionType", func, level)
