"""Initializers of parameters, and `create_workload`.

`create_workload` makes a typed module and initial parameters from a network.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import TensorType
from apass.relay.type_inference.infer import infer_module

__all__ = ["Constant", "Initializer", "Xavier", "create_workload"]

Writable: TypeAlias = npt.NDArray[Any]
"""A NumPy array to fill in place."""

_FILLS = {"bias": 0.0, "gamma": 1.0, "beta": 0.0, "mean": 0.0, "var": 1.0}
"""The initial value of a parameter, by the suffix of its name."""


class Initializer:
    """The base class of initializers.

    Parameters are filled by the suffix of their name; `init_weight` fills weights.
    """

    def __init__(self) -> None:
        self.random: np.random.RandomState = np.random.RandomState(0)
        """The source of random numbers; `create_workload` seeds it."""

    def __call__(self, desc: str, arr: Writable) -> None:
        """Fill an array with the initial values of a parameter.

        Parameters:
            desc: the name of the parameter.
            arr: the array to fill.

        Raises:
            ValueError: if the name has no known suffix.

        """
        if desc.endswith("weight"):
            self.init_weight(desc, arr)
            return
        for suffix, value in _FILLS.items():
            if desc.endswith(suffix):
                arr[...] = value
                return
        suffixes = ", ".join(("weight", *_FILLS))
        raise ValueError(f"cannot initialize {desc}: its name must end with one of {suffixes}")

    def init_weight(self, name: str, arr: Writable) -> None:
        """Fill the array of a weight; overridden by subclasses."""
        raise NotImplementedError(f"{type(self).__name__} cannot initialize weight {name}: override init_weight")


class Xavier(Initializer):
    """Random weights of scale `sqrt(magnitude / fan)`.

    Glorot and Bengio, AISTATS 2010.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        """Set the distribution.

        Parameters:
            rnd_type: the distribution, `uniform` or `gaussian`.
            factor_type: the fan to divide by: `in`, `out`, or `avg` for their average.
            magnitude: the number that is divided by the fan.

        Raises:
            ValueError: if `rnd_type` or `factor_type` has another value.

        """
        super().__init__()
        if rnd_type not in {"uniform", "gaussian"}:
            raise ValueError(f"rnd_type must be 'uniform' or 'gaussian', got {rnd_type!r}")
        if factor_type not in {"avg", "in", "out"}:
            raise ValueError(f"factor_type must be 'avg', 'in' or 'out', got {factor_type!r}")
        self.rnd_type = rnd_type
        """The distribution."""
        self.factor_type = factor_type
        """The fan to divide by."""
        self.magnitude: float = float(magnitude)
        """The number that is divided by the fan."""

    def init_weight(self, name: str, arr: Writable) -> None:
        """Fill the array of a weight.

        Raises:
            ValueError: if it has fewer than two dimensions.

        """
        if arr.ndim < 2:
            raise ValueError(f"Xavier requires weights of at least 2 dimensions, but {name} has the shape {arr.shape}")
        scale = np.sqrt(self.magnitude / self._fan(name, arr.shape))
        if self.rnd_type == "uniform":
            arr[...] = self.random.uniform(-scale, scale, arr.shape)
        else:
            arr[...] = self.random.normal(0, scale, arr.shape)

    def _fan(self, name: str, shape: tuple[int, ...]) -> float:
        window = prod(shape[2:])
        # A depthwise kernel reads one channel, which its shape does not show; TVM recognizes it by name.
        if "depthwise" in name:
            return window
        fans = {"in": shape[1] * window, "out": shape[0] * window}
        return fans.get(self.factor_type, sum(fans.values()) / 2)


class Constant(Initializer):
    """Equal weights with the sum 1."""

    def init_weight(self, name: str, arr: Writable) -> None:
        """Fill the array of a weight."""
        arr[...] = 1.0 / arr.size


def create_workload(
    net: Function, initializer: Initializer | Callable[[str, Writable], object] | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return a network as a typed module, and initial values of its parameters.

    Parameters named `data` are inputs and get no values.

    Parameters:
        net: the network.
        initializer: an `Initializer`, or any function that takes the name and the array of a parameter, and fills the
            array in place. The default is `Xavier()`.
        seed: the seed of the initializer's random numbers. For a function, numpy's global generator
            has this seed during the call.

    Raises:
        TypeInferenceError: if the network has no type.
        TypeError: if a parameter is not a tensor of static shape.
        ValueError: if the initializer does not support a parameter.

    """
    mod = infer_module(IRModule.from_expr(net))
    fill = Xavier() if initializer is None else initializer
    with _seeded(fill, seed):
        return mod, _initial_params(mod["main"], fill)


def _initial_params(main: Function, fill: Callable[[str, Writable], object]) -> dict[str, NDArray]:
    params: dict[str, NDArray] = {}
    for param in main.params:
        if param.name_hint == "data":
            continue
        ty = param.checked_type
        if not isinstance(ty, TensorType):
            raise TypeError(f"parameter {param.name_hint} must be a tensor, got {ty}")
        values: Writable = np.zeros(ty.concrete_shape, ty.dtype)
        fill(param.name_hint, values)
        params[param.name_hint] = NDArray.of(values)
    return params


@contextmanager
def _seeded(fill: Callable[[str, Writable], object], seed: int) -> Generator[None]:
    """Seed the random numbers of an initializer, until the end of the block."""
    if isinstance(fill, Initializer):
        fill.random.seed(seed)
        yield
        return
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)
