"""`RecordingInstrument` and `assert_trace`: the calls of hooks, as lines of text."""

from collections.abc import Collection, Iterable
from inspect import cleandoc
from typing import Any, Final

from apass.core.instrument import HOOKS, pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.run import Run
from apass.core.tracebacks import hidden_assertion
from apass.errors import did_you_mean
from apass.util.text_diff import diff_texts

__all__ = ["FUNCTION_HOOKS", "PASS_HOOKS", "RecordingInstrument", "assert_trace"]

__tracebackhide__ = hidden_assertion

PASS_HOOKS: Final = tuple(
    name
    for name in HOOKS
    # `run_around_pass` changes how a pass runs.
    if name != "run_around_pass" and (name.endswith("_ctx") or "info" in HOOKS[name])
)
"""The hooks of contexts and of passes."""
FUNCTION_HOOKS: Final = ("run_before_function", "run_after_function", "run_after_function_failed")
"""The hooks around the bodies of function passes."""


@pass_instrument
class RecordingInstrument:
    """An instrument that records the calls of its hooks, in order.

    `log` holds a line for each call: the hook, the pass and, if there is one, the function. It can also skip passes and
    fail, so that you can test how other code reacts.

    Parameters:
        name: begins each line, with a dot; for several instruments that share a log.
        log: the list to append to (a new one).
        fails: the lines, without the name, whose hooks raise a ValueError: `"run_before_pass Fold"`.
        skips: the names of the passes for which `should_run` returns False.
        hooks: the names of the hooks to record (`PASS_HOOKS`). Add `FUNCTION_HOOKS` for the bodies of functions, whose
            order depends on the bodies.

    >>> import anyio, apass
    >>> Keep = apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Keep")
    >>> recorder = RecordingInstrument(hooks=["run_before_pass", "run_after_pass"])
    >>> apass.testing.run_pass(Keep, {}, instruments=[recorder])
    {}
    >>> recorder.log
    ['run_before_pass Keep', 'run_after_pass Keep']

    """

    def __init__(
        self,
        name: str = "",
        log: list[str] | None = None,
        fails: Collection[str] = (),
        skips: Collection[str] = (),
        *,
        hooks: Iterable[str] = PASS_HOOKS,
    ) -> None:
        self.name = name
        self.log: list[str] = [] if log is None else log
        self.fails = (fails,) if isinstance(fails, str) else fails
        self.skips = (skips,) if isinstance(skips, str) else skips
        recorded = set(hooks)
        known = {*PASS_HOOKS, *FUNCTION_HOOKS}
        if unknown := recorded - known:
            raise ValueError(f"hooks must be some of {sorted(known)}, got {sorted(unknown)}")
        # The runner does not call a hook that is None.
        vars(self).update(dict.fromkeys(known - recorded))
        for line in self.fails:
            hook, _, subject = line.partition(" ")
            if hook not in recorded:
                hint = did_you_mean(hook, recorded, listing="expected one of ")
                raise ValueError(f"fails has {line!r}, but no hook {hook!r} is recorded{hint}")
            if bool(subject) == hook.endswith("_pass_ctx"):
                takes = "no pass" if subject else "the name of a pass after it"
                raise ValueError(f"fails has {line!r}, but the line of {hook} has {takes}; write the line as in `log`")

    def record(self, text: str, answer: bool | None = None) -> Any:
        """Append a line, and return `answer`; a subclass may return an awaitable of it.

        Raises:
            ValueError: if the line is one of `fails`.

        """
        line = f"{self.name}.{text}" if self.name else text
        self.log.append(line)
        if text in self.fails:
            raise ValueError(line)
        return answer

    def enter_pass_ctx(self) -> Any:
        """Record the entry to a context."""
        return self.record("enter_pass_ctx")

    def exit_pass_ctx(self) -> Any:
        """Record the exit from a context."""
        return self.record("exit_pass_ctx")

    def should_run(self, mod: Any, info: PassInfo) -> Any:
        """Record the question, and answer it by `skips`."""
        return self.record(f"should_run {info.name}", info.name not in self.skips)

    def run_before_pass(self, mod: Any, info: PassInfo) -> Any:
        """Record the start of a pass."""
        return self.record(f"run_before_pass {info.name}")

    def run_after_pass(self, mod: Any, info: PassInfo) -> Any:
        """Record the end of a pass."""
        return self.record(f"run_after_pass {info.name}")

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> Any:
        """Record the failure or the cancellation of a pass."""
        return self.record(f"run_after_pass_failed {info.name}")

    def run_before_function(self, func: Any, run: Run) -> None:
        """Record the start of a body."""
        self.record(f"run_before_function {run.info.name} {run.function}")

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Record the end of a body."""
        self.record(f"run_after_function {run.info.name} {run.function}")

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Record the failure or the cancellation of a body."""
        self.record(f"run_after_function_failed {run.info.name} {run.function}")


def assert_trace(trace: RecordingInstrument | Iterable[str], expected: str | Iterable[str]) -> None:
    """Assert that a whole trace is as expected.

    Parameters:
        trace: an instrument, or its lines.
        expected: the lines; a text is split into lines without its indentation.

    Raises:
        AssertionError: if they differ; the message is a diff of the whole traces.

    >>> assert_trace(["enter_pass_ctx", "exit_pass_ctx"], "enter_pass_ctx")
    Traceback (most recent call last):
        ...
    AssertionError: the trace is not as expected
    --- expected
    +++ actual
    @@ -1 +1,2 @@
     enter_pass_ctx
    +exit_pass_ctx

    """
    actual = trace.log if isinstance(trace, RecordingInstrument) else list(trace)
    lines = cleandoc(expected).splitlines() if isinstance(expected, str) else list(expected)
    if actual != lines:
        diff = diff_texts("\n".join(lines), "\n".join(actual), context=len(actual) + len(lines))
        raise AssertionError(f"the trace is not as expected\n--- expected\n+++ actual\n{diff}")
