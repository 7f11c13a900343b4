"""How `relay.testing.run_opt_pass`, in a layer below, runs passes: importing this tells it."""

from typing import cast

from apass.passes.base import Pass
from apass.relay.ir.module import IRModule
from apass.relay.testing.tools import Work, set_pass_runner
from apass.sync import run

__all__ = ["run_on"]


def run_on(work: Work, mod: IRModule) -> IRModule:
    """Return what a pass, or a plain function from module to module, makes of a module.

    Raises:
        TypeError: if it is neither.

    """
    if isinstance(work, Pass):
        return run(cast("Pass[IRModule]", work), mod)
    made = work(mod)
    if isinstance(made, IRModule):
        return made
    raise TypeError(
        f"{work!r} returned {made!r}, and no module; give a pass, or a plain function from module to module"
    )


set_pass_runner(run_on)
