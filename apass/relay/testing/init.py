"""The numbers that a model's parameters start with, and `create_workload`, which makes a module and its parameters."""

from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import infer_module

__all__ = ["Constant", "Initializer", "Xavier", "create_workload"]

Writable: TypeAlias = npt.NDArray[Any]
"""An array to fill."""

_FILLS = {"bias": 0.0, "gamma": 1.0, "beta": 0.0, "mean": 0.0, "var": 1.0}


class Initializer:
    """The base of initializers: what the end of a parameter's name tells is filled in; `init_weight` does weights."""

    def __init__(self) -> None:
        self.random = np.random.RandomState(0)
        """Where random numbers come from; `create_workload` seeds it."""

    def __call__(self, desc: str, arr: Writable) -> None:
        """Fill an array with what a parameter of the name starts with.

        Raises:
            ValueError: if the name ends with nothing that is known.

        """
        if desc.endswith("weight"):
            self.init_weight(desc, arr)
            return
        for ending, value in _FILLS.items():
            if desc.endswith(ending):
                arr[...] = value
                return
        known = ", ".join(("weight", *_FILLS))
        raise ValueError(f"nothing tells how to initialize {desc}: its name ends with none of {known}")

    def init_weight(self, name: str, arr: Writable) -> None:
        """Fill the array of a weight; for subclasses."""
        raise NotImplementedError(f"{type(self).__name__} does not tell how to initialize a weight, such as {name}")


class Xavier(Initializer):
    """Random weights, the larger the fewer of them are summed: `magnitude` over the fan, its root the scale."""

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        """Take the distribution, `uniform` or `gaussian`; the fan that counts, `avg`, `in` or `out`; and the magnitude.

        Raises:
            ValueError: if the distribution or the fan is another one.

        """
        super().__init__()
        if rnd_type not in {"uniform", "gaussian"}:
            raise ValueError(f"rnd_type must be 'uniform' or 'gaussian', not {rnd_type!r}")
        if factor_type not in {"avg", "in", "out"}:
            raise ValueError(f"factor_type must be 'avg', 'in' or 'out', not {factor_type!r}")
        self.rnd_type = rnd_type
        """The distribution."""
        self.factor_type = factor_type
        """Which fan counts."""
        self.magnitude = float(magnitude)
        """What is divided by the fan."""

    def init_weight(self, name: str, arr: Writable) -> None:
        """Fill the array of a weight.

        Raises:
            ValueError: if it has less than two dimensions.

        """
        if arr.ndim < 2:
            raise ValueError(f"Xavier is for weights of 2 dimensions or more; {name} has the shape {arr.shape}")
        scale = np.sqrt(self.magnitude / self._fan(name, arr.shape))
        if self.rnd_type == "uniform":
            arr[...] = self.random.uniform(-scale, scale, arr.shape)
        else:
            arr[...] = self.random.normal(0, scale, arr.shape)

    def _fan(self, name: str, shape: tuple[int, ...]) -> float:
        window = prod(shape[2:])
        if "depthwise" in name:
            return window
        fans = {"in": shape[1] * window, "out": shape[0] * window}
        return fans.get(self.factor_type, sum(fans.values()) / 2)


class Constant(Initializer):
    """Weights all of whose elements are equal, with the sum 1."""

    def init_weight(self, name: str, arr: Writable) -> None:
        """Fill the array of a weight."""
        arr[...] = 1.0 / arr.size


def create_workload(
    net: Function, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return a typed module whose main is the network, and numbers for all parameters but those named `data`.

    Raises:
        TypeInferenceError: if the network has no type.
        TypeError: if a parameter is no tensor of a known shape.
        ValueError: if the initializer does not know what to do with a parameter.

    """
    mod = infer_module(IRModule.from_expr(net))
    fill = Xavier() if initializer is None else initializer
    fill.random.seed(seed)
    main = mod["main"]
    assert isinstance(main, Function), "main is the network"
    params: dict[str, NDArray] = {}
    for param in main.params:
        if param.name_hint == "data":
            continue
        ty = param.checked_type
        if not isinstance(ty, TensorType):
            raise TypeError(f"parameter {param.name_hint} is a {ty}; only tensors can be initialized")
        values: Writable = np.zeros(ty.concrete_shape, ty.dtype)
        fill(param.name_hint, values)
        params[param.name_hint] = NDArray.of(values)
    return mod, params
