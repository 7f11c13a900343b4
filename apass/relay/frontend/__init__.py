"""Front ends: import programs of other frameworks as Relay modules.

Importing this package loads no framework.
"""

from collections.abc import Mapping, Sequence

from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import Dim

__all__ = ["from_onnx"]


def from_onnx(
    model: object,
    shape: Mapping[str, Sequence[Dim]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = False,
    convert_config: Mapping[str, object] | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return an ONNX model as a Relay module, and its weights by parameter name.

    The parameters of `mod["main"]` are the inputs of the graph, in order, and then the initializers that are needed at
    run time, in order. `main` returns the output, or a tuple of the outputs.

    Values that only determine shapes are computed at import.

    Args:
        model: an `onnx.ModelProto`, the path of one, or an `onnx_ir.Model`.
        shape: shapes of inputs by name, which override those of the model. A dimension that neither gives becomes
            `relay.Any()`.
        dtype: element types of inputs by name, which override those of the model. A single type has no effect, as in
            TVM, because the model has the types of all inputs.
        opset: the version of the default operator set, which overrides that of the model.
        freeze_params: whether the weights become constants of the program; the second result is then empty.
        convert_config: options by name. `use_nt_batch_matmul` (default True) multiplies batches of matrices with the
            second operand transposed, as TVM does. `max_inlined_nodes` (default 100000) limits the nodes of inlined
            functions; n functions that call the next one twice have 2**n.

    Raises:
        MissingExtraError: if onnx is not installed.
        OpNotImplementedError: if the model has unsupported operators (the message names all of them), or uses one in
            a way that Relay cannot express (the message gives the reason).
        ValueError: if an argument has a name that the model does not have, or an input has no known rank.

    """
    # onnx is an extra.
    from apass.relay.frontend.onnx.importer import import_model

    return import_model(model, dict(shape or {}), dtype, opset, freeze_params, dict(convert_config or {}))
