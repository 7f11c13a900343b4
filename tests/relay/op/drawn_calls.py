"""Functions that draw a random call of each operator."""

from collections.abc import Callable, Mapping
from typing import Final

from apass.relay import op
from apass.relay.expr import Call, Expr
from apass.relay.ir.expr import TupleWrapper
from tests.relay.op.drawn import Draw
from tests.relay.op.drawn_shape_calls import SHAPE_CALLS

__all__ = ["CALLS", "draw_call"]

Built = Expr | TupleWrapper

_REAL: Final = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "fast_erf",
    "fast_exp",
    "fast_tanh",
    "floor",
    "log",
    "log10",
    "log2",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
_ANY: Final = ["abs", "copy", "isfinite", "isinf", "isnan", "negative", "ones_like", "sign", "zeros_like"]
_BINARY: Final = [
    "add",
    "divide",
    "floor_divide",
    "floor_mod",
    "trunc_divide",
    "trunc_mod",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "power",
    "subtract",
]
_COMPARE: Final = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]
_BITS: Final = ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]
_LOGIC: Final = ["logical_and", "logical_or", "logical_xor"]
_REDUCE: Final = ["max", "mean", "min", "prod", "sum"]


def _unary(name: str, *dtypes: str) -> Callable[[Draw], Built]:
    def draw_unary(draw: Draw) -> Built:
        function: Callable[[Expr], Call] = getattr(op, name)
        return function(draw.tensor(draw.shape(), draw.one_of(*dtypes) if dtypes else draw.dtype()))

    return draw_unary


def _binary(name: str, *dtypes: str) -> Callable[[Draw], Built]:
    def draw_binary(draw: Draw) -> Built:
        function: Callable[[Expr, Expr], Call] = getattr(op, name)
        shape, dtype = draw.shape(), draw.one_of(*dtypes) if dtypes else draw.dtype()
        return function(draw.tensor(draw.narrowed(shape), dtype), draw.tensor(draw.narrowed(shape), dtype))

    return draw_binary


def _reduction(name: str, *dtypes: str, arg: bool = False) -> Callable[[Draw], Built]:
    def draw_reduction(draw: Draw) -> Built:
        function: Callable[..., Call] = getattr(op, name)
        shape = draw.shape()
        data = draw.tensor(shape, draw.one_of(*dtypes) if dtypes else draw.dtype())
        options = (draw.flag(),) if arg else ()
        return function(data, draw.axes(len(shape)), draw.flag(), draw.flag(), *options)

    return draw_reduction


def _variance(draw: Draw) -> Built:
    shape = draw.shape()
    call = op.variance(draw.tensor(shape), draw.axes(len(shape)), draw.flag(), draw.flag(), draw.flag())
    return Call(call.op, (call.args[0], draw.tensor(draw.one_of(shape, [1] * len(shape)))), call.attrs)


def _scan(function: Callable[..., Call]) -> Callable[[Draw], Built]:
    def draw_scan(draw: Draw) -> Built:
        shape = draw.shape(1)
        axis = draw.one_of(None, draw.axis(len(shape)))
        return function(draw.tensor(shape, draw.dtype()), axis, draw.one_of(None, "int32", "float64"), draw.flag())

    return draw_scan


def _cast(draw: Draw) -> Built:
    return op.cast(draw.tensor(draw.shape(), draw.dtype()), draw.dtype())


def _cast_like(draw: Draw) -> Built:
    return op.cast_like(draw.tensor(draw.shape(), draw.dtype()), draw.tensor(draw.shape(), draw.dtype()))


def _reinterpret(draw: Draw) -> Built:
    dtypes = draw.one_of(("int32", "float32"), ("float64", "int64"), ("uint8", "int8"))
    return op.reinterpret(draw.tensor(draw.shape(), dtypes[0]), dtypes[1])


def _clip(draw: Draw) -> Built:
    return op.clip(draw.tensor(draw.shape(), draw.dtype()), draw.number(-300, 1), draw.one_of(2.5, 1e9, float("inf")))


def _fixed_point_multiply(draw: Draw) -> Built:
    return op.fixed_point_multiply(draw.tensor(draw.shape(), "int32"), draw.number(0, 2**31 - 1), draw.number(-3, 3))


def _where(draw: Draw) -> Built:
    shape, dtype = draw.shape(), draw.dtype()
    tensors = [draw.tensor(draw.narrowed(shape), dtype) for dtype in (draw.one_of("bool", "int32"), dtype, dtype)]
    return op.where(tensors[0], tensors[1], tensors[2])


def _on_device(draw: Draw) -> Built:
    return op.annotation.on_device(draw.tensor(draw.shape()), "cuda", draw.flag())


def _device_copy(draw: Draw) -> Built:
    return op.device_copy(draw.tensor(draw.shape()), "cpu", "cuda")


def _kept(name: str, *more: object) -> Callable[[Draw], Built]:
    return lambda draw: getattr(op.annotation, name)(draw.tensor(draw.shape()), *more)


def _debug(draw: Draw) -> Built:
    return op.debug(draw.tensor(draw.shape()), lambda value: None)


CALLS: Final[Mapping[str, Callable[[Draw], Built]]] = {
    **{name: _unary(name, "float32", "float64", "float16") for name in _REAL},
    **{name: _unary(name, "float32", "int32", "int8") for name in _ANY},
    **{name: _binary(name) for name in (*_BINARY, *_COMPARE)},
    **{name: _binary(name, "int32", "uint8", "bool" if "shift" not in name else "int64") for name in _BITS},
    **{name: _binary(name, "bool") for name in _LOGIC},
    **{name: _reduction(name) for name in _REDUCE},
    **{name: _reduction(name, "bool") for name in ("all", "any")},
    **{name: _reduction(name, arg=True) for name in ("argmax", "argmin")},
    **SHAPE_CALLS,
    "annotation.compiler_begin": _kept("compiler_begin", "dnnl"),
    "annotation.compiler_end": _kept("compiler_end", "dnnl"),
    "annotation.bitpack_end": _kept("bitpack_end"),
    "annotation.bitpack_start": _kept("bitpack_start"),
    "annotation.cast_hint": _kept("cast_hint", "int8"),
    "annotation.checkpoint": _kept("checkpoint"),
    "annotation.stop_fusion": _kept("stop_fusion"),
    "bitwise_not": _unary("bitwise_not", "int32", "uint8", "bool"),
    "cast": _cast,
    "cast_like": _cast_like,
    "clip": _clip,
    "cumprod": _scan(op.cumprod),
    "cumsum": _scan(op.cumsum),
    "debug": _debug,
    "device_copy": _device_copy,
    "fixed_point_multiply": _fixed_point_multiply,
    "logical_not": _unary("logical_not", "bool"),
    "on_device": _on_device,
    "reinterpret": _reinterpret,
    "variance": _variance,
    "where": _where,
}
"""The functions that draw calls, by the name of the operator."""


def draw_call(name: str, draw: Draw) -> Call:
    """Return a random call of an operator."""
    built = CALLS[name](draw)
    call = built.astuple() if isinstance(built, TupleWrapper) else built
    assert isinstance(call, Call)
    return call
