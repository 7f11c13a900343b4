"""The pass `relay.FromONNX`, which imports an ONNX model."""

from typing import Any, Literal

from anyio import to_thread

from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.integration.onnx_plugin import imported_model
from apass.relay.ir.module import IRModule

__all__ = ["FromONNX"]


class FromONNX(ModulePass[Any]):
    """Import an ONNX model into Relay, with its weights as constants.

    The attributes of `main` keep the versions of the model, the names of its outputs and of their dimensions.
    """

    info: PassInfo = PassInfo(0, "relay.FromONNX")
    cacheable: bool | Literal["module"] = True
    result_type = IRModule

    async def transform_module(self, mod: Any, ctx: PassContext) -> IRModule:
        """Return the module of Relay, with types.

        Raises:
            AdapterError: if `mod` is no ONNX model, or has an output that is no tensor.
            OpNotImplementedError: if the importer does not support a part of the model.

        """
        # onnx is an extra.
        import onnx_ir

        if not isinstance(mod, onnx_ir.Model):
            raise AdapterError(f"pass 'relay.FromONNX' takes an onnx_ir.Model, got {type(mod).__name__}")
        return await to_thread.run_sync(imported_model, mod)


provide_pass("relay.FromONNX")(FromONNX)
