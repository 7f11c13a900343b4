"""How ConvertLayout makes a call of an operator in the layouts that are wanted: `FTVMConvertOpLayout` of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from apass.errors import PassDefinitionError
from apass.relay.expr import Call, Expr, Op
from apass.relay.ir.attrs import Attrs
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.define.registry import register_convert_op_layout
from apass.relay.op.layouts.config import is_skipped
from apass.relay.op.layouts.names import index, primal
from apass.relay.op.layouts.rules_windows import ADAPTIVE_POOLS, POOLS, RESIZES
from apass.relay.ty import TensorType, Type

__all__ = ["DEFAULT", "FTVMConvertOpLayout", "LayoutConversion"]

DEFAULT: Final = "default"
"""The layout of weights that goes best with that of the data."""

_COUNTED: Final = frozenset({"nn.conv2d", "nn.deformable_conv2d"})
"""The operators that a LayoutConfig counts, as in TVM."""

FTVMConvertOpLayout: TypeAlias = Callable[[Attrs | None, Sequence[Expr], Sequence[Type], Sequence[str]], Call | None]
"""`hook(attrs, inputs, tinfos, desired_layouts)`: the call in the layouts that are wanted; None to leave it as it is.

`inputs` may be in any layout: what the call needs is put around them afterwards, by the operator's
`FInferCorrectLayout`. `tinfos` are their types in the program.
"""


class LayoutConversion(Protocol):
    """A hook that can check the wanted layouts beforehand. A Protocol, as a hook is any function."""

    def __call__(
        self, attrs: Attrs | None, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]
    ) -> Call | None:
        """Return the call in the layouts that are wanted."""
        ...

    def check(self, desired_layouts: Sequence[str]) -> None:
        """Raise PassDefinitionError if the layouts are none that the operator can be converted to."""
        ...


@dataclass(frozen=True, slots=True)
class _ConvConversion:
    """The conversion of a convolution: to a layout of the data and one of the weight."""

    op: str
    """The name of the operator."""
    plain: str
    """The layout of the data that it has by default."""
    kernels: Mapping[str, str]
    """The default layout of the weight for each order of the axes of the data."""

    def check(self, desired_layouts: Sequence[str]) -> None:
        data, kernel = _pair(self.op, desired_layouts)
        _check_axes(self.op, "data", data, self.plain)
        if kernel == DEFAULT and primal(data) not in self.kernels:
            raise PassDefinitionError(
                f"{self.op} has no default layout of the weight for data in {data}; write which one, "
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
        """Tell whether there are as many groups as channels of the data, and as filters."""
        if self.op != "nn.conv2d":
            return False
        channels = _length(tinfos[0], attrs.get_str("data_layout"), "C")
        return channels == _length(tinfos[-1], attrs.get_str("kernel_layout"), "O") == attrs.get_int("groups")


def _length(ty: Type, layout: str, letter: str) -> int | None:
    """Return how long an axis is, if that is known."""
    if not isinstance(ty, TensorType):
        return None
    length = ty.shape[index(layout, letter)]
    return length * parse_layout(layout).factor(letter) if isinstance(length, int) else None


@dataclass(frozen=True, slots=True)
class _DataConversion:
    """The conversion of an operator on one tensor that has its layout as an attribute."""

    op: str
    """The name of the operator."""
    plain: str
    """The layout that it has by default."""

    def check(self, desired_layouts: Sequence[str]) -> None:
        if len(desired_layouts) != 1:
            raise PassDefinitionError(
                f"{self.op} is converted to one layout, that of the data, not to {list(desired_layouts)!r}"
            )
        _check_axes(self.op, "data", desired_layouts[0], self.plain)

    def __call__(
        self, attrs: Attrs | None, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]
    ) -> Call | None:
        self.check(desired_layouts)
        (wanted,) = desired_layouts
        if attrs is None:
            return None
        # Without a layout of the result it would follow its data when another operator is converted.
        pinned = {"out_layout": wanted} if "out_layout" in attrs.keys() else {}  # noqa: SIM118  no view of a mapping
        return Call(Op.get(self.op), inputs, attrs.replaced(layout=wanted, **pinned))


def _pair(op: str, desired_layouts: Sequence[str]) -> tuple[str, str]:
    if not 1 <= len(desired_layouts) <= 2:
        raise PassDefinitionError(
            f"the layouts of {op} must be [data, weight], the weight's perhaps {DEFAULT!r}, "
            f"not {list(desired_layouts)!r}"
        )
    data, kernel = (*desired_layouts, DEFAULT)[:2]
    return data, kernel


def _check_axes(op: str, what: str, layout: str, like: str) -> None:
    if layout == DEFAULT:
        raise PassDefinitionError(f"the layout of the {what} of {op} cannot be {DEFAULT!r}; write which one")
    try:
        axes = parse_layout(layout).primal
    except ValueError as error:
        raise PassDefinitionError(f"the layout of the {what} of {op}: {error}") from None
    if sorted(axes) != sorted(like):
        raise PassDefinitionError(f"the layout of the {what} of {op} must have the axes of {like}, not be {layout!r}")


_KERNELS: Final[Mapping[int, Mapping[str, str]]] = {
    1: {"NCW": "OIW", "NWC": "WIO"},
    2: {"NCHW": "OIHW", "NHWC": "HWIO"},
    3: {"NCDHW": "OIDHW", "NDHWC": "DHWIO"},
}
_DATA: Final = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _spatial_rank(op: str) -> int:
    return next((rank for rank in (1, 3) if f"{rank}d" in op), 2)


def _convs() -> list[_ConvConversion]:
    names = [f"nn.conv{rank}d{suffix}" for rank in (1, 2, 3) for suffix in ("", "_transpose")]
    made = [_ConvConversion(name, _DATA[_spatial_rank(name)], _KERNELS[_spatial_rank(name)]) for name in names]
    conv2d = _ConvConversion("nn.conv2d", "NCHW", {**_KERNELS[2], "HWNC": "HWOI"})
    others = [one for one in made if one.op != "nn.conv2d"]
    return [conv2d, *others, _ConvConversion("nn.deformable_conv2d", "NCHW", _KERNELS[2])]


for _conversion in _convs():
    register_convert_op_layout(_conversion.op, _conversion)
for _name in (*POOLS, *ADAPTIVE_POOLS, *RESIZES):
    register_convert_op_layout(_name, _DataConversion(_name, _DATA[_spatial_rank(_name)]))
