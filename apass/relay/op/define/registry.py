"""How operators are defined: one call of `register_op` each; for the files beside this one, and for yours."""

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import TypeVar, overload

from apass.errors import PassRegistrationError
from apass.relay.expr import OPS, Compute, Op, Relation
from apass.relay.ir.attrs import Attrs

__all__ = [
    "OpPattern",
    "get",
    "register",
    "register_convert_op_layout",
    "register_op",
    "register_op_attr",
    "register_pattern",
]

ValueT = TypeVar("ValueT")


class OpPattern(IntEnum):
    """How an operator may be fused with others: TVM's `TOpPattern`, with its numbers."""

    ELEMWISE = 0
    """One element in, one out, at the same place."""
    BROADCAST = 1
    """As above, after the inputs are broadcast."""
    INJECTIVE = 2
    """Each output element is one input element."""
    COMM_REDUCE = 3
    """A reduction whose order does not matter."""
    OUT_ELEMWISE_FUSABLE = 4
    """Complex, as conv2d; elementwise operators can follow it in one kernel."""
    TUPLE = 7
    """A tuple, which stands for several."""
    OPAQUE = 8
    """Cannot be fused."""


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
    """Register an operator and return it; it takes as many inputs as `arguments` has names.

    Its `TOpPattern` and `TOpIsStateful` are set from `pattern` and `stateful`. An operator of your own is defined like
    those of this package: a relation for its types, a kernel for its values, and a function that builds its calls.

    Raises:
        PassRegistrationError: if there is an operator of that name.

    >>> from apass.relay.interpreter.evaluate import evaluate
    >>> from apass.relay.expr import Call
    >>> from apass.relay.make import const
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
        raise PassRegistrationError(f"there is an operator named {name!r} already")
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
    op.set_attr("TOpPattern", pattern)
    op.set_attr("TOpIsStateful", stateful)
    return op


def register(op_name: str, describe: str = "") -> None:
    """Register an operator by its name alone, as TVM does; `get(op_name)` has methods that tell the rest.

    It has no kernel, so it can be typed and printed, but not evaluated; `register_op` takes all at once.

    Raises:
        PassRegistrationError: if there is an operator of that name.

    >>> register("example.identity", "The input itself.")
    >>> op = get("example.identity")
    >>> op.set_num_inputs(1)
    >>> op.add_argument("data", "Tensor", "The input.")
    >>> op.add_type_rel("IdentityOf", lambda types, attrs: types[0])
    >>> del OPS["example.identity"]
    """
    if op_name in OPS:
        raise PassRegistrationError(f"there is an operator named {op_name!r} already")
    OPS[op_name] = Op(name=op_name, description=describe)


def get(op_name: str) -> Op:
    """Return the operator of the name; UnknownOpError, with a suggestion, if there is none."""
    return Op.get(op_name)


@overload
def register_op_attr(
    op_name: str, attr_key: str, value: None = None, level: int = 10
) -> Callable[[ValueT], ValueT]: ...
@overload
def register_op_attr(op_name: str, attr_key: str, value: ValueT, level: int = 10) -> ValueT: ...
def register_op_attr(op_name: str, attr_key: str, value: object = None, level: int = 10) -> object:
    """Set an attribute of an operator that passes go by, and return it; without a value, as a decorator of one.

    What was set at a higher level stays.

    Raises:
        UnknownOpError: if there is no operator of the name.

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
    """Set how an operator may be fused, its `TOpPattern`.

    Raises:
        UnknownOpError: if there is no operator of the name.
        ValueError: if `pattern` is none of `OpPattern`.

    """
    return register_op_attr(op_name, "TOpPattern", OpPattern(pattern), level)


@overload
def register_convert_op_layout(
    op_name: str, convert_layout: None = None, level: int = 10
) -> Callable[[ValueT], ValueT]: ...
@overload
def register_convert_op_layout(op_name: str, convert_layout: ValueT, level: int = 10) -> ValueT: ...
def register_convert_op_layout(op_name: str, convert_layout: object = None, level: int = 10) -> object:
    """Set how ConvertLayout converts the calls of an operator, its `FTVMConvertOpLayout`; also as a decorator.

    It is `hook(attrs, inputs, tinfos, desired_layouts)`, with the types of the inputs and the layouts that the pass is
    given for the operator, and returns the call in these layouts, or None to leave the call as it is. The pass then
    changes the layouts of inputs and results as the operator's `FInferCorrectLayout` says.

    Raises:
        UnknownOpError: if there is no operator of the name.

    >>> @register_convert_op_layout("nn.dense", level=11)
    ... def convert_dense(attrs, inputs, tinfos, desired_layouts):
    ...     return None
    >>> get("nn.dense").get_attr("FTVMConvertOpLayout") is convert_dense
    True
    >>> get("nn.dense").reset_attr("FTVMConvertOpLayout")
    """
    return register_op_attr(op_name, "FTVMConvertOpLayout", convert_layout, level)
