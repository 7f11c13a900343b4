"""ConvertLayout on whole networks: two changes of layout, and the same results."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import apass
from apass.relay.expr import Call, Constant, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.shape.axes import LayoutTransformAttrs
from apass.relay.structural.equality import structural_equal
from apass.relay.testing import densenet, mobilenet, resnet, squeezenet
from apass.relay.ty import TensorType

NETWORKS: Mapping[str, Callable[[], tuple[IRModule, object]]] = {
    "resnet": lambda: resnet.get_workload(num_layers=18, image_shape=(3, 32, 32), num_classes=10),
    "mobilenet": lambda: mobilenet.get_workload(image_shape=(3, 32, 32), num_classes=10),
    "squeezenet": lambda: squeezenet.get_workload(image_shape=(3, 64, 64), num_classes=10),
    "densenet": lambda: densenet.get_workload(batch_size=1, classes=10),
}


def convert(mod: IRModule, *layouts: str) -> IRModule:
    """Return the module with its convolutions in other layouts."""
    pass_: apass.Pass[IRModule] = apass.get_pass("ConvertLayout", desired_layouts={"nn.conv2d": list(layouts)})
    return apass.run(pass_, mod)


def arguments_for(func: Function) -> list[npt.NDArray[Any]]:
    """Return random arguments: weights that keep magnitudes, positive variances."""
    rng = np.random.default_rng(0)
    arguments: list[npt.NDArray[Any]] = []
    for param in func.params:
        assert isinstance(param.checked_type, TensorType)
        shape = param.checked_type.concrete_shape
        values = rng.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))
        is_factor = param.name_hint.endswith(("var", "gamma"))
        arguments.append((rng.uniform(0.5, 1.5, shape) if is_factor else values).astype("float32"))
    return arguments


def moves_of_data(func: Function) -> list[tuple[str, str]]:
    """Return the changes of layout, except those of weights."""
    calls = [node for node in post_order(func) if isinstance(node, Call)]
    moves = [(call.args[0], call.attrs) for call in calls if isinstance(call.attrs, LayoutTransformAttrs)]
    is_weight = {arg: isinstance(arg, Constant | Var) and attrs.src_layout == "OIHW" for arg, attrs in moves}
    return [(attrs.src_layout, attrs.dst_layout) for arg, attrs in moves if not is_weight[arg]]


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_network_changes_layout_at_both_ends_only(name: str) -> None:
    before, _ = NETWORKS[name]()
    there = convert(before, "NHWC", "default")
    assert moves_of_data(there["main"]) == [("NCHW", "NHWC"), ("NHWC", "NCHW")]
    assert structural_equal(convert(there, "NCHW", "default"), before)
    arguments = arguments_for(before["main"])
    expected = evaluate(before, *arguments)
    assert isinstance(expected, np.ndarray)
    assert np.isfinite(expected).all()
    assert expected.max() > expected.min()
    assert difference(expected, evaluate(there, *arguments)) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kernel"), [("resnet", "OIHW4i4o"), ("mobilenet", "OIHW4o")])
def test_simplified_network_stays_in_blocks(name: str, kernel: str) -> None:
    mod, _ = NETWORKS[name]()
    before = apass.run(apass.parse_pipeline("InferType,SimplifyInference"), mod)
    packed = convert(before, "NCHW4c", kernel)
    assert moves_of_data(packed["main"]).count(("NCHW4c", "NCHW")) == 1
    arguments = arguments_for(before["main"])
    assert difference(evaluate(before, *arguments), evaluate(packed, *arguments)) == ""
