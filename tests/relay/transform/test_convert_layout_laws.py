"""ConvertLayout and AlterOpLayout on random chains: meaning and types stay."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apass.relay.expr import Call, Expr, If, Let, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.calls import call_op
from apass.relay.ir.module import IRModule
from apass.relay.op import get
from apass.relay.op.define.layout import convert_shape, parse_layout
from apass.relay.op.nn.conv.conv import ConvAttrs
from apass.relay.testing.temp_op_attr import TempOpAttr
from apass.relay.transform.alter_op_layout import alter_op_layout
from apass.relay.transform.convert_layout.convert_layout import convert_layout
from apass.relay.ty import TensorType, Type
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount
from tests.helpers.relay.meaning import ops_of

DTYPE: Final = "float64"
Tensor = tuple[Expr, tuple[int, ...]]
"""A tensor with its shape."""

DESIRED: Final = (
    {"nn.conv2d": ["NHWC", "default"]},
    {"nn.conv2d": ["NCHW", "OIHW"]},
    {"nn.conv2d": ["NHWC", "OHWI"], "nn.max_pool2d": ["NCHW"]},
    {"nn.conv2d": ["NCHW2c", "OIHW2i2o"], "nn.conv2d_transpose": ["NHWC", "default"]},
    {"nn.conv2d": ["NHWC2c", "HWIO"], "image.resize2d": ["NHWC"]},
    {"nn.conv2d": ["HWNC", "default"], "nn.upsampling": ["NCHW2c"]},
    {"nn.max_pool2d": ["NCHW2c"], "nn.global_avg_pool2d": ["NHWC"]},
)
"""Values of `desired_layouts`."""
LAYOUTS: Final = ("NCHW", "NCHW", "NHWC", "HWNC", "NCHW2c")
"""Layouts of convolutions and pooling operators in the programs."""


class _Chain:
    """Builds a chain: each step adds a tensor computed from existing ones."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.params: list[Var] = []
        self.tensors: list[Tensor] = [self.param((2, 4, 4, 6))]

    def param(self, shape: Sequence[int]) -> Tensor:
        self.params.append(Var(f"p{len(self.params)}", TensorType(shape, DTYPE)))
        return self.params[-1], tuple(shape)

    def pick(self, rank: int | None = None) -> Tensor:
        """Return one of the last tensors, of a given rank if there is one."""
        candidates = [tensor for tensor in self.tensors if rank is None or len(tensor[1]) == rank]
        if not candidates:
            return self.param((2, 4, 4, 6)[:rank])
        return candidates[-1 - self.draw(st.integers(0, min(len(candidates), 3) - 1))]

    def add(self, expr: Expr, field: int | None = None) -> None:
        """Add a tensor, or a field of a tuple."""
        ty = infer_module(IRModule.from_expr(Function(self.params, expr)))["main"].body.checked_type
        tensor = expr if field is None else TupleGetItem(expr, field)
        shape = getattr(ty, "fields", [ty])[field or 0].concrete_shape
        if 0 not in shape and len(shape) < 6:
            self.tensors.append((tensor, shape))

    def axes(self, rank: int) -> list[int]:
        return sorted(self.draw(st.sets(st.integers(0, rank - 1), min_size=1, max_size=rank)))

    def conv(self) -> None:
        layout, name = self.draw(st.sampled_from(LAYOUTS)), self.draw(st.sampled_from(["", "", "_transpose"]))
        data, shape = self.pick(len(parse_layout(layout).axes))
        if shape[-1] != 2 and layout == "NCHW2c":
            return
        channels = convert_shape(shape, parse_layout(layout), parse_layout("NCHW"))[1]
        groups = 1 if name or not self.draw(st.booleans()) else channels
        filters = groups if groups != 1 else self.draw(st.sampled_from([2, 4]))
        assert isinstance(filters, int)
        assert isinstance(channels, int)
        weight, _ = self.param((filters, 1 if groups != 1 else channels, 1, 1))
        self.add(call_op(f"nn.conv2d{name}", data, weight, data_layout=layout, groups=groups))

    def pool(self) -> None:
        layout = self.draw(st.sampled_from(LAYOUTS))
        data, shape = self.pick(len(parse_layout(layout).axes))
        if shape[-1] != 2 and layout == "NCHW2c":
            return
        kinds = ["nn.max_pool2d", "nn.global_avg_pool2d", "nn.upsampling", "image.resize2d"]
        kind = self.draw(st.sampled_from(kinds))
        attrs: dict[str, dict[str, object]] = {
            "nn.max_pool2d": {"pool_size": (1, 2), "padding": (0, 1, 0, 0)},
            "nn.upsampling": {"scale_h": 2.0, "scale_w": 1.0},
            "image.resize2d": {"size": (3, 2)},
        }
        self.add(call_op(kind, data, layout=layout, **attrs.get(kind, {})))

    def unary(self) -> None:
        data, _ = self.pick()
        self.add(call_op(self.draw(st.sampled_from(["nn.relu", "tanh", "negative", "sigmoid"])), data))

    def broadcast(self) -> None:
        data, shape = self.pick()
        other = self.draw(st.sampled_from([tensor for tensor, size in self.tensors if size == shape]))
        if self.draw(st.booleans()):
            suffix = shape[self.draw(st.integers(0, len(shape))) :]
            other, _ = self.param([size if self.draw(st.booleans()) else 1 for size in suffix])
        operands = [data, other] if self.draw(st.booleans()) else [other, data]
        self.add(call_op(self.draw(st.sampled_from(["add", "multiply", "subtract", "maximum"])), *operands))

    def along_axis(self) -> None:
        data, shape = self.pick()
        if not shape:
            return
        axis = self.draw(st.integers(-len(shape), len(shape) - 1))
        kind = self.draw(st.sampled_from(["softmax", "bias_add", "prelu", "lrn", "batch_norm", "layer_norm", "l2"]))
        count = {"bias_add": 1, "prelu": 1, "batch_norm": 4, "layer_norm": 2}.get(kind, 0)
        vectors = [self.param((shape[axis],))[0] for _ in range(count)]
        if kind == "l2":
            self.add(call_op("nn.l2_normalize", data, eps=1e-3, axis=(axis,)))
            return
        vectors = vectors[:3] + [call_op("sigmoid", vector) for vector in vectors[3:]]
        attrs = {"axis": axis % len(shape) if kind in {"lrn", "prelu"} else axis}
        self.add(call_op(f"nn.{kind}", data, *vectors, **attrs), 0 if kind == "batch_norm" else None)

    def reduce(self) -> None:
        data, shape = self.pick()
        if not shape:
            return
        kind = self.draw(st.sampled_from(["sum", "mean", "max", "min"]))
        axes = self.draw(st.none() | st.just(tuple(self.axes(len(shape)))))
        exclude = axes is not None and self.draw(st.booleans())
        self.add(call_op(kind, data, axis=axes, keepdims=self.draw(st.booleans()), exclude=exclude))

    def move(self) -> None:
        data, shape = self.pick()
        if not shape:
            return
        axis = self.draw(st.integers(0, len(shape) - 1))
        pairs = [(self.draw(st.integers(0, 1)), self.draw(st.integers(0, 1))) for _ in shape]
        begin = tuple(self.draw(st.integers(0, size - 1)) for size in shape)
        end = tuple(self.draw(st.integers(first + 1, size + 2)) for first, size in zip(begin, shape, strict=True))
        count = self.draw(st.integers(1, len(shape)))
        order = self.draw(st.permutations(range(len(shape))))
        choices: list[Callable[[], Expr]] = [
            lambda: call_op("transpose", data, axes=tuple(order)),
            lambda: call_op("nn.pad", data, self.param(())[0], pad_width=tuple(pairs)),
            lambda: call_op("strided_slice", data, begin=begin[:count], end=end[:count]),
            lambda: call_op("strided_slice", data, begin=(begin[axis],), end=(end[axis],), axes=(axis,)),
            lambda: call_op("slice_like", data, self.param([first + 1 for first in begin])[0]),
            lambda: call_op("squeeze", call_op("sum", data, axis=(axis,), keepdims=True), axis=(axis,)),
            lambda: call_op("concatenate", Tuple([data, data]), axis=axis),
            lambda: call_op("concatenate", Tuple([data, self.param(shape)[0]]), axis=axis),
        ]
        self.add(self.draw(st.sampled_from(choices))())

    def split(self) -> None:
        data, shape = self.pick()
        axes = [axis for axis, size in enumerate(shape) if size % 2 == 0]
        if not axes:
            return
        axis = self.draw(st.sampled_from(axes))
        cuts = self.draw(st.sampled_from([2, (shape[axis] // 2,), (1,)]))
        parts = call_op("split", data, indices_or_sections=cuts, axis=axis)
        self.add(parts, self.draw(st.integers(0, 1)))
        self.add(call_op("concatenate", parts, axis=axis))

    def transform(self) -> None:
        data, shape = self.pick(4)
        target = self.draw(st.sampled_from(["NHWC", "HWNC", *(["NCHW2c"] if shape[1] % 2 == 0 else [])]))
        self.add(call_op("layout_transform", data, src_layout="NCHW", dst_layout=target))

    def scope(self) -> None:
        """Add a Let, or an If."""
        data, shape = self.pick()
        var = Var("v", TensorType(shape, DTYPE))
        is_more = call_op("less", call_op("sum", self.params[0]), self.param(())[0])
        choice = If(is_more, data, call_op("nn.relu", data))
        self.add(choice if self.draw(st.booleans()) else Let(var, data, call_op("add", var, var)))


@st.composite
def chains(draw: st.DrawFn, *, transforms: bool = True) -> IRModule:
    """Return a strategy for typed programs, with or without changes of layout in them."""
    chain = _Chain(draw)
    steps = [chain.conv, chain.conv, chain.conv, chain.pool, chain.unary, chain.broadcast, chain.broadcast]
    steps += [chain.along_axis, chain.reduce, chain.move, chain.move, chain.split, chain.scope]
    steps += [chain.transform] if transforms else []
    for step in draw(st.lists(st.sampled_from(steps), min_size=2, max_size=9)):
        step()
    outputs = [expr for expr, _ in chain.tensors[-3:]]
    return infer_module(IRModule.from_expr(Function(chain.params, Tuple(outputs))))


@pytest.mark.slow
@settings(max_examples=amount(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chains(), st.lists(st.sampled_from(DESIRED), min_size=1, max_size=3))
def test_convert_layout_keeps_meaning_and_types(mod: IRModule, desired: list[dict[str, list[str]]]) -> None:
    after = mod
    for layouts in desired:
        after = infer_module(IRModule.from_expr(convert_layout(after["main"], layouts)))
    assert after["main"].checked_type == mod["main"].checked_type
    arguments = random_arguments(mod["main"])
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(after, *arguments)) == ""


@settings(max_examples=amount(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chains(), st.sampled_from(DESIRED))
def test_second_conversion_adds_no_layout_change(mod: IRModule, layouts: dict[str, list[str]]) -> None:
    once = infer_module(IRModule.from_expr(convert_layout(mod["main"], layouts)))
    twice = infer_module(IRModule.from_expr(convert_layout(once["main"], layouts)))
    assert ops_of(twice["main"]).count("layout_transform") <= ops_of(once["main"]).count("layout_transform")


@settings(max_examples=amount(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chains(transforms=False))
def test_program_without_listed_operators_is_same_object(mod: IRModule) -> None:
    assert convert_layout(mod["main"], {"nn.conv3d": ["NDHWC", "default"]}) is mod["main"]


def packed(attrs: ConvAttrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call | None:
    """Return a convolution of data in NCHW as one of blocks of two channels."""
    layouts = {"data_layout": "NCHW2c", "kernel_layout": "OIHW2o"}
    is_plain = attrs.data_layout == "NCHW"
    return Call(get("nn.contrib_conv2d_NCHWc"), inputs, attrs.replaced(**layouts)) if is_plain else None


def last(attrs: ConvAttrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call:
    """Return a convolution with the channels as the last axis."""
    return Call(get("nn.conv2d"), inputs, attrs.replaced(data_layout="NHWC", kernel_layout="HWIO"))


@pytest.mark.parametrize("hook", [packed, last])
@settings(max_examples=amount(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mod=chains())
def test_alter_op_layout_keeps_meaning_and_types(hook: Callable[..., Call | None], mod: IRModule) -> None:
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", hook):
        after = infer_module(IRModule.from_expr(alter_op_layout(mod["main"])))
    assert after["main"].checked_type == mod["main"].checked_type
    arguments = random_arguments(mod["main"])
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(after, *arguments)) == ""
