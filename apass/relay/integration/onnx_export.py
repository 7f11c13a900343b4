"""The pass `onnx.FromRelay`, which exports a module of Relay."""

from typing import Any, Literal

from anyio import to_thread

from apass.adapters.onnx import OnnxModel
from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.integration.onnx_plugin import exported_model
from apass.relay.ir.module import IRModule

__all__ = ["FromRelay"]


class FromRelay(ModulePass[Any]):
    """Export a module of Relay to an ONNX model, as `apass.relay.to_onnx` does.

    Parameters:
        opset_version: the version of ONNX's operators; None for that of the model that the module was imported from,
            or a later one if an operator needs it.

    """

    info: PassInfo = PassInfo(0, "onnx.FromRelay")
    cacheable: bool | Literal["module"] = True
    result_type = OnnxModel

    def __init__(self, opset_version: int | None = None) -> None:
        self.opset_version = opset_version
        """The version of ONNX's operators."""

    async def transform_module(self, mod: Any, ctx: PassContext) -> OnnxModel:
        """Return the ONNX model.

        Raises:
            AdapterError: if `mod` is no module of Relay.
            OpNotImplementedError: if a part of the module has no ONNX form.

        """
        if not isinstance(mod, IRModule):
            raise AdapterError(f"pass 'onnx.FromRelay' takes an apass.relay.IRModule, got {type(mod).__name__}")
        model: OnnxModel = await to_thread.run_sync(exported_model, mod, self.opset_version)
        return model


provide_pass("onnx.FromRelay")(FromRelay)
