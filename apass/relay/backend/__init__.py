"""Back ends: export Relay modules to other formats, and run them elsewhere.

Importing this package loads no framework.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from apass.relay.interpreter.executor import Executor, register_executor
from apass.relay.ir.expr import Constant
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule

__all__ = ["to_onnx"]


def to_onnx(
    relay_ir: IRModule | Function,
    params: Mapping[str, npt.ArrayLike | Constant] | None = None,
    name: str = "main",
    opset_version: int | None = None,
    path: str | Path | None = None,
    output_names: Sequence[str] | None = None,
) -> Any:
    """Return a Relay program as an `onnx.ModelProto`, which `from_onnx` reads again.

    The inputs of the model are the parameters of `main`, with their names. Fields of tuples are separate inputs and
    outputs. Calls of functions are inlined. An If becomes an If of ONNX, and a function whose last step is a call of
    itself becomes a Loop. Element types are kept: where ONNX or onnxruntime lacks one, an operator is run with a wider
    type, between two casts.

    The counterpart of `tvm.contrib.target.onnx.to_onnx` of TVM 0.8.

    Args:
        relay_ir: the module, whose function `main` is exported, or a function.
        params: values of parameters by name; they become initializers instead of inputs.
        name: the name of the graph.
        opset_version: the version of ONNX's operators, from 7. Default: the opset of the input file, else 17; raised
            if an operator needs a later one.
        path: a file to write the model to; weights of more than 2 GB are written beside it.
        output_names: the names of the outputs; by default `output`, or `output_0`, `output_1` and so on.

    Raises:
        MissingExtraError: if onnx is not installed.
        OpNotImplementedError: if a part of the program has no ONNX form; the message names the operator, its types and
            attributes, and the reason.
        TypeError: if `relay_ir` is neither a module nor a function.
        TypeInferenceError: if the program has no types.
        ValueError: if an argument has a wrong value or name.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.nn import relu
    >>> x = var("x", shape=(2, 3))
    >>> model = to_onnx(Function([x], relu(x)), opset_version=18)
    >>> [node.op_type for node in model.graph.node], model.graph.output[0].name
    (['Relu'], 'output')
    """
    # onnx is an extra.
    from apass.relay.backend.onnx.model import export_model

    return export_model(relay_ir, params or {}, name, opset_version, path, output_names)


def _onnxruntime(mod: IRModule) -> Executor:
    # onnxruntime is an extra.
    from apass.relay.backend.onnx.session import OnnxRuntimeExecutor

    return OnnxRuntimeExecutor(mod)


register_executor("onnxruntime", _onnxruntime)
