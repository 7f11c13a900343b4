"""Pass runner of `relay.testing.run_opt_pass`, registered on import.

Within Relay, only `relay.transform` and `relay.integration` know the runner, so `relay.testing` cannot import it.
"""

from typing import cast

from apass.passes.base import Pass
from apass.relay.ir.module import IRModule
from apass.relay.testing.tools import ModuleTransform, set_pass_runner
from apass.sync import run

__all__ = ["run_on"]


def run_on(work: ModuleTransform, mod: IRModule) -> IRModule:
    """Return the result of a pass, or of a plain function from module to module.

    Raises:
        TypeError: if the function returns anything but a module.

    """
    if isinstance(work, Pass):
        return run(cast("Pass[IRModule]", work), mod)
    result = work(mod)
    if isinstance(result, IRModule):
        return result
    raise TypeError(
        f"{work!r} returned {result!r}, expected an IRModule; use a pass, or a function from module to module"
    )


set_pass_runner(run_on)
