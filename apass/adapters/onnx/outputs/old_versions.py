"""Old versions of operators that the reference evaluator computes as new ones.

- `Softmax`, `LogSoftmax` and `Hardmax` before version 13 normalize the axes from `axis` on together, and the default of
  `axis` is 1. The classes of onnx normalize one axis, by default the last one.
- `BatchNormalization` from version 7 to 13 uses the given mean and variance if it has one output. The classes of onnx
  mix these with the mean and variance of the data.
"""

from math import prod
from typing import Any, Final

from onnx import helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op

__all__ = ["KERNELS", "BatchNormalization", "Hardmax", "LogSoftmax", "Softmax"]

Array = Any


class _Operator(OpRun):
    """An operator that calls the class of onnx with other operands."""

    op_domain = ""

    @property
    def _version(self) -> int:
        """The version of the operators in the model."""
        version: int = self.run_params["opsets"][self.onnx_node.domain]
        return version

    def _outputs(self, version: int, *operands: Array, **attributes: Any) -> tuple[Array, ...]:
        """Return the outputs of the class of onnx for a version."""
        node = helper.make_node(self.onnx_node.op_type, [], self.onnx_node.output, **attributes)
        reference: Any = load_op("", node.op_type, version)(node, self.run_params)
        outputs: tuple[Array, ...] = reference.run(*operands)
        return outputs


class _Normalization(_Operator):
    """An operator that normalizes a matrix before version 13, and one axis since then."""

    def _run(self, x: Array, axis: int) -> tuple[Array, ...]:
        if self._version >= 13:
            return self._outputs(self._version, x, axis=axis)
        # The evaluator takes a missing attribute for the default of the newest version.
        is_given = any(attribute.name == "axis" for attribute in self.onnx_node.attribute)
        first = (axis + x.ndim if axis < 0 else axis) if is_given else 1
        matrix = x.reshape(prod(x.shape[:first]), prod(x.shape[first:]))
        (result,) = self._outputs(13, matrix, axis=1)
        return (result.reshape(x.shape),)


class Softmax(_Normalization):
    """The exponentials, divided by their sum."""


class LogSoftmax(_Normalization):
    """The logarithm of `Softmax`."""


class Hardmax(_Normalization):
    """One for the first maximum, and zero for the other elements."""


class BatchNormalization(_Operator):
    """The data minus its mean, divided by its deviation, scaled and shifted."""

    def _run(self, x: Array, *channels: Array, **attributes: Any) -> tuple[Array, ...]:
        if not 7 <= self._version < 14 or len(self.onnx_node.output) > 1:
            given = {attribute.name for attribute in self.onnx_node.attribute}
            return self._outputs(self._version, x, *channels, **{name: attributes[name] for name in given})
        is_spatial = attributes.get("spatial", 1)
        data = x if is_spatial else x.reshape(x.shape[0], prod(x.shape[1:]))
        vectors = [values.reshape(-1) for values in channels]
        (result,) = self._outputs(14, data, *vectors, epsilon=attributes["epsilon"])
        return (result.reshape(x.shape),)


KERNELS: Final[list[type[OpRun]]] = [Softmax, LogSoftmax, Hardmax, BatchNormalization]
"""The classes for `ReferenceEvaluator(new_ops=...)`."""
