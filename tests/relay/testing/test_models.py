"""The models match their publications: numbers of parameters, and equations."""

import re
from collections.abc import Callable, Mapping
from math import prod
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest

from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.testing import (
    count_ops,
    dcgan,
    densenet,
    dqn,
    inception_v3,
    lenet,
    lstm,
    mlp,
    mobilenet,
    resnet,
    squeezenet,
    synthetic,
    vgg,
)
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import infer_module

Workload = tuple[IRModule, dict[str, NDArray]]
Floats = npt.NDArray[np.float64]


def main_of(mod: IRModule) -> Function:
    """Return the network of a module."""
    main = mod["main"]
    assert isinstance(main, Function)
    return main


def shapes(mod: IRModule) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters by name."""
    result: dict[str, tuple[int, ...]] = {}
    for param in main_of(mod).params:
        assert isinstance(param.checked_type, TensorType)
        result[param.name_hint] = param.checked_type.concrete_shape
    return result


def image(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return a random input."""
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def random_parameters(params: Mapping[str, NDArray]) -> dict[str, npt.NDArray[np.float32]]:
    """Return random parameters, scaled so that outputs of deep networks stay distinct."""
    rng, result = np.random.default_rng(0), dict[str, npt.NDArray[np.float32]]()
    for name, param in params.items():
        values = rng.standard_normal(param.shape)
        if param.ndim > 1:
            values *= np.sqrt(2 / prod(param.shape[1:]))
        elif name.endswith(("gamma", "var")):
            values = rng.uniform(0.5, 1.5, param.shape)
        result[name] = values.astype("float32")
    return result


def run(mod: IRModule, params: Mapping[str, npt.ArrayLike]) -> Floats:
    """Return the result of a module for random inputs, and check its inferred shape."""
    inputs = [params.get(name, image(shape)) for name, shape in shapes(mod).items()]
    out = np.asarray(evaluate(mod, *inputs), "float64")
    assert main_of(mod).ret_type == TensorType(out.shape)
    return out


@pytest.mark.parametrize(
    ("net", "count"),
    [
        (vgg.get_net(1, (3, 224, 224), 1000, "float32", 11), 132_863_336),
        (vgg.get_net(1, (3, 224, 224), 1000, "float32", 16), 138_357_544),
        (vgg.get_net(1, (3, 224, 224), 1000, "float32", 19), 143_667_240),
        (squeezenet.get_net(1, (3, 224, 224), 1000, "1.0", "float32"), 1_248_424),
        (squeezenet.get_net(1, (3, 224, 224), 1000, "1.1", "float32"), 1_235_496),
        (mobilenet.mobile_net(), 4_253_864),
        # Keras counts 23,851,784, because its normalization has no gamma: 17,216 more.
        (inception_v3.get_net(1, 1000, (3, 299, 299), "float32"), 23_851_784 + 17_216),
        (mlp.get_net(1), 109_386),
        (lenet.get_net(1), 431_080),
    ],
)
def test_inferred_types_have_published_number_of_parameters(net: Function, count: int) -> None:
    inferred = shapes(infer_module(IRModule.from_expr(net)))
    assert sum(prod(shape) for name, shape in inferred.items() if name != "data") == count


@pytest.mark.parametrize("layers", [18, 34, 50, 101, 152, 200, 269])
def test_resnet_has_the_requested_number_of_layers(layers: int) -> None:
    """There is one dense layer; the other layers are convolutions.

    Each of the four stages has one more convolution, as the shortcut of its first unit.
    """
    counts = count_ops(resnet.get_net(1, 10, layers))
    assert counts["nn.conv2d"] == layers - 1 + 4
    assert counts["nn.dense"] == 1


CLASSIFIERS: list[tuple[str, Callable[[], Workload], int]] = [
    ("mlp", lambda: mlp.get_workload(2), 10),
    ("lenet", lambda: lenet.get_workload(2), 10),
    ("resnet for small images", lambda: resnet.get_workload(2, 7, 20, (3, 28, 28)), 7),
    ("resnet for small images with bottlenecks", lambda: resnet.get_workload(1, 7, 164, (3, 8, 8)), 7),
    ("resnet for medium images", lambda: resnet.get_workload(1, 7, 18, (3, 32, 32)), 7),
    ("resnet with bottlenecks", lambda: resnet.get_workload(1, 7, 50, (3, 64, 64)), 7),
    ("mobilenet", lambda: mobilenet.get_workload(1, 7, (3, 32, 32)), 7),
    ("squeezenet 1.0", lambda: squeezenet.get_workload(1, 7, "1.0", (3, 64, 64)), 7),
    ("squeezenet 1.1", lambda: squeezenet.get_workload(1, 7, "1.1", (3, 64, 64)), 7),
    ("inception", lambda: inception_v3.get_workload(1, 7), 7),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "classes"), [case[1:] for case in CLASSIFIERS], ids=[case[0] for case in CLASSIFIERS])
def test_classifier_returns_a_probability_per_class(make: Callable[[], Workload], classes: int) -> None:
    mod, params = make()
    out = run(mod, random_parameters(params))
    assert out.shape[1:] == (classes,)
    assert (out >= 0).all()
    np.testing.assert_allclose(out.sum(axis=1), 1, rtol=1e-5)
    assert out.std() > 1e-3


def test_vgg_batch_norm_follows_each_convolution() -> None:
    counts = count_ops(vgg.get_net(1, (3, 32, 32), 10, "float32", 13, batch_norm=True))
    assert counts["nn.batch_norm"] == counts["nn.conv2d"] == 10
    assert counts["nn.dropout"] == 2


@pytest.mark.slow
def test_other_models_return_the_inferred_shapes() -> None:
    assert run(*dqn.get_workload(1)).shape == (1, 18)
    assert run(*dqn.get_workload(1, image_shape=(84, 84, 4), layout="NHWC")).shape == (1, 18)
    assert run(*densenet.get_workload(classes=5, batch_size=1)).shape == (1, 5)
    assert run(*synthetic.get_workload()).shape == (1, 3, 24, 12)
    out = run(*dcgan.get_workload(2, ngf=4))
    assert out.shape == (2, 3, 64, 64)
    assert np.abs(out).max() < 1


def test_mlp_equals_numpy_reference() -> None:
    mod, params = mlp.get_workload(3)
    values = {name: np.asarray(param, "float64") for name, param in params.items()}
    hidden = image((3, 1, 28, 28)).reshape(3, -1).astype("float64")
    for layer in (1, 2):
        hidden = np.maximum(hidden @ values[f"fc{layer}_weight"].T + values[f"fc{layer}_bias"], 0)
    powers = np.exp(hidden @ values["fc3_weight"].T + values["fc3_bias"])
    np.testing.assert_allclose(run(mod, params), powers / powers.sum(1, keepdims=True), rtol=1e-4)


def test_lstm_equals_numpy_reference() -> None:
    steps, hidden, batch = 3, 4, 2
    mod, params = lstm.get_workload(steps, hidden, batch)
    rng = np.random.default_rng(0)
    random = {name: rng.standard_normal(param.shape).astype("float32") for name, param in params.items()}
    inputs: list[npt.NDArray[np.float32]] = []
    args: list[npt.NDArray[np.float32]] = []
    for param in main_of(mod).params:
        if param.name_hint == "data":
            inputs.append(rng.standard_normal((batch, hidden)).astype("float32"))
        args.append(inputs[-1] if param.name_hint == "data" else random[param.name_hint])

    def sigmoid(x: Floats) -> Floats:
        return 1 / (1 + np.exp(-x))

    h, c = np.zeros((batch, hidden)), np.zeros((batch, hidden))
    for step, x in enumerate(inputs):
        weights = {
            name: random[f"{name[:3]}_{step}_{name[4:]}"]
            for name in ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")
        }
        gates = x @ weights["i2h_weight"].T + weights["i2h_bias"] + h @ weights["h2h_weight"].T + weights["h2h_bias"]
        i, f, g, o = np.split(gates.astype("float64"), 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    np.testing.assert_allclose(np.asarray(evaluate(mod, *args), "float64"), h, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "last"),
    [
        (resnet.get_workload(1, 5, 18, (3, 40, 40)), resnet.get_workload(1, 5, 18, (40, 40, 3), layout="NHWC")),
        (mobilenet.get_workload(1, 5, (3, 32, 32)), mobilenet.get_workload(1, 5, (32, 32, 3), layout="NHWC")),
    ],
)
def test_channels_last_equals_channels_first(first: Workload, last: Workload) -> None:
    (mod, initial), (mod_last, initial_last) = first, last
    params = random_parameters(initial)
    data = image(shapes(mod)["data"])
    moved: dict[str, npt.ArrayLike] = {"data": np.moveaxis(data, 1, -1)}
    for name, value in params.items():
        depthwise = value.ndim == 4 and value.shape[1] == 1
        order = ((2, 3, 0, 1) if depthwise else (2, 3, 1, 0)) if value.ndim == 4 else tuple(range(value.ndim))
        moved[name] = value.transpose(order)
        assert np.shape(moved[name]) == initial_last[name].shape
    expected = run(mod, {**params, "data": data})
    assert expected.std() > 1e-3
    np.testing.assert_allclose(run(mod_last, moved), expected, rtol=1e-3, atol=1e-5)


def test_variables_have_the_names_of_tvm() -> None:
    names = list(shapes(resnet.get_workload(1, 10, 18, (3, 64, 64))[0]))
    assert names[:6] == [
        "data",
        "bn_data_gamma",
        "bn_data_beta",
        "bn_data_moving_mean",
        "bn_data_moving_var",
        "conv0_weight",
    ]
    assert {"bn0_gamma", "stage1_unit1_conv1_weight", "stage1_unit1_sc_weight", "fc1_weight", "fc1_bias"} < set(names)
    assert "stage1_unit2_sc_weight" not in names
    inception = shapes(infer_module(IRModule.from_expr(inception_v3.get_net(1, 10, (3, 299, 299), "float32"))))
    assert {"conv_conv1_weight", "mixed_tower_1_conv_2_bn_gamma", "mixed_9_tower_mixed_conv_1_conv1_weight"} < set(
        inception
    )
    separable = shapes(mobilenet.get_workload(1, 10, (3, 32, 32))[0])
    assert separable["separable_conv_block_1_weight"] == (32, 1, 3, 3)
    assert {"conv_block_1_conv_weight", "separable_conv_block_13_conv2_weight", "fc_bias"} < set(separable)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: resnet.get_net(1, 10, 17),
            "num_layers must be one of 18, 34, 50, 101, 152, 200, 269, got 17",
        ),
        (
            lambda: resnet.get_net(1, 10, 18, (3, 28, 28)),
            "for images of up to 28 pixels, num_layers must be 6n+2 below 164 or 9n+2 from 164, got 18",
        ),
        (
            lambda: resnet.resnet([2], 2, [1, 1], 10, (1, 3, 8, 8)),
            "units must have num_stages (2) elements, got (2,)",
        ),
        (
            lambda: vgg.get_net(1, (3, 32, 32), 10, "float32", 12),
            "num_layers must be one of 11, 13, 16, 19, got 12",
        ),
        (
            lambda: squeezenet.get_net(1, (3, 64, 64), 10, "2.0", "float32"),
            "version must be 1.0 or 1.1, got '2.0'",
        ),
        (lambda: densenet.get_workload(120), "densenet_size must be one of 121, 161, 169, 201, got 120"),
        (lambda: dcgan.get_net(1, oshape=(3, 32, 64)), "images must be of 64 by 64 pixels, got 32 by 64"),
        (lambda: lstm.get_net(0, 4), "iterations must be at least 1, got 0"),
        (
            lambda: mobilenet.mobile_net(layout="CHWN"),
            "data_layout must be one of NCHW, NHWC, got 'CHWN'",
        ),
    ],
)
def test_unknown_model_variant_raises_value_error(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


@pytest.mark.parametrize("model", [dcgan, dqn, lenet, lstm, mlp, squeezenet], ids=lambda model: model.__name__)
def test_get_workload_needs_no_arguments(model: ModuleType) -> None:
    mod, params = model.get_workload()
    assert {*params} < {param.name_hint for param in mod["main"].params}
