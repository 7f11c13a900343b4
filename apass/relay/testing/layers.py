"""Layers that make their own weights: variables named after the layer, whose types InferType finds."""

from collections.abc import Iterable

from apass.relay.expr import Call, Expr, TupleGetItem, Var
from apass.relay.op import nn

__all__ = ["batch_norm_infer", "conv2d", "conv2d_transpose", "conv_kernel_layout", "dense_add_bias"]


def batch_norm_infer(
    data: Expr,
    gamma: Expr | None = None,
    beta: Expr | None = None,
    moving_mean: Expr | None = None,
    moving_var: Expr | None = None,
    *,
    name: str,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleGetItem:
    """Return the normalized data of `nn.batch_norm`; vectors that are not given are named `<name>_gamma` and so on."""
    given = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    vectors = [_given_or_var(one, f"{name}_{what}") for what, one in given.items()]
    gamma, beta, moving_mean, moving_var = vectors
    return nn.batch_norm(data, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale)[0]


def _given_or_var(given: Expr | None, name: str) -> Expr:
    return Var(name) if given is None else given


def conv2d(
    data: Expr,
    weight: Expr | None = None,
    *,
    name: str,
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    dilation: int | Iterable[int] = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return `nn.conv2d`; a weight that is not given is named `<name>_weight`."""
    layouts = (data_layout, kernel_layout, out_layout)
    size = (groups, channels, kernel_size)
    return nn.conv2d(
        data, _given_or_var(weight, f"{name}_weight"), strides, padding, dilation, *size, *layouts, out_dtype
    )


def conv2d_transpose(
    data: Expr,
    weight: Expr | None = None,
    *,
    name: str,
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    dilation: int | Iterable[int] = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    output_padding: int | Iterable[int] = (0, 0),
    out_dtype: str = "",
) -> Call:
    """Return `nn.conv2d_transpose`; a weight that is not given is named `<name>_weight`."""
    layouts = (data_layout, kernel_layout, out_layout)
    size = (groups, channels, kernel_size)
    given = _given_or_var(weight, f"{name}_weight")
    return nn.conv2d_transpose(data, given, strides, padding, dilation, *size, *layouts, output_padding, out_dtype)


def dense_add_bias(
    data: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    units: int | None = None,
    *,
    name: str,
    out_dtype: str = "",
) -> Call:
    """Return `nn.dense` with a bias; what is not given is named `<name>_weight` and `<name>_bias`."""
    product = nn.dense(data, _given_or_var(weight, f"{name}_weight"), units, out_dtype)
    return nn.bias_add(product, _given_or_var(bias, f"{name}_bias"), axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the layout of weights that goes with a layout of data, NCHW or NHWC.

    Raises:
        ValueError: if the layout of data is another one.

    """
    layouts = {"NCHW": "OIHW", "NHWC": "HWOI" if is_depthwise else "HWIO"}
    if data_layout not in layouts:
        raise ValueError(f"the layout of the data must be one of {', '.join(layouts)}, not {data_layout!r}")
    return layouts[data_layout]
