"""`Alternatives`, the base of `First` and `Race`."""

from collections.abc import Mapping, Sequence

from apass.concurrency.shielding import flatten_errors
from apass.core.adapter import ModT
from apass.core.context import PassContext, current_scope
from apass.core.failures import note_failure
from apass.errors import BudgetExceededError
from apass.passes.base import Pass, is_enabled
from apass.passes.combinator import Combinator
from apass.passes.sequential import Sequential
from apass.util.text import text_of_error

__all__ = ["Alternatives"]


class Alternatives(Combinator[ModT]):
    """Passes that each take the same module, and one of which gives the result.

    For example, `First([Exact(), Fast()])` takes the result of `Fast` only if `Exact` fails.

    Failed alternatives are given as a mapping from their index among the enabled ones to the error.
    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        options: Mapping[str, object],
        opt_level: int,
        name: str,
        required: Sequence[str] | None,
    ) -> None:
        super().__init__(passes, options, opt_level, name, required)
        self._alternatives = [Sequential([pass_]) for pass_ in self.passes]

    def branches(self) -> Sequence[Sequence[Pass[ModT]]]:
        """Return a list for each alternative."""
        return [(pass_,) for pass_ in self.passes]

    def enabled(self, ctx: PassContext) -> list[Sequential[ModT]]:
        """Return the alternatives that take part, each as a Sequential of one pass.

        They are those that a Sequential would run.
        """
        scope = current_scope()
        for pass_ in self.passes:
            scope.record_pass(pass_)
        return [alternative for alternative in self._alternatives if is_enabled(alternative.passes[0], ctx)]

    def warn(self, ctx: PassContext, entrants: Sequence[Pass[ModT]], failures: Mapping[int, BaseException]) -> None:
        """Emit a warning for each failed alternative that another one replaces."""
        if failures:
            note_failure()
        for index, error in sorted(failures.items()):
            reason = f"{type(error).__name__}: {text_of_error(error)}"
            message = f"pass {self.info.name!r} ignored its failed alternative {_name(entrants[index])!r}: {reason}"
            ctx.diag_ctx.warning(message)

    def combined_error(self, failures: Mapping[int, BaseException]) -> BaseException:
        """Return the error to raise if every alternative failed."""
        errors = [failures[index] for index in sorted(failures)]
        late = next((error for error in errors if isinstance(error, BudgetExceededError)), None)
        if late is not None:
            # It is the deadline of the context, so there is one error, as without alternatives.
            for error in errors:
                if not isinstance(error, BudgetExceededError):
                    late.add_note(f"another alternative raised {type(error).__name__}: {text_of_error(error)}")
            return late
        exceptions = [error for error in errors if isinstance(error, Exception)]
        return flatten_errors(f"every alternative of pass {self.info.name!r} failed", exceptions or errors[:1])


def _name(alternative: Pass[ModT]) -> str:
    return alternative.children()[0].info.name
