"""The passes of xDSL as passes of apass: over modules, and over functions."""

import warnings
from collections.abc import Awaitable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields
from importlib.metadata import version
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.passes import ModulePass as XdslModulePass

from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.contents import same_contents
from apass.adapters.xdsl.symbols import (
    alone,
    copy_of,
    function_name,
    functions_of,
    is_divisible,
    module_of,
    replace_functions,
)
from apass.adapters.xdsl.text import VERIFY, full_message, new_context, verify_module
from apass.core.context import PassContext, yield_if_due
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError
from apass.passes.base import ModulePass, Pass
from apass.passes.draft import offer_draft, take_draft
from apass.passes.function_pass import FunctionPass
from apass.passes.in_place import InPlacePass
from apass.runner.changes import can_merge_passes

__all__ = ["PREFIX", "XdslFunctionPass", "XdslPass"]

PREFIX: Final = "xdsl."
"""What precedes the name of a pass of xDSL."""

UNCACHEABLE: Final = frozenset({"mlir-opt"})
"""The passes whose results depend on something else than the module and the options: another program.

So do those of passes that read files, whose options are named `*_file`.
"""


class XdslPass(ModulePass[ModuleOp]):
    """A pass of xDSL over whole modules.

    - It changes a private copy. If it changes nothing, the result is the input module itself.
    - An invalid result raises VerifyError, and any error of xDSL AdapterError.
    - Consecutive passes of a Sequential run on one copy if nothing looks at single passes.

    Parameters:
        library_pass: the pass of xDSL.

    """

    merges: bool = True
    changes_in_place: bool = True

    def __init__(self, library_pass: XdslModulePass) -> None:
        self.info = PassInfo(0, f"{PREFIX}{library_pass.name}")
        self.library_pass = library_pass
        """The pass of xDSL."""
        self.cacheable = _is_cacheable(library_pass)
        self.version = f"xdsl {version('xdsl')}"

    def merged_with(self, following: Sequence[Pass[ModuleOp]]) -> Pass[ModuleOp] | None:
        """Return a pass on one copy; None if something looks at single passes."""
        return _merged([self, *following])

    def transform_module(self, mod: ModuleOp, ctx: PassContext) -> ModuleOp | Awaitable[ModuleOp]:
        """Apply the pass to a private copy.

        Raises:
            AdapterError: if the pass fails.
            VerifyError: if the result is invalid.

        """
        return _run_on_copy(self, [self], mod, ctx)


class XdslFunctionPass(FunctionPass[ModuleOp, Operation]):
    """A pass of xDSL that stays within a function.

    It runs on each function separately. Functions with `SkipOptimization` are left out. If nothing looks at single
    functions, and no executor runs them, the functions are those of one private copy of the module. Otherwise each has
    a private module with declarations of what the function calls.

    A module with other operations, such as a nested module, is transformed as a whole.

    Parameters:
        library_pass: the pass of xDSL.

    """

    merges: bool = True
    changes_in_place: bool = True

    def __init__(self, library_pass: XdslModulePass) -> None:
        self.info = PassInfo(0, f"{PREFIX}{library_pass.name}")
        self.library_pass = library_pass
        """The pass of xDSL."""
        self.cacheable = _is_cacheable(library_pass)
        self.version = f"xdsl {version('xdsl')}"

    def merged_with(self, following: Sequence[Pass[ModuleOp]]) -> Pass[ModuleOp] | None:
        """Return a pass on one copy; None if something looks at single passes."""
        return _merged([self, *following])

    async def transform(self, mod: ModuleOp, ctx: PassContext) -> ModuleOp:
        """Transform the functions; with other operations than symbols, the module.

        Raises:
            AdapterError: if `mod` is no module of xDSL, or the pass fails.
            VerifyError: if the result is invalid.

        """
        _check_module(self.info, mod)
        can_divide = is_divisible(mod)
        if can_divide and (self.is_observed() or self._executor(ctx) is not None):
            draft = take_draft(self)
            if draft is not None:
                # What looks at functions may keep them.
                draft.forget()
            return await super().transform(mod, ctx)
        # After any error, each function runs alone, and the one that fails raises its own.
        with suppress(Exception) if can_divide else nullcontext():
            result = _run_on_copy(self, [self], mod, ctx)
            return result if isinstance(result, ModuleOp) else await result
        return await super().transform(mod, ctx)

    def transform_function(self, func: Operation, mod: ModuleOp, ctx: PassContext) -> Operation:
        """Apply the pass to a private module of one function.

        Raises:
            AdapterError: if the pass fails.
            VerifyError: if the result is invalid.

        """
        name = function_name(func)
        private = module_of(mod, [name])
        _apply(self.library_pass, private, new_context())
        _verify(self.library_pass, private)
        result = ADAPTER.get(private, name)
        return func if same_contents(func, result) else result


class _MergedPass(ModulePass[ModuleOp]):
    """Consecutive passes of xDSL on one private copy."""

    def __init__(self, passes: Sequence[XdslPass | XdslFunctionPass]) -> None:
        self.info = PassInfo(0, ", ".join(pass_.info.name for pass_ in passes))
        self._passes = passes

    def transform_module(self, mod: ModuleOp, ctx: PassContext) -> ModuleOp | Awaitable[ModuleOp]:
        """Apply the passes in order, and verify the result of each."""
        return _run_on_copy(self, self._passes, mod, ctx)


def _merged(passes: Sequence[Pass[ModuleOp]]) -> _MergedPass | None:
    """Return one pass in place of several.

    None if there is a limit or an executor, or if it is recorded which of them changes the module.
    """
    if not can_merge_passes() or PassContext.current().executor is not None:
        return None
    own = [pass_ for pass_ in passes if isinstance(pass_, XdslPass | XdslFunctionPass) and pass_.executor is None]
    return _MergedPass(own) if len(own) == len(passes) else None


def _run_on_copy(
    owner: Pass[ModuleOp], passes: Sequence[XdslPass | XdslFunctionPass], mod: ModuleOp, ctx: PassContext
) -> ModuleOp | Awaitable[ModuleOp]:
    """Return a copy of `mod` that passes have changed, or `mod`.

    The copy may be the draft that is offered to `owner`.
    """
    _check_module(owner.info, mod)
    run = _Run(owner.info, passes, mod)
    draft = take_draft(owner)
    if draft is not None:
        offer_draft(run, draft)
    return run.transform_module(mod, ctx)


class _Run(InPlacePass[ModuleOp]):
    """One execution of consecutive passes of xDSL."""

    def __init__(self, info: PassInfo, passes: Sequence[XdslPass | XdslFunctionPass], original: ModuleOp) -> None:
        self.info = info
        self._passes = passes
        self._original = original
        self._context = new_context()
        # A pass over modules may change what a function refers to.
        self._is_by_function = all(isinstance(pass_, XdslFunctionPass) for pass_ in passes) and is_divisible(original)

    @property
    def keeps_input(self) -> bool:
        """True: the input is compared with the result, and is needed again after an error."""
        return True

    def transform_in_place(self, mod: ModuleOp, ctx: PassContext) -> bool | Awaitable[bool]:
        """Apply the passes to a private module.

        Raises:
            AdapterError: if a pass fails.
            VerifyError: if the result is invalid.

        """
        if self._is_by_function:
            return self._change_functions(mod)
        for pass_ in self._passes:
            is_skipping = isinstance(pass_, XdslFunctionPass)
            skipped = {name: copy_of(func) for name, func in functions_of(mod) if is_skipping and ADAPTER.skips(func)}
            _apply(pass_.library_pass, mod, self._context)
            replace_functions(mod, skipped)
            _verify(pass_.library_pass, mod)
        return not same_contents(self._original, mod)

    async def _change_functions(self, mod: ModuleOp) -> bool:
        changed = False
        for (_, original), (_, func) in zip(functions_of(self._original), list(functions_of(mod)), strict=True):
            if ADAPTER.skips(func):
                continue
            await yield_if_due()
            for pass_ in self._passes:
                with alone(mod, func) as part:
                    _apply(pass_.library_pass, part, self._context)
                # The verifier of a call looks for the callee in the module.
                _verify(pass_.library_pass, func)
            changed = changed or not same_contents(original, func)
        return changed


def _check_module(info: PassInfo, mod: object) -> None:
    """Raise AdapterError unless `mod` is a module of xDSL."""
    if not isinstance(mod, ModuleOp):
        kind = f"{type(mod).__module__}.{type(mod).__qualname__}"
        hint = "; convert it with xdsl.FromMLIR" if kind.endswith(".MLIRModule") else ""
        raise AdapterError(f"pass {info.name!r} takes a ModuleOp of xDSL, got {kind}{hint}")


def _apply(library_pass: XdslModulePass, mod: ModuleOp, context: Context) -> None:
    """Apply a pass of xDSL to a private module.

    A deprecated pass causes a FutureWarning.

    Raises:
        AdapterError: if the pass fails.

    """
    name = library_pass.name
    reason = getattr(library_pass, "__deprecated__", None)
    if reason is not None:
        # Python shows no DeprecationWarning outside of the main program.
        warnings.warn(f"pass {name} of xDSL: DeprecationWarning: {reason}", FutureWarning, stacklevel=2)
    try:
        library_pass.apply(context, mod)
    except RecursionError:
        raise AdapterError(f"pass {name} of xDSL failed: the regions of the module are nested too deeply") from None
    except Exception as error:
        message = f"pass {name} of xDSL failed with {type(error).__name__}:\n{full_message(error)}"
        raise AdapterError(message) from error
    for op in mod.walk():
        # test-specialised-constant-folding creates operations without calling their constructor.
        if not hasattr(op, "location"):
            op.location = UnknownLoc()


def _verify(library_pass: XdslModulePass, op: Operation) -> None:
    """Raise VerifyError if the result of a pass, a module or a function, is invalid."""
    if VERIFY.get():
        verify_module(op, f"the result of pass {library_pass.name} of xDSL is invalid")


def _is_cacheable(library_pass: XdslModulePass) -> bool:
    reads_file = any(field.name.endswith("_file") for field in fields(library_pass))
    return library_pass.name not in UNCACHEABLE and not reads_file
