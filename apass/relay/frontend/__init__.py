"""The front ends: programs of other frameworks, read as Relay modules. Importing this loads no framework."""

from collections.abc import Mapping, Sequence

from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ty import Dim

__all__ = ["from_onnx"]


def from_onnx(
    model: object,
    shape: Mapping[str, Sequence[Dim]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = False,
    convert_config: Mapping[str, object] | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return an ONNX model as a Relay module, and its weights by the names of the parameters that take them.

    `mod["main"]` takes the inputs of the graph, in their order, then the initializers that are needed at run time, in
    theirs; it returns the output, or a tuple of the outputs. What only decides shapes is worked out now.

    Args:
        model: an `onnx.ModelProto`, the path of one, or an `onnx_ir.Model`.
        shape: the shapes of inputs, by name, in place of those that the model states. A dimension that nobody gives is
            `relay.Any()`.
        dtype: the element types of inputs, by name, in place of those that the model states. A single one is ignored,
            as in TVM: the model states them all.
        opset: the version of the operators of the default domain, in place of the one that the model states.
        freeze_params: make the weights constants of the program; the second result is then empty.
        convert_config: `use_nt_batch_matmul` (default True): multiply stacks of matrices with the second one
            transposed, as TVM does.

    Raises:
        MissingExtraError: if onnx is not installed.
        OpNotImplementedError: if the model has operators that are not known here; the message names all of them. Or if
            one is used in a way that Relay cannot express; the message says in which.
        ValueError: if an argument names an input that the model does not have, or an input has no known rank.

    """
    from apass.relay.frontend.onnx.importer import import_model

    return import_model(model, dict(shape or {}), dtype, opset, freeze_params, dict(convert_config or {}))
