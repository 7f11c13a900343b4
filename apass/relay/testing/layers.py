"""Layers that create their own weights.

The weights are variables named after the layer. InferType finds their types.
"""

from collections.abc import Iterable

from apass.relay.ir.expr import Call, Expr, TupleGetItem, Var
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
    """Return the normalized data of `nn.batch_norm`.

    Vectors that are None become variables named `<name>_gamma` and so on.
    """
    arguments = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    vectors = [_or_variable(vector, f"{name}_{suffix}") for suffix, vector in arguments.items()]
    gamma, beta, moving_mean, moving_var = vectors
    return nn.batch_norm(data, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale)[0]


def _or_variable(expr: Expr | None, name: str) -> Expr:
    return Var(name) if expr is None else expr


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
    """Return `nn.conv2d`; the default weight is the variable `<name>_weight`."""
    layouts = (data_layout, kernel_layout, out_layout)
    size = (groups, channels, kernel_size)
    return nn.conv2d(
        data, _or_variable(weight, f"{name}_weight"), strides, padding, dilation, *size, *layouts, out_dtype
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
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    output_padding: int | Iterable[int] = (0, 0),
    out_dtype: str = "",
) -> Call:
    """Return `nn.conv2d_transpose`; the default weight is `<name>_weight`."""
    layouts = (data_layout, kernel_layout, out_layout)
    size = (groups, channels, kernel_size)
    kernel = _or_variable(weight, f"{name}_weight")
    return nn.conv2d_transpose(data, kernel, strides, padding, dilation, *size, *layouts, output_padding, out_dtype)


def dense_add_bias(
    data: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    units: int | None = None,
    *,
    name: str,
    out_dtype: str = "",
) -> Call:
    """Return `nn.dense` with a bias; defaults are `<name>_weight` and `<name>_bias`."""
    product = nn.dense(data, _or_variable(weight, f"{name}_weight"), units, out_dtype)
    return nn.bias_add(product, _or_variable(bias, f"{name}_bias"), axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the kernel layout that matches a data layout, NCHW or NHWC.

    Raises:
        ValueError: if the data layout is another one.

    """
    layouts = {"NCHW": "OIHW", "NHWC": "HWOI" if is_depthwise else "HWIO"}
    if data_layout not in layouts:
        raise ValueError(f"data_layout must be one of {', '.join(layouts)}, got {data_layout!r}")
    return layouts[data_layout]
