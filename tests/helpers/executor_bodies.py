"""Passes whose bodies run in an executor."""

from typing import Any

from apass import Pass, PassContext, module_pass
from apass.core.run import current_run
from apass.executors import Executor
from apass.runner.fan_out import FunctionBatch, run_concurrently
from tests.helpers.context_state import state_of

Module = dict[str, Any]


def with_bodies_in(pass_: Pass[Module], executor: Executor) -> Pass[Module]:
    """Return a pass that runs the bodies of `pass_` in an executor."""

    @module_pass(opt_level=0)
    async def BodiesInExecutor(mod: Module, ctx: PassContext) -> Module:
        run = current_run()
        assert run is not None
        async with executor.bodies(pass_, mod, ctx) as body:
            batch = FunctionBatch(run, list(mod), list(mod.values()), mod, ctx, state_of(ctx).scheduler)
            changed = await run_concurrently(body, batch)
        return {**mod, **changed}

    return BodiesInExecutor
