"""Annotations that compute nothing: `relay.annotation`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from apass.errors import did_you_mean
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import attrs_of, op_name
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.registry import register_op
from apass.relay.op.define.relations import identity_relation

__all__ = [
    "COMPILER_BEGIN",
    "COMPILER_END",
    "DEVICES",
    "CastHintAttrs",
    "CompilerAttrs",
    "DeviceCopyAttrs",
    "OnDeviceAttrs",
    "bitpack_end",
    "bitpack_start",
    "cast_hint",
    "checkpoint",
    "compiler_begin",
    "compiler_end",
    "compiler_of",
    "device_copy",
    "function_on_device",
    "on_device",
    "stop_fusion",
]

COMPILER_BEGIN: Final = "annotation.compiler_begin"
"""The operator on each input of a region for another compiler."""
COMPILER_END: Final = "annotation.compiler_end"
"""The operator on each output of a region for another compiler."""

DEVICES: Final = {
    "cpu": 1,
    "llvm": 1,
    "cuda": 2,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "ext_dev": 12,
    "hexagon": 14,
    "webgpu": 15,
}
"""The numbers of the kinds of devices, as in DLPack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDeviceAttrs(Attrs):
    """The attributes of on_device."""

    device_type: int = 0
    """The kind of the device."""
    is_fixed: bool = False
    """Whether the result must stay on the device; if false, a pass may move it to another device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCopyAttrs(Attrs):
    """The attributes of device_copy."""

    src_dev_type: int = 0
    """The kind of the device that the data is on."""
    dst_dev_type: int = 0
    """The kind of the device that the data is copied to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CastHintAttrs(Attrs):
    """The attributes of annotation.cast_hint."""

    dtype: str
    """The element type that the tensor can be cast to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerAttrs(Attrs):
    """The attributes of compiler_begin and compiler_end."""

    compiler: str
    """The name of the compiler of the region."""


def _keep(data: Array) -> Array:
    return data


def _keep_with_attrs(attrs: Attrs, data: Array) -> Array:
    return data


def _copy(attrs: DeviceCopyAttrs, data: Array) -> Array:
    return np.copy(data)


def _register(name: str, description: str, attrs_type: type[Attrs] | None = None, argument: str = "data") -> Op:
    """Register an operator that returns its argument."""
    return register_op(
        name,
        arguments=(argument,),
        attrs_type=attrs_type,
        relation=identity_relation,
        compute=_keep if attrs_type is None else _keep_with_attrs,
        description=description,
    )


_STOP_FUSION = _register("annotation.stop_fusion", "The tensor; it is not fused with the operators that use it.")
_CHECKPOINT = _register(
    "annotation.checkpoint",
    "The value; the gradient computes it again instead of storing what it was computed from.",
)
_CAST_HINT = _register(
    "annotation.cast_hint", "The tensor, with the element type that a quantizer may cast it to.", CastHintAttrs
)
_BITPACK_START = _register("annotation.bitpack_start", "The tensor; its users up to a bitpack_end are packed.")
_BITPACK_END = _register("annotation.bitpack_end", "The tensor; its users are not packed.")
_ON_DEVICE = _register("on_device", "The tensor, computed on a device.", OnDeviceAttrs, "body")
_COMPILER_BEGIN = _register(COMPILER_BEGIN, "The value; the begin of a region for another compiler.", CompilerAttrs)
_COMPILER_END = _register(COMPILER_END, "The value; the end of a region for another compiler.", CompilerAttrs)
for _mark in (_ON_DEVICE, _COMPILER_BEGIN, _COMPILER_END):
    # A pass that folds or fuses marks would leave regions without an end or a begin.
    _mark.set_attr("TNonComputational", True)
_DEVICE_COPY = register_op(
    "device_copy",
    arguments=("data",),
    attrs_type=DeviceCopyAttrs,
    relation=identity_relation,
    compute=_copy,
    description="The tensor, moved from one device to another.",
)


def stop_fusion(data: Expr) -> Call:
    """Return the tensor; FuseOps does not fuse it with the operators that use it."""
    return Call(_STOP_FUSION, (data,))


def on_device(data: Expr, device: str | int, is_fixed: bool = False) -> Call:
    """Return the tensor, marked as computed on a device.

    Parameters:
        data: the tensor.
        device: a name of `DEVICES`, or the number of a kind of device.
        is_fixed: whether the result must stay on that device.

    Raises:
        ValueError: if no device has that name.

    """
    return Call(_ON_DEVICE, (data,), OnDeviceAttrs(device_type=_device(device), is_fixed=is_fixed))


def function_on_device(function: Function, param_devices: Iterable[str | int], result_device: str | int) -> Function:
    """Return a function with attributes for the devices of parameters and result.

    As in TVM, they are `param_device_types` and `result_device_type`. If all devices are the invalid -1, the
    function itself is returned.

    Parameters:
        function: the function.
        param_devices: for each parameter, a name of `DEVICES` or the number of a kind of device.
        result_device: the device of the result.

    Raises:
        ValueError: if no device has one of the names, or the number of devices is not that of the parameters.

    >>> from apass.relay.ir.expr import var
    >>> x = var("x", "int32")
    >>> print(function_on_device(Function([x], x), ["cpu"], "cuda"))
    fn (%x: int32, param_device_types=[1], result_device_type=2) {
      %x
    }
    """
    params, result = tuple(map(_device, param_devices)), _device(result_device)
    if len(params) != len(function.params):
        raise ValueError(
            f"param_devices must have one device for each of the {len(function.params)} parameters, got {len(params)}"
        )
    if {*params, result} == {-1}:
        return function
    return function.with_attr({"param_device_types": params, "result_device_type": result})


def checkpoint(data: Expr) -> Call:
    """Return the value, marked as a checkpoint.

    The gradient then computes again what the value was computed from, to use less memory.
    """
    return Call(_CHECKPOINT, (data,))


def cast_hint(data: Expr, dtype: str) -> Call:
    """Return the tensor, marked with an element type that it can be cast to."""
    return Call(_CAST_HINT, (data,), CastHintAttrs(dtype=dtype))


def bitpack_start(data: Expr) -> Call:
    """Return the tensor, marked as the start of a region with packed tensors."""
    return Call(_BITPACK_START, (data,))


def bitpack_end(data: Expr) -> Call:
    """Return the tensor, marked as the end of a region with packed tensors."""
    return Call(_BITPACK_END, (data,))


def device_copy(data: Expr, src_dev: str | int, dst_dev: str | int) -> Call:
    """Return the tensor, copied from one device to another.

    Raises:
        ValueError: if no device has one of the names.

    """
    attrs = DeviceCopyAttrs(src_dev_type=_device(src_dev), dst_dev_type=_device(dst_dev))
    return Call(_DEVICE_COPY, (data,), attrs)


def _device(device: str | int) -> int:
    if isinstance(device, int):
        return device
    if device not in DEVICES:
        raise ValueError(f"unknown device {device!r}{did_you_mean(device, DEVICES, listing='known devices: ')}")
    return DEVICES[device]


def compiler_begin(data: Expr, compiler: str) -> Call:
    """Return the value, marked as an input of a region for a compiler.

    >>> from apass.relay.ir.expr import var
    >>> str(compiler_begin(var("x"), "dnnl").attrs)
    "CompilerAttrs(compiler='dnnl')"
    """
    return Call(_COMPILER_BEGIN, (data,), CompilerAttrs(compiler=compiler), checked_type_=data.checked_type_)


def compiler_end(data: Expr, compiler: str) -> Call:
    """Return the value, marked as an output of a region for a compiler."""
    return Call(_COMPILER_END, (data,), CompilerAttrs(compiler=compiler), checked_type_=data.checked_type_)


def compiler_of(expr: Expr, mark: str) -> str | None:
    """Return the compiler of a mark; None for any other expression.

    `mark` is the name of its operator: `COMPILER_BEGIN` or `COMPILER_END`.
    """
    return attrs_of(expr, CompilerAttrs).compiler if isinstance(expr, Call) and op_name(expr) == mark else None
