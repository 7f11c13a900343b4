"""`VerifyInstrument`: verifies modules between passes."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, get_args

from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.instrument import pass_instrument
from apass.core.module_diff import changes_text
from apass.core.pass_info import PassInfo
from apass.core.run import current_run
from apass.errors import VerifyError
from apass.instruments.support.change_tracker import ChangeTracker

__all__ = ["VerifyInstrument", "VerifyWhen"]

VerifyWhen = Literal["changed", "always"]
"""When to verify: after each pass that returned another module, or after each pass."""


@pass_instrument
class VerifyInstrument:
    """Verifies the first input and each result; MLIR's `-verify-each`.

    The input of an outermost pass is verified before the pass, and the result of each pass after it. The IR defines the
    checks (`IRAdapter.verify`). If a result is not valid, its pass ends with a VerifyError, which
    names the pass and shows its changes.

    Parameters:
        when: `"changed"` checks after each pass that returned another module, `"always"` after each pass.

    Raises:
        ValueError: if `when` is neither.

    >>> import apass
    >>> Lose = apass.module_pass(lambda mod, ctx: {**mod, "f": None}, opt_level=0, name="Lose")
    >>> try:
    ...     apass.run(Lose, {"f": 8}, context=apass.PassContext(instruments=[VerifyInstrument()]))
    ... except apass.errors.VerifyError as error:
    ...     print(error)
    pass 'Lose' broke the module: function 'f' of a dict module is None
    changes:
    @@ -1 +1 @@ f
    -f: 8
    +f: None

    """

    def __init__(self, when: VerifyWhen = "changed") -> None:
        if when not in get_args(VerifyWhen):
            raise ValueError(f"when must be one of {', '.join(get_args(VerifyWhen))}, got {when!r}")
        self.when: Final = when
        """The `when` argument."""
        self._tracker = ChangeTracker()

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(VerifyInstrument, self.when)

    async def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the module, and verify it if the pass is an outermost one."""
        run = current_run()
        if run is None:
            return
        self._tracker.begin(run, mod)
        if run.parent is None:
            problem = await _problem(mod)
            if problem is not None:
                raise VerifyError(f"the input of pass {info.name!r} is not valid: {problem}") from problem

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Verify the result.

        Raises:
            VerifyError: if the result is not valid.

        """
        run = current_run()
        if run is None:
            return
        before = self._tracker.end(run, mod)
        if before is mod and self.when == "changed":
            return
        problem = await _problem(mod)
        if problem is None:
            return
        if before is mod:
            raise VerifyError(f"pass {info.name!r} returned its input, which is not valid: {problem}") from problem
        raise VerifyError(f"pass {info.name!r} broke the module: {problem}{changes_text(before, mod)}") from problem

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Forget the module."""
        run = current_run()
        if run is not None:
            self._tracker.fail(run)


async def _problem(mod: Any) -> VerifyError | None:
    """Return the error of a module that is not valid, or None."""
    adapter = adapter_for(mod)
    try:
        await (run_sync(adapter.verify, mod) if adapter.thread_safe else _verify(adapter, mod))
    except VerifyError as error:
        return error
    return None


async def _verify(adapter: Any, mod: Any) -> None:
    adapter.verify(mod)
