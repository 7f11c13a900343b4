"""The passes of xDSL as passes of apass: over modules, and over functions."""

import warnings
from dataclasses import fields
from importlib.metadata import version
from typing import Final

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.module_fingerprint import fingerprint
from apass.adapters.xdsl.symbols import copy_of, is_function, module_of, symbol_of, with_functions
from apass.adapters.xdsl.text import full_message, new_context, verify_module
from apass.core.context import PassContext
from apass.core.info import PassInfo
from apass.errors import AdapterError
from apass.passes.function_pass import FunctionPass
from apass.passes.in_place import InPlacePass

__all__ = ["PREFIX", "XdslFunctionPass", "XdslPass"]

PREFIX: Final = "xdsl."
"""What precedes the name of a pass of xDSL."""

UNCACHEABLE: Final = frozenset({"mlir-opt"})
"""The passes whose results depend on something else than the module and the options: another program.

So do those of passes that read files, whose options are named `*_file`.
"""


class XdslPass(InPlacePass[ModuleOp]):
    """A pass of xDSL over whole modules.

    - It changes a private copy. If it changes nothing, the result is the input module itself.
    - An invalid result raises VerifyError, and any error of xDSL AdapterError.

    Parameters:
        library_pass: the pass of xDSL.

    """

    def __init__(self, library_pass: ModulePass) -> None:
        self.info = PassInfo(0, f"{PREFIX}{library_pass.name}")
        self.library_pass = library_pass
        """The pass of xDSL."""
        self.cacheable = _is_cacheable(library_pass)
        self.version = f"xdsl {version('xdsl')}"

    def transform_in_place(self, mod: ModuleOp, ctx: PassContext) -> bool:
        """Apply the pass to a private module.

        Raises:
            AdapterError: if the pass fails.
            VerifyError: if the result is invalid.

        """
        _check_module(self.info, mod)
        before = fingerprint(mod, exact=True)
        _apply(self.library_pass, mod)
        return fingerprint(mod, exact=True) != before


class XdslFunctionPass(FunctionPass[ModuleOp, Operation]):
    """A pass of xDSL that stays within a function.

    It runs on each function separately, in a private module with declarations of what the function calls. Functions
    with `SkipOptimization` are left out.

    A module with other operations, such as a nested module, is transformed as a whole.

    Parameters:
        library_pass: the pass of xDSL.

    """

    def __init__(self, library_pass: ModulePass) -> None:
        self.info = PassInfo(0, f"{PREFIX}{library_pass.name}")
        self.library_pass = library_pass
        """The pass of xDSL."""
        self.cacheable = _is_cacheable(library_pass)
        self.version = f"xdsl {version('xdsl')}"

    async def transform(self, mod: ModuleOp, ctx: PassContext) -> ModuleOp:
        """Transform the functions; with other operations than symbols, the module.

        Raises:
            AdapterError: if `mod` is no module of xDSL, or the pass fails.
            VerifyError: if the result is invalid.

        """
        _check_module(self.info, mod)
        if all(is_function(op) or _is_plain_symbol(op) for op in mod.body.ops):
            return await super().transform(mod, ctx)
        private = copy_of(mod)
        _apply(self.library_pass, private)
        skipped = {name: func for name, func in ADAPTER.functions(mod) if ADAPTER.skips(func)}
        result = with_functions(private, skipped) if skipped else private
        return mod if fingerprint(result, exact=True) == fingerprint(mod, exact=True) else result

    def transform_function(self, func: Operation, mod: ModuleOp, ctx: PassContext) -> Operation:
        """Apply the pass to a private module of one function.

        Raises:
            AdapterError: if the pass fails.
            VerifyError: if the result is invalid.

        """
        name = symbol_of(func)
        assert name is not None, "a function is a symbol"
        private = module_of(mod, [name])
        _apply(self.library_pass, private)
        result = ADAPTER.get(private, name)
        return func if fingerprint(result, exact=True) == fingerprint(func, exact=True) else result


def _check_module(info: PassInfo, mod: object) -> None:
    """Raise AdapterError unless `mod` is a module of xDSL."""
    if not isinstance(mod, ModuleOp):
        kind = f"{type(mod).__module__}.{type(mod).__qualname__}"
        hint = "; convert it with xdsl.FromMLIR" if kind.endswith(".MLIRModule") else ""
        raise AdapterError(f"pass {info.name!r} takes a ModuleOp of xDSL, got {kind}{hint}")


def _apply(library_pass: ModulePass, mod: ModuleOp) -> None:
    """Apply a pass of xDSL to a private module, and verify the result.

    A deprecated pass causes a FutureWarning.

    Raises:
        AdapterError: if the pass fails.
        VerifyError: if the result is invalid.

    """
    name = library_pass.name
    reason = getattr(library_pass, "__deprecated__", None)
    if reason is not None:
        # Python shows no DeprecationWarning outside of the main program.
        warnings.warn(f"pass {name} of xDSL: DeprecationWarning: {reason}", FutureWarning, stacklevel=2)
    try:
        library_pass.apply(new_context(), mod)
    except RecursionError:
        raise AdapterError(f"pass {name} of xDSL failed: the regions of the module are nested too deeply") from None
    except Exception as error:
        message = f"pass {name} of xDSL failed with {type(error).__name__}:\n{full_message(error)}"
        raise AdapterError(message) from error
    for op in mod.walk():
        # test-specialised-constant-folding creates operations without calling their constructor.
        if not hasattr(op, "location"):
            op.location = UnknownLoc()
    verify_module(mod, f"the result of pass {name} of xDSL is invalid")


def _is_cacheable(library_pass: ModulePass) -> bool:
    reads_file = any(field.name.endswith("_file") for field in fields(library_pass))
    return library_pass.name not in UNCACHEABLE and not reads_file


def _is_plain_symbol(op: Operation) -> bool:
    """Return whether an operation is a symbol without a body."""
    return symbol_of(op) is not None and not op.results and not any(region.blocks for region in op.regions)
