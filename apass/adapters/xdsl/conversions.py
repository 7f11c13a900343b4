"""The pass `xdsl.FromMLIR`, which reads a module of MLIR."""

from collections.abc import Awaitable
from typing import Any, Final, Literal

from xdsl.dialects.builtin import ModuleOp

from apass.adapters.mlir.module import MLIRModule
from apass.adapters.program_pool import ask
from apass.adapters.programs import MLIR_OPT, Request
from apass.adapters.xdsl.text import parse_module
from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError, ApassError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass

__all__ = ["FromMLIR"]

GENERIC: Final = "--mlir-print-op-generic", "--mlir-print-local-scope"
"""The arguments of `mlir-opt` that print the generic format without aliases."""


class FromMLIR(ModulePass[Any]):
    """Give an `MLIRModule` to xDSL, which parses its text.

    If xDSL cannot parse the text, `mlir-opt` prints it in the generic format, which xDSL reads for more operations.
    xDSL knows fewer dialects and forms than MLIR; `mlir.strip-debuginfo` helps with locations.
    """

    info: PassInfo = PassInfo(0, "xdsl.FromMLIR")
    cacheable: bool | Literal["module"] = True
    result_type = ModuleOp

    def transform_module(self, mod: Any, ctx: PassContext) -> ModuleOp | Awaitable[ModuleOp]:
        """Return the module of xDSL.

        Raises:
            AdapterError: if `mod` is no `MLIRModule`, or xDSL cannot parse its text in either format.

        """
        if not isinstance(mod, MLIRModule):
            raise AdapterError(f"pass 'xdsl.FromMLIR' takes an MLIRModule, got {type(mod).__name__}")
        try:
            return parse_module(mod.text, mod.source or "<module>")
        except AdapterError as error:
            return _parse_generic(mod, ctx, error)


async def _parse_generic(mod: MLIRModule, ctx: PassContext, first: AdapterError) -> ModuleOp:
    """Return the module of xDSL from the generic format that `mlir-opt` prints.

    Raises:
        AdapterError: if that fails. It has the message of `first`, and the reason of the second failure.

    """
    name = mod.source or "<module>"
    try:
        arguments = (*GENERIC, "--mlir-print-debuginfo") if mod.has_locations else GENERIC
        request = Request(MLIR_OPT.find(), arguments, mod.text.encode("utf-8", "surrogatepass"))
        answer = await ask(request, ctx, mod.source)
        return parse_module(answer.data.decode(), f"{name} in the generic format")
    except ApassError as error:
        raise AdapterError(f"{first}\nand not in the generic format of mlir-opt: {error}") from first


provide_pass("xdsl.FromMLIR")(FromMLIR)
