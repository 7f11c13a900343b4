"""`First`: takes the result of the first pass that succeeds."""

from collections.abc import Sequence
from typing import Any, Final

from apass.core.adapter import ModT
from apass.core.context import PassContext, current_scope
from apass.core.position import in_branch
from apass.errors import PassDefinitionError, UnknownAnswerError
from apass.passes.alternatives import Alternatives
from apass.passes.base import Pass
from apass.runner.changes import tentative_changes
from apass.runner.error_policy import with_limits
from apass.util.checks import is_seconds

__all__ = ["First"]


class First(Alternatives[ModT]):
    """Alternative passes of which the first that succeeds gives the result.

    The alternatives run one after the other, each on the same module, until one raises no error. Each error becomes a
    warning in `ctx.diag_ctx`. If all fail, the First raises the error, or one flat group of several. If the deadline of
    the context is over, no further alternative runs. A `Race` runs its alternatives concurrently instead. Source: the
    `transform.alternatives` of MLIR.

    Alternatives that a Sequential would not run, by level or `disabled_pass`, do not take part. If there are no others,
    the module is returned unchanged.

    Parameters:
        passes: the alternatives, in order; use a Sequential for an alternative of several passes.
        timeout: seconds for each alternative, which fails if it takes longer; None is no limit.
        opt_level: the level of the First itself as an element of a Sequential.
        name: its name.
        required: the passes that it requires as an element of a Sequential.

    >>> import anyio
    >>> from apass.passes.decorators import module_pass
    >>> exact = module_pass(lambda mod, ctx: {"f": 12 // mod["f"]}, opt_level=0, name="Exact")
    >>> clear = module_pass(lambda mod, ctx: {"f": 0}, opt_level=0, name="Clear")
    >>> anyio.run(First([exact, clear]), {"f": 4}), anyio.run(First([exact, clear]), {"f": 0})
    ({'f': 3}, {'f': 0})

    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        timeout: float | None = None,
        opt_level: int = 0,
        name: str = "First",
        required: Sequence[str] | None = None,
    ) -> None:
        if timeout is not None and not is_seconds(timeout):
            raise PassDefinitionError(f"timeout must be a number of seconds above 0 or None, got {timeout!r}")
        super().__init__(passes, {} if timeout is None else {"timeout": timeout}, opt_level, name, required)
        self.timeout: Final = timeout
        """Seconds for each alternative; None is no limit."""

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the alternatives until one succeeds, and return its result."""
        deadline = current_scope().deadline
        entrants = self.enabled(ctx)
        failures: dict[int, BaseException] = {}
        try:
            for index, alternative in enumerate(entrants):
                work = with_limits(alternative.transform, alternative.passes[0].info.name, self.timeout, deadline)
                try:
                    with in_branch(str(index + 1)), tentative_changes() as changes:
                        result: Any = await work(mod, ctx)
                        changes.accept()
                except UnknownAnswerError:
                    # In the run that a replay repeats, the alternative may have succeeded.
                    raise
                except Exception as error:
                    failures[index] = error
                    if deadline is not None and not deadline.left():
                        break
                    continue
                self.warn(ctx, entrants, failures)
                new: ModT = result
                return new
            if failures:
                raise self.combined_error(failures)
            return mod
        finally:
            # The tracebacks of the errors refer to this frame: a reference cycle that would keep the modules alive.
            failures.clear()
