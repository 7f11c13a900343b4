"""`ActivityHooks`: the hooks that record what runs and what waits."""

from typing import Any, Final

from apass.core.run import Run
from apass.instruments.support.activity import Activity

__all__ = ["ActivityHooks"]

_HOOKS: Final = (
    "run_after_step",
    "run_after_function_step",
    "run_before_function",
    "run_after_function",
    "run_after_function_failed",
    "on_wait",
)
"""The hooks that record what runs and what waits."""


class ActivityHooks:
    """Base of an instrument that knows what runs and what waits.

    A subclass reports the begin and the end of passes to `activity`.

    Parameters:
        is_recorded: whether steps, bodies and waits are recorded.

    """

    def __init__(self, *, is_recorded: bool) -> None:
        self.activity: Final = Activity()
        """The passes and bodies that run or wait, if they are recorded."""
        if not is_recorded:
            # The runner does not call a hook that is None.
            vars(self).update(dict.fromkeys(_HOOKS))

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Record that a pass yields to the event loop."""
        self.activity.step(run, start, end)

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Record that a body yields to the event loop."""
        self.activity.step(run, start, end)

    def run_before_function(self, func: Any, run: Run) -> None:
        """Record that a body begins."""
        self.activity.begin(run)

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Record that a body has ended."""
        self.activity.end(run, failed=False)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Record that a body has failed."""
        self.activity.end(run, failed=True)

    def on_wait(self, run: Run | None, what: str, is_over: bool) -> None:
        """Record what a pass or a body waits for."""
        if run is not None:
            self.activity.wait(run, what, is_over)
