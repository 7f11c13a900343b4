"""`VerifyInstrument`: checks modules between passes, so that the pass that broke one is named and not a later one."""

from typing import Any, Final, Literal, get_args

from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.run import current_run
from apass.errors import VerifyError
from apass.instruments.support.change_tracker import ChangeTracker
from apass.util.text_diff import diff_texts

__all__ = ["VerifyInstrument", "VerifyWhen"]

VerifyWhen = Literal["changed", "always"]
"""When to verify: after each pass that returned another module, or after each pass."""

_MOST_LINES: Final = 60
"""How much of a diff goes into a message."""


@pass_instrument
class VerifyInstrument:
    """Verifies the module that the outermost pass gets, and what each pass returns; MLIR's `-verify-each`.

    What is checked is up to the IR (`IRAdapter.verify`). A module that is not valid ends its pass with a VerifyError
    that names the pass that broke it and shows what it changed.

    Parameters:
        when: `"changed"` checks after each pass that returned another module, `"always"` after each pass.

    Raises:
        ValueError: if `when` is neither.

    >>> import apass
    >>> Lose = apass.module_pass(lambda mod, ctx: {**mod, "f": None}, opt_level=0, name="Lose")
    >>> try:
    ...     apass.run(Lose, {"f": 8}, context=apass.PassContext(instruments=[VerifyInstrument()]))
    ... except apass.VerifyError as error:
    ...     print(error)
    pass 'Lose' broke the module: function 'f' of a dict module is None
    what it changed:
    @@ -1 +1 @@
    -f: 8
    +f: None

    """

    def __init__(self, when: VerifyWhen = "changed") -> None:
        if when not in get_args(VerifyWhen):
            raise ValueError(f"when must be one of {', '.join(get_args(VerifyWhen))}, not {when!r}")
        self.when: Final = when
        """When to verify."""
        self._tracker = ChangeTracker()

    async def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Note the module; verify it if the pass is an outermost one."""
        run = current_run()
        if run is None:
            return
        self._tracker.begin(run, mod)
        if run.parent is None:
            problem = await _problem(mod)
            if problem is not None:
                raise VerifyError(f"pass {info.name!r} was given a module that is not valid: {problem}") from problem

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Verify the module."""
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
            raise VerifyError(f"the module that pass {info.name!r} left as it was is not valid: {problem}") from problem
        raise VerifyError(f"pass {info.name!r} broke the module: {problem}{_changes(before, mod)}") from problem

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Forget the module."""
        run = current_run()
        if run is not None:
            self._tracker.fail(run)


async def _problem(mod: Any) -> VerifyError | None:
    """Return what is wrong with a module, None if it is valid."""
    adapter = adapter_for(mod)
    try:
        await (run_sync(adapter.verify, mod) if adapter.thread_safe else _verify(adapter, mod))
    except VerifyError as error:
        return error
    return None


async def _verify(adapter: Any, mod: Any) -> None:
    adapter.verify(mod)


def _changes(before: Any, after: Any) -> str:
    """Return what changed, as the end of a message; nothing if a broken module has no text."""
    try:
        diff = diff_texts(adapter_for(before).to_text(before), adapter_for(after).to_text(after), limit=_MOST_LINES)
    except Exception as error:
        return f"\nit cannot be shown: {type(error).__name__}: {error}"
    return f"\nwhat it changed:\n{diff}" if diff else ""
