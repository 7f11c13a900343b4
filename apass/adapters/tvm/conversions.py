"""The passes between TVM and other IRs: `tvm.FromONNX` and `tvm.ToLLVM`."""

import re
from importlib import import_module
from typing import Annotated, Any, Final, Literal

from apass.adapters.tvm.bridge import check_module
from apass.adapters.tvm.execution import call_in_thread
from apass.adapters.tvm.failures import failing_part, imported_node
from apass.adapters.tvm.library import IRModule, short_reason, tvm
from apass.core.context import PassContext
from apass.core.outside import Outside
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError, MissingExtraError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass

__all__ = ["FromONNX", "ToLLVM", "from_onnx_proto"]

_VERSION: Final = f"apache-tvm {tvm.__version__}"

_ADDRESS: Final = re.compile(r'(?<=!")0x[0-9a-f]+(?=[".])')
"""The address of a buffer, with which the names of nodes in the metadata about aliases begin."""


class FromONNX(ModulePass[Any]):
    """Convert an ONNX model to a module of TVM, with its weights as constants.

    Parameters:
        keep_params_in_input: whether the weights become parameters of `main` instead.

    """

    native: bool = True
    info: PassInfo = PassInfo(0, "tvm.FromONNX")
    cacheable: bool | Literal["module"] = True
    version: str = _VERSION
    result_type = tvm.IRModule

    def __init__(self, keep_params_in_input: bool = False) -> None:
        self.keep_params_in_input = keep_params_in_input
        """Whether the weights become parameters of `main`."""

    async def transform_module(self, mod: Any, ctx: PassContext) -> IRModule:
        """Return the module of TVM.

        Raises:
            AdapterError: if `mod` is no ONNX model, or TVM cannot import it.

        """
        # onnx is another extra.
        import onnx_ir

        from apass.adapters.onnx import model_proto

        if not isinstance(mod, onnx_ir.Model):
            raise AdapterError(f"pass 'tvm.FromONNX' takes an onnx_ir.Model, got {type(mod).__name__}")
        keeps = self.keep_params_in_input
        # TVM reads no weights from other files.
        return await call_in_thread(
            lambda: from_onnx_proto(model_proto(mod), keep_params_in_input=keeps), ctx, exclusive=True
        )


def from_onnx_proto(model: Any, *, keep_params_in_input: bool = False) -> IRModule:
    """Return the module that TVM's importer makes of an `onnx.ModelProto`.

    Raises:
        AdapterError: if TVM cannot import the model.

    """
    frontend: Any = import_module("tvm.relax.frontend.onnx")
    try:
        return frontend.from_onnx(model, keep_params_in_input=keep_params_in_input)
    except Exception as error:  # TVM raises errors of many types for what it does not support
        failure = AdapterError(f"TVM cannot import the ONNX model: {short_reason(error)}")
        node = imported_node(error)
        if node:
            failure.add_note(node)
        raise failure from None


class ToLLVM(ModulePass[Any]):
    """Compile a module to LLVM IR.

    The result contains its TIR functions, and those that its Relax functions are lowered to. The calls between these
    stay in TVM's executable, which is not part of it. For the same module the text is the same in every process.

    Parameters:
        target: the target of TVM, such as `llvm` for this computer.

    """

    native: bool = True
    info: PassInfo = PassInfo(0, "tvm.ToLLVM")
    cacheable: bool | Literal["module"] = True
    version: str = _VERSION

    # A target takes options of LLVM, of which some name files.
    def __init__(self, target: Annotated[str, Outside.FILES] = "llvm") -> None:
        self.target = target
        """The target of TVM."""
        try:
            # llvmlite is another extra.
            from apass.adapters.llvm import Module
        except MissingExtraError as error:
            raise MissingExtraError(f"pass 'tvm.ToLLVM' makes modules of LLVM: {error}") from error
        self._module: Any = Module
        self.result_type = Module

    async def transform_module(self, mod: Any, ctx: PassContext) -> Any:
        """Return the LLVM module.

        Raises:
            AdapterError: if `mod` is no module of TVM, if TVM cannot compile it, or if it has nothing to compile.

        """
        check_module(self.info.name, mod)
        text = await call_in_thread(lambda: _llvm_text(mod, self.target), ctx, exclusive=True)
        return self._module.parse(text)


def _llvm_text(mod: IRModule, target: str) -> str:
    """Return the LLVM IR of a module, as text."""
    try:
        compiled = tvm.compile(mod, target=target)
    except Exception as error:  # TVM raises errors of many types
        part = failing_part(mod, lambda part: tvm.compile(part, target=target), error)
        where = f"\n  at {part}" if part else ""
        raise AdapterError(
            f"TVM cannot compile the module for target {target!r}: {short_reason(error)}{where}"
        ) from None
    library = getattr(compiled, "mod", compiled)
    parts = [part for part in (library, *library.imports) if part.kind == "llvm"]
    if len(parts) != 1:
        raise AdapterError(
            f"TVM made {len(parts)} LLVM modules for target {target!r}, expected one; the module must have a function "
            "to compile, and the target must be one of LLVM"
        )
    if parts[0].imports:
        kinds = ", ".join(sorted({part.kind for part in parts[0].imports}))
        raise AdapterError(f"for target {target!r}, TVM made code that LLVM IR cannot hold ({kinds}); use one for CPUs")
    names: dict[str, str] = {}
    return _ADDRESS.sub(lambda match: names.setdefault(match[0], f"buffer{len(names)}"), parts[0].inspect_source("ll"))


provide_pass("tvm.FromONNX")(FromONNX)
provide_pass("tvm.ToLLVM")(ToLLVM)
