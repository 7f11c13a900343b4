"""The `FTVMConvertOpLayout` hooks that ConvertLayout calls to convert operators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from apass.errors import PassDefinitionError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.define.registry import register_convert_op_layout
from apass.relay.op.layouts.config import is_skipped
from apass.relay.op.layouts.names import index, primal
from apass.relay.op.layouts.rules_windows import ADAPTIVE_POOLS, POOLS, RESIZES

__all__ = ["DEFAULT", "FTVMConvertOpLayout", "LayoutConversion"]

DEFAULT: Final = "default"
"""Requests the layout of the weight that fits the layout of the data best."""

_COUNTED: Final = frozenset({"nn.conv2d", "nn.deformable_conv2d"})
"""The operators whose calls a LayoutConfig counts, as in TVM."""

FTVMConvertOpLayout: TypeAlias = Callable[[Attrs | None, Sequence[Expr], Sequence[Type], Sequence[str]], Call | None]
"""`hook(attrs, inputs, tinfos, desired_layouts)` returns the call in the desired layouts.

It returns None to leave the call unchanged. `inputs` may be in any layout: afterwards, the pass inserts the
transforms that the operator's `FInferCorrectLayout` requires. `tinfos` are the types of the inputs in the original
program.
"""


class LayoutConversion(Protocol):
    """A hook that can validate the desired layouts.

    It is a Protocol, because a hook may be any function.
    """

    def __call__(
        self, attrs: Attrs | None, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]
    ) -> Call | None:
        """Return the call in the desired layouts, or None to leave it unchanged."""
        ...

    def check(self, desired_layouts: Sequence[str]) -> None:
        """Raise an error for layouts that the operator cannot be converted to.

        Raises:
            PassDefinitionError: if the number or the axes of the layouts do not fit.

        """
        ...


@dataclass(frozen=True, slots=True)
class _ConvConversion:
    """The conversion of a convolution, given layouts of the data and the weight."""

    op: str
    """The name of the operator."""
    plain: str
    """The default layout of the data."""
    kernels: Mapping[str, str]
    """The default layout of the weight for each layout of the data, without blocks."""

    def check(self, desired_layouts: Sequence[str]) -> None:
        data, kernel = _pair(self.op, desired_layouts)
        _check_axes(self.op, "data", data, self.plain)
        if kernel == DEFAULT and primal(data) not in self.kernels:
            raise PassDefinitionError(
                f"{self.op} has no default layout of the weight for data in {data}; specify the layout of the weight, "
                f"or convert to one of {', '.join(self.kernels)}"
            )
        if kernel != DEFAULT:
            _check_axes(self.op, "weight", kernel, self.kernels[self.plain])

    def __call__(
        self, attrs: Attrs | None, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]
    ) -> Call | None:
        self.check(desired_layouts)
        data, kernel = _pair(self.op, desired_layouts)
        if attrs is None or (self.op in _COUNTED and is_skipped()):
            return None
        if kernel == DEFAULT:
            kernel = self.kernels[primal(data)]
            kernel = "HWOI" if kernel == "HWIO" and self._is_depthwise(attrs, tinfos) else kernel
        return Call(Op.get(self.op), inputs, attrs.replaced(data_layout=data, kernel_layout=kernel))

    def _is_depthwise(self, attrs: Attrs, tinfos: Sequence[Type]) -> bool:
        """Return whether there is one group for each channel and each filter."""
        if self.op != "nn.conv2d":
            return False
        channels = _length(tinfos[0], attrs.get_str("data_layout"), "C")
        return channels == _length(tinfos[-1], attrs.get_str("kernel_layout"), "O") == attrs.get_int("groups")


def _length(ty: Type, layout: str, letter: str) -> int | None:
    """Return the length of an axis including its block, or None if it is not known."""
    if not isinstance(ty, TensorType):
        return None
    length = ty.shape[index(layout, letter)]
    return length * parse_layout(layout).factor(letter) if isinstance(length, int) else None


@dataclass(frozen=True, slots=True)
class _DataConversion:
    """The conversion of an operator of one tensor that has its layout as an attribute."""

    op: str
    """The name of the operator."""
    plain: str
    """The default layout."""

    def check(self, desired_layouts: Sequence[str]) -> None:
        if len(desired_layouts) != 1:
            raise PassDefinitionError(
                f"{self.op} needs exactly one layout, that of the data, got {list(desired_layouts)!r}"
            )
        _check_axes(self.op, "data", desired_layouts[0], self.plain)

    def __call__(
        self, attrs: Attrs | None, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]
    ) -> Call | None:
        self.check(desired_layouts)
        (target,) = desired_layouts
        if attrs is None:
            return None
        # Without out_layout, the result would follow the data if another operator changed the layout of the data.
        pinned = {"out_layout": target} if "out_layout" in attrs.keys() else {}  # noqa: SIM118  no view of a mapping
        return Call(Op.get(self.op), inputs, attrs.replaced(layout=target, **pinned))


def _pair(op: str, desired_layouts: Sequence[str]) -> tuple[str, str]:
    if not 1 <= len(desired_layouts) <= 2:
        raise PassDefinitionError(
            f"the layouts of {op} must be [data, weight], where the weight can be {DEFAULT!r}, "
            f"got {list(desired_layouts)!r}"
        )
    data, kernel = (*desired_layouts, DEFAULT)[:2]
    return data, kernel


def _check_axes(op: str, operand: str, layout: str, like: str) -> None:
    if layout == DEFAULT:
        raise PassDefinitionError(f"the layout of the {operand} of {op} cannot be {DEFAULT!r}; specify a layout")
    try:
        axes = parse_layout(layout).primal
    except ValueError as error:
        raise PassDefinitionError(f"the layout of the {operand} of {op}: {error}") from None
    if sorted(axes) != sorted(like):
        raise PassDefinitionError(f"the layout of the {operand} of {op} must have the axes of {like}, got {layout!r}")


_KERNELS: Final[Mapping[int, Mapping[str, str]]] = {
    1: {"NCW": "OIW", "NWC": "WIO"},
    2: {"NCHW": "OIHW", "NHWC": "HWIO"},
    3: {"NCDHW": "OIDHW", "NDHWC": "DHWIO"},
}
_TRANSPOSE_KERNELS: Final = {**_KERNELS, 2: {"NCHW": "IOHW", "NHWC": "HWIO"}}
"""Those of the transposed convolutions, in which the plain layout of two dimensions is IOHW."""
_DATA: Final = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _spatial_rank(op: str) -> int:
    return next((rank for rank in (1, 3) if f"{rank}d" in op), 2)


def _convs() -> list[_ConvConversion]:
    kernels = {**_KERNELS, 2: {**_KERNELS[2], "HWNC": "HWOI"}}
    return [
        *(_ConvConversion(f"nn.conv{rank}d", _DATA[rank], kernels[rank]) for rank in (1, 2, 3)),
        *(_ConvConversion(f"nn.conv{rank}d_transpose", _DATA[rank], _TRANSPOSE_KERNELS[rank]) for rank in (1, 2, 3)),
        _ConvConversion("nn.deformable_conv2d", "NCHW", _KERNELS[2]),
    ]


for _conversion in _convs():
    register_convert_op_layout(_conversion.op, _conversion)
for _name in (*POOLS, *ADAPTIVE_POOLS, *RESIZES):
    register_convert_op_layout(_name, _DataConversion(_name, _DATA[_spatial_rank(_name)]))
