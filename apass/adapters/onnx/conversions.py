"""The pass `onnx.FromRelay`, which exports a module of Relay."""

from importlib import import_module
from typing import Any, Literal

import onnx_ir as ir
from anyio import to_thread

from apass.core.context import PassContext
from apass.core.info import PassInfo
from apass.errors import AdapterError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass

__all__ = ["FromRelay"]


class FromRelay(ModulePass[Any]):
    """Export a module of Relay to an ONNX model, as `apass.relay.to_onnx` does.

    Parameters:
        opset_version: the version of ONNX's operators; None for that of the model that the module was imported from,
            or a later one if an operator needs it.

    """

    info: PassInfo = PassInfo(0, "onnx.FromRelay")
    cacheable: bool | Literal["module"] = True
    result_type = ir.Model

    def __init__(self, opset_version: int | None = None) -> None:
        self.opset_version = opset_version
        """The version of ONNX's operators."""

    async def transform_module(self, mod: Any, ctx: PassContext) -> ir.Model:
        """Return the ONNX model.

        Raises:
            AdapterError: if `mod` is no module of Relay.
            OpNotImplementedError: if a part of the module has no ONNX form.

        """
        # ONNX without Relay does not need these modules.
        plugin: Any = import_module("apass.relay.integration.onnx_plugin")
        if not isinstance(mod, plugin.THROUGH_RELAY.module_type):
            raise AdapterError(f"pass 'onnx.FromRelay' takes an apass.relay.IRModule, got {type(mod).__name__}")
        model: ir.Model = await to_thread.run_sync(plugin.exported_model, mod, self.opset_version)
        return model


provide_pass("onnx.FromRelay")(FromRelay)
