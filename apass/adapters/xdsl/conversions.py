"""The pass `xdsl.FromMLIR`, which reads a module of MLIR."""

from typing import Any, Literal

from xdsl.dialects.builtin import ModuleOp

from apass.adapters.mlir.module import MLIRModule
from apass.adapters.xdsl.text import parse_module
from apass.core.context import PassContext
from apass.core.info import PassInfo
from apass.errors import AdapterError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass

__all__ = ["FromMLIR"]


class FromMLIR(ModulePass[Any]):
    """Give an `MLIRModule` to xDSL, which parses its text.

    xDSL knows fewer dialects and forms than MLIR. `mlir.strip-debuginfo` and the generic format, which `mlir-opt`
    prints with `--mlir-print-op-generic`, help.
    """

    info: PassInfo = PassInfo(0, "xdsl.FromMLIR")
    cacheable: bool | Literal["module"] = True
    result_type = ModuleOp

    def transform_module(self, mod: Any, ctx: PassContext) -> ModuleOp:
        """Return the module of xDSL.

        Raises:
            AdapterError: if `mod` is no `MLIRModule`, or xDSL cannot parse its text.

        """
        if not isinstance(mod, MLIRModule):
            raise AdapterError(f"pass 'xdsl.FromMLIR' takes an MLIRModule, got {type(mod).__name__}")
        return parse_module(mod.text, mod.source or "<module>")


provide_pass("xdsl.FromMLIR")(FromMLIR)
