"""The passes between MLIR and other IRs, such as `mlir.ToLLVM`."""

import re
from pathlib import Path
from typing import Any, Final, Literal

from apass.adapters.mlir.adapter import ADAPTER
from apass.adapters.mlir.catalogue import catalogue_of
from apass.adapters.mlir.module import MLIRModule
from apass.adapters.program_pool import ask
from apass.adapters.programs import MLIR_OPT, Request
from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError, MissingExtraError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass

__all__ = ["FromLLVM", "FromXDSL", "ToLLVM"]

_TRANSLATE: Final = "mlir-translate"

_OTHER_DIALECT: Final = re.compile(r"Dialect `\S*' not found|LLVMTranslationDialectInterface")
"""What `mlir-translate` prints about an operation of another dialect than `llvm`."""


class _Translation(ModulePass[Any]):
    """A pass that runs `mlir-translate`, and uses the adapter of LLVM."""

    cacheable: bool | Literal["module"] = True

    def __init__(self) -> None:
        try:
            # Other passes of MLIR do not need llvmlite.
            from apass.adapters import llvm
        except MissingExtraError as error:
            raise MissingExtraError(f"pass {self.info.name!r} uses modules of LLVM: {error}") from error
        self._llvm = llvm
        mlir_opt = MLIR_OPT.find()
        program = MLIR_OPT.sibling(mlir_opt, _TRANSLATE)
        if program is None:
            raise MissingExtraError(
                f"pass {self.info.name!r} needs the program {_TRANSLATE} beside {mlir_opt}; install all tools of MLIR, "
                "such as with apt install mlir-22-tools"
            )
        self._program: Path = program
        self.version = catalogue_of(mlir_opt).version

    async def _translated(self, direction: str, data: bytes, source: str, ctx: PassContext) -> str:
        answer = await ask(Request(self._program, (direction,), data), ctx, source)
        return answer.data.decode()


class ToLLVM(_Translation):
    """Translate a module of the dialect `llvm` to LLVM IR, with `mlir-translate`.

    Other dialects must be lowered before, for example by `mlir.convert-func-to-llvm`. LLVM's own importer reads the
    result, so its version must understand that of `mlir-translate`.
    """

    info: PassInfo = PassInfo(0, "mlir.ToLLVM")

    def __init__(self) -> None:
        super().__init__()
        self.result_type = self._llvm.Module

    async def transform_module(self, mod: Any, ctx: PassContext) -> Any:
        """Return the LLVM module.

        Raises:
            AdapterError: if `mod` is no `MLIRModule`, or has operations that LLVM IR has not.

        """
        if not isinstance(mod, MLIRModule):
            raise AdapterError(f"pass 'mlir.ToLLVM' takes an MLIRModule, got {type(mod).__name__}")
        try:
            text = await self._translated("--mlir-to-llvmir", ADAPTER.dumps(mod), mod.source, ctx)
        except AdapterError as error:
            if _OTHER_DIALECT.search(str(error)) is None:
                raise
            advice = "lower other dialects before, for example with mlir.convert-to-llvm"
            raise AdapterError(f"{error}\n  {advice}") from None
        return self._llvm.Module.parse(text)


class FromLLVM(_Translation):
    """Translate a module of LLVM IR to the MLIR dialect `llvm`, with `mlir-translate`."""

    info: PassInfo = PassInfo(0, "mlir.FromLLVM")
    result_type = MLIRModule

    async def transform_module(self, mod: Any, ctx: PassContext) -> MLIRModule:
        """Return the MLIR module.

        Raises:
            AdapterError: if `mod` is no LLVM module, or has something that the dialect has not.

        """
        if not isinstance(mod, self._llvm.Module):
            raise AdapterError(f"pass 'mlir.FromLLVM' takes an LLVM module, got {type(mod).__name__}")
        text: str = mod.text
        return MLIRModule(await self._translated("--import-llvm", text.encode("utf-8", "surrogatepass"), "", ctx))


class FromXDSL(ModulePass[Any]):
    """Give a module of xDSL to MLIR, as text in the generic format."""

    info: PassInfo = PassInfo(0, "mlir.FromXDSL")
    cacheable: bool | Literal["module"] = True
    result_type = MLIRModule

    def transform_module(self, mod: Any, ctx: PassContext) -> MLIRModule:
        """Return the MLIR module.

        Raises:
            AdapterError: if `mod` is no module of xDSL.

        """
        # xDSL is another extra.
        from apass.adapters.xdsl import ADAPTER, ModuleOp

        if not isinstance(mod, ModuleOp):
            raise AdapterError(f"pass 'mlir.FromXDSL' takes a ModuleOp of xDSL, got {type(mod).__name__}")
        return MLIRModule(ADAPTER.dumps(mod).decode())


provide_pass("mlir.ToLLVM")(ToLLVM)
provide_pass("mlir.FromLLVM")(FromLLVM)
provide_pass("mlir.FromXDSL")(FromXDSL)
