"""Annotations that compute nothing: `relay.annotation`."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apass.errors import did_you_mean
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.registry import register_op
from apass.relay.op.define.relations import identity_relation

__all__ = ["DEVICES", "DeviceCopyAttrs", "OnDeviceAttrs", "device_copy", "on_device", "stop_fusion"]

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


def _keep(data: Array) -> Array:
    return data


def _keep_on_device(attrs: OnDeviceAttrs, data: Array) -> Array:
    return data


def _copy(attrs: DeviceCopyAttrs, data: Array) -> Array:
    return np.copy(data)


_STOP_FUSION = register_op(
    "annotation.stop_fusion",
    arguments=("data",),
    relation=identity_relation,
    compute=_keep,
    description="The tensor; it is not fused with the operators that use it.",
)
_ON_DEVICE = register_op(
    "on_device",
    arguments=("body",),
    attrs_type=OnDeviceAttrs,
    relation=identity_relation,
    compute=_keep_on_device,
    description="The tensor, computed on a device.",
)
_ON_DEVICE.set_attr("TNonComputational", True)
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


def device_copy(data: Expr, src_device: str | int, dst_device: str | int) -> Call:
    """Return the tensor, copied from one device to another.

    Raises:
        ValueError: if no device has one of the names.

    """
    attrs = DeviceCopyAttrs(src_dev_type=_device(src_device), dst_dev_type=_device(dst_device))
    return Call(_DEVICE_COPY, (data,), attrs)


def _device(device: str | int) -> int:
    if isinstance(device, int):
        return device
    if device not in DEVICES:
        raise ValueError(f"unknown device {device!r}{did_you_mean(device, DEVICES, listing='known devices: ')}")
    return DEVICES[device]
