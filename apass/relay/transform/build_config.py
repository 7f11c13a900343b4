"""`build_config`: TVM's older name for a `PassContext`."""

import warnings
from collections.abc import Callable, Iterable

from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.relay.ir.module import IRModule

__all__ = ["build_config"]


class _Trace:
    """Instrument that calls a function before and after each pass."""

    def __init__(self, trace: Callable[[IRModule, PassInfo, bool], object]) -> None:
        self._trace = trace

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Call the function with True."""
        self._trace(mod, info, True)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Call the function with False."""
        self._trace(mod, info, False)


def build_config(
    opt_level: int = 2,
    required_pass: Iterable[str] | None = None,
    disabled_pass: Iterable[str] | None = None,
    trace: Callable[[IRModule, PassInfo, bool], object] | None = None,
) -> PassContext:
    """Return a `PassContext`, with a DeprecationWarning as in TVM.

    Parameters:
        opt_level: the level of the context.
        required_pass: the names of passes that run at any level.
        disabled_pass: the names of passes that do not run.
        trace: called with the module, the pass, and whether the pass has yet to run.

    """
    warnings.warn("relay.build_config is deprecated; use apass.PassContext", DeprecationWarning, stacklevel=2)
    instruments = None if trace is None else [_Trace(trace)]
    return PassContext(opt_level, required_pass, disabled_pass, instruments)
