"""`PassContext`: the configuration that passes run under, current in a task and in the tasks started from it."""

import warnings
from collections.abc import Hashable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar, final

import anyio
from anyio.lowlevel import RunVar

from apass.concurrency.coroutines import is_awaitable
from apass.concurrency.scheduler import Gate
from apass.concurrency.shielding import Call, call_to_the_end, combine
from apass.core.analysis import Analysis
from apass.core.analysis_manager import Analyses
from apass.core.config import Config, list_configs, make_config
from apass.core.deadline import Budget, tighter
from apass.core.diagnostics import DiagnosticContext
from apass.core.executor import ExecutorChoice, check_executor
from apass.core.instrument import Hooks, find_hook, instrument_name
from apass.core.pass_factories import known_names, load_providers
from apass.core.remarks import Remark
from apass.core.run import current_run
from apass.core.store import ForgivingStore, Store
from apass.errors import PassContextError, UnmatchedPassNameWarning, did_you_mean
from apass.util.checks import is_count, is_seconds

__all__ = ["PassContext", "Scope", "current_scope"]


R = TypeVar("R")


@final
class PassContext:
    """What passes run under: optimization level, enabled and disabled passes, instruments, options, limits.

    Use it with `async with`; within, `PassContext.current()` returns it, in this task and in the tasks started from it.
    One object may be entered by many tasks at once, nested and again. Source: TVM's `PassContext`.

    Parameters and their defaults:
        opt_level: a Sequential runs the passes of this level and below (2).
        required_pass: names that a Sequential runs whatever their level, and that `should_run` is not asked about.
        disabled_pass: names that a Sequential does not run; this one wins over `required_pass`.
        instruments: objects with hooks, called in this order (see `PassInstrument`).
        config: options by key, each registered with `register_config_option`.
        diag_ctx: where passes leave diagnostics (a new `DiagnosticContext`).
        max_concurrency: bodies of function passes in flight in this context beside the callers themselves (256); None
            is no limit.
        exit_grace: seconds that exit and failure hooks have once a cancellation has come (10).
        deadline: seconds that everything beneath has from when the context is entered; of nested contexts the earlier
            end counts. What is over fails with BudgetExceededError (None, no limit).
        executor: where plain bodies of function passes run: `"inline"`, `"thread"`, `"process"`, `"interpreter"` or an
            `Executor` (None, in the thread of the event loop).
        store: where persistent analyses, and passes that are `cacheable`, keep results beyond the context (None).
            One that fails costs a StoreWarning, and what it would have kept is worked out.
        strict: whether what passes claim to preserve of analyses is computed anew and compared (False).

    Raises:
        TypeError: if a value is of the wrong type, or an instrument has a misspelt hook.
        UnknownConfigError, ConfigTypeError: if `config` does not fit what is registered.

    >>> async def main():
    ...     async with PassContext(opt_level=3, max_concurrency=8) as ctx:
    ...         return PassContext.current() is ctx, ctx.opt_level
    >>> anyio.run(main)
    (True, 3)

    """

    __slots__ = (
        "analyses",
        "config",
        "deadline",
        "diag_ctx",
        "disabled_pass",
        "executor",
        "exit_grace",
        "gate",
        "hooks",
        "max_concurrency",
        "may_be_limited",
        "opt_level",
        "required_pass",
        "results",
        "store",
    )

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[object] | None = None,
        config: Mapping[str, object] | None = None,
        *,
        diag_ctx: DiagnosticContext | None = None,
        max_concurrency: int | None = 256,
        exit_grace: float = 10.0,
        executor: ExecutorChoice = None,
        deadline: float | None = None,
        store: Store | None = None,
        strict: bool = False,
    ) -> None:
        if isinstance(opt_level, bool) or not isinstance(opt_level, int):
            raise TypeError(f"opt_level must be an int, not {opt_level!r}")
        if max_concurrency is not None and not is_count(max_concurrency):
            raise ValueError(
                f"max_concurrency must be an int of at least 1, or None for no limit; not {max_concurrency!r}"
            )
        if exit_grace != 0 and not is_seconds(exit_grace):
            raise ValueError(f"exit_grace must be a number of seconds, 0 or more; not {exit_grace!r}")
        if deadline is not None and not is_seconds(deadline):
            raise ValueError(f"deadline must be a number of seconds above 0, or None for no limit; not {deadline!r}")
        if diag_ctx is not None and not isinstance(diag_ctx, DiagnosticContext):
            raise TypeError(f"diag_ctx must be a DiagnosticContext, not {diag_ctx!r}")
        if not isinstance(strict, bool):
            raise TypeError(f"strict must be True or False, not {strict!r}")
        self.opt_level: Final = opt_level
        """A Sequential runs the passes of this level and below."""
        self.required_pass: Final = _names("required_pass", required_pass)
        """Names of passes that a Sequential runs whatever their level."""
        self.disabled_pass: Final = _names("disabled_pass", disabled_pass)
        """Names of passes that a Sequential leaves out."""
        self.config: Final[Config] = make_config(config)
        """The options: `ctx.config[key]` is what was given for `key`, else its registered default."""
        self.diag_ctx: Final = DiagnosticContext() if diag_ctx is None else diag_ctx
        """Where passes leave errors, warnings and notes."""
        self.max_concurrency: Final = max_concurrency
        """Bodies in flight beside the callers themselves; None is no limit."""
        self.exit_grace: Final = exit_grace
        """Seconds that exit and failure hooks have once a cancellation has come."""
        self.executor: Final = check_executor("PassContext", executor)
        """Where the plain bodies of function passes run that do not say themselves; None is in the loop's thread."""
        self.deadline: Final = deadline
        """Seconds that everything beneath has from when the context is entered; None is no limit."""
        self.may_be_limited = deadline is not None
        """Whether a budget may be in force beneath it, its own or one around it; for the runner, who then looks."""
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"store must be a Store, such as apass.stores.SqliteStore(path), not {store!r}")
        self.store: Final = store
        """Where results are kept beyond the context; None is nowhere."""
        self.results: Final = None if store is None else ForgivingStore(store)
        """The store, which may fail without the work failing; for the runner."""
        self.analyses: Final = Analyses(store=self.results, strict=strict)
        """The results of analyses that passes asked for."""
        self.hooks = Hooks.of(_instruments(instruments))
        """The hooks of the instruments in force; for the runner."""
        self.gate: Final = Gate(max_concurrency)
        """The slots that the context's function bodies share; for the runner."""

    @property
    def instruments(self) -> tuple[object, ...]:
        """The instruments in force: those given, or set by `override_instruments`; none after one has failed."""
        return self.hooks.instruments

    @staticmethod
    def current() -> "PassContext":
        """Return the context that is current in this task; where none was entered, a default one of the task tree."""
        return current_scope().ctx

    @staticmethod
    def time_left() -> float:
        """Return the seconds left of the deadlines that this task works under; infinite where there is none.

        >>> async def main():
        ...     async with PassContext(deadline=5), PassContext(deadline=60):
        ...         return PassContext.time_left() <= 5
        >>> anyio.run(main), PassContext.time_left()
        (True, inf)
        """
        budget = current_scope().budget
        return float("inf") if budget is None else budget.left()

    @staticmethod
    def list_configs() -> Mapping[str, Mapping[str, Any]]:
        """Return every registered config option: its key to its `type`, `default` and `doc`."""
        return list_configs()

    async def get(self, analysis: Analysis[R], x: object, /, **options: Hashable) -> R:
        """Return what an analysis says about a function or a module, computed if it is not known for equal contents.

        Who asks the same at once shares one computation: one asker's cancellation does not fail the others, and an
        error, which all get, is not kept.

        Raises:
            AnalysisError: if an option cannot be hashed, or the analysis asks its way back to itself.
            Exception: what the analysis raised.

        """
        if not self.hooks.waits:
            return await self.analyses.get(analysis, x, self, options)
        with self.hooks.waiting(current_run(), f"the analysis {analysis.name}"):
            return await self.analyses.get(analysis, x, self, options)

    def got(self, analysis: Analysis[R], x: object, /, **options: Hashable) -> R:
        """Return, without waiting, what a pass's `required` names or was asked before; AnalysisError if it was not."""
        return self.analyses.got(analysis, x, options)

    def statistic(self, name: str, amount: float = 1) -> None:
        """Count `amount` more of what `name` says, for the pass at work; nothing where no instrument counts.

        >>> PassContext().statistic("folded", 3)
        """
        if self.hooks.statistics:
            run = current_run()
            for hook in self.hooks.statistics:
                hook(run, name, amount)

    def remark(self, remark: Remark) -> None:
        """Say something about what the pass at work did, did not do or found out; nothing where no instrument listens.

        >>> PassContext().remark(Remark.passed("Folded", "folded 3 calls", count=3))
        """
        if self.hooks.remarks:
            made = remark.made_by(current_run())
            for hook in self.hooks.remarks:
                hook(made)

    async def override_instruments(self, instruments: Iterable[object] | None) -> None:
        """Leave the instruments in force (in order), put `instruments` in their place and enter those.

        Passes already running use the new ones for their later hooks. Errors are those of entering and of leaving.
        """
        new = Hooks.of(_instruments(instruments))
        await self._exit_instruments(cancelled=False)
        self.hooks = new
        try:
            await self._enter_instruments()
        except BaseException:
            # The context stays current, and leaving it must not leave what was not entered.
            self.hooks = _NO_HOOKS
            raise

    async def __aenter__(self) -> Self:
        await self._enter_instruments()
        parent = _SCOPE.get()
        own = None if self.deadline is None else Budget.from_now(self.deadline)
        budget = own if parent is None else tighter(own, parent.budget)
        self.may_be_limited = self.may_be_limited or budget is not None
        _SCOPE.set(Scope(self, parent, anyio.get_current_task().id, budget))
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        scope = _SCOPE.get()
        if scope is None or scope.ctx is not self or scope.task != anyio.get_current_task().id:
            raise PassContextError(_out_of_order(self, scope))
        _SCOPE.set(scope.parent)
        await self._exit_instruments(cancelled=isinstance(exc, anyio.get_cancelled_exc_class()))
        if exc is None:
            scope.warn_unmatched()

    def __enter__(self) -> NoReturn:
        raise PassContextError("a PassContext may wait for its instruments: write `async with PassContext(...)`")

    def __exit__(self, *exc_info: object) -> None:
        """Never reached: `__enter__` raises. Python looks it up before it calls `__enter__`."""

    def __repr__(self) -> str:
        shown = [f"opt_level={self.opt_level}"]
        shown += [
            f"{name}={sorted(names)}" for name in ("required_pass", "disabled_pass") if (names := getattr(self, name))
        ]
        if self.instruments:
            shown.append(f"instruments=[{', '.join(map(instrument_name, self.instruments))}]")
        if self.config:
            shown.append(f"config={dict(self.config)}")
        return f"PassContext({', '.join(shown)})"

    async def _enter_instruments(self) -> None:
        entered: list[object] = []
        try:
            for instrument in self.instruments:
                hook = find_hook(instrument, "enter_pass_ctx")
                outcome: Any = None if hook is None else hook()
                if is_awaitable(outcome):
                    await outcome
                entered.append(instrument)
        except BaseException as error:
            await self._undo_entering(entered, error)
            raise

    async def _undo_entering(self, entered: list[object], error: BaseException) -> None:
        cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        if not cancelled:
            # A cancelled task says nothing against the instruments; the context can be entered again.
            self.hooks = _NO_HOOKS
        errors = await call_to_the_end(_exits(reversed(entered)), grace=self.exit_grace, cancelled=cancelled)
        if errors:
            every = errors if cancelled else [error, *errors]
            message = "entering a PassContext failed, and so did leaving the instruments already entered"
            raise combine(message, every) from (error if cancelled else None)

    async def _exit_instruments(self, *, cancelled: bool) -> None:
        exits = _exits(self.instruments)
        errors = await call_to_the_end(exits, grace=self.exit_grace, cancelled=cancelled, stop_at_error=True)
        if errors:
            self.hooks = _NO_HOOKS
            raise errors[0]


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One entry of a context: a link of the chain that the ContextVar holds, so that a task's entries stay its own."""

    ctx: PassContext
    """The context that is current."""
    parent: "Scope | None"
    """What becomes current again when this one is left."""
    task: int | None = None
    """The id of the task that entered it; None for a default context, which nobody enters."""
    budget: Budget | None = None
    """The seconds that everything in it has: what is left of the context's own deadline, or of one around it."""
    met: set[str] = field(default_factory=set[str])
    """Names of the passes met in it; written only where the context names passes to require or disable."""

    def meet(self, name: str) -> None:
        """Note that a pass of that name was met, for `warn_unmatched`."""
        if self.ctx.disabled_pass or self.ctx.required_pass:
            self.met.add(name)

    def warn_unmatched(self) -> None:
        """Warn of every name in `disabled_pass` and `required_pass` that matched nothing and is not registered."""
        named = {"disabled_pass": self.ctx.disabled_pass, "required_pass": self.ctx.required_pass}
        if not frozenset().union(*named.values()) <= {*self.met, *known_names()}:
            load_providers()  # a pass of apass is registered, imported or not
        for parameter, names in named.items():
            for name in sorted(names - self.met - set(known_names())):
                near = did_you_mean(name, {*known_names(), *self.met})
                message = f"{parameter} names {name!r}, but no pass of that name ran or is registered{near}"
                warnings.warn(message, UnmatchedPassNameWarning, stacklevel=3)


_NO_HOOKS: Final = Hooks.of(())
_SCOPE: ContextVar[Scope | None] = ContextVar("apass_scope", default=None)
_DEFAULT_SCOPE: RunVar[Scope] = RunVar("apass_default_scope")


def current_scope() -> Scope:
    """Return the scope of this task; where no context was entered, the default one of the event loop's task tree."""
    scope = _SCOPE.get()
    if scope is None:
        scope = _default_scope()
        # For worker threads that this task starts: they inherit contextvars, and have no event loop to ask.
        _SCOPE.set(scope)
    return scope


def _default_scope() -> Scope:
    try:
        return _DEFAULT_SCOPE.get()
    except LookupError:
        _DEFAULT_SCOPE.set(Scope(PassContext(), None))
        return _DEFAULT_SCOPE.get()
    except RuntimeError:  # outside of any event loop
        return Scope(PassContext(), None)


def _names(parameter: str, names: Iterable[str] | None) -> frozenset[str]:
    if isinstance(names, str) or not isinstance(names, Iterable | None):
        what = "the string " if isinstance(names, str) else ""
        raise TypeError(f"{parameter} must be a list or set of names, not {what}{names!r}")
    given = frozenset(names or ())
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{parameter} must hold names of passes, not {name!r}")
    return given


def _instruments(instruments: Iterable[object] | None) -> Iterable[object]:
    if instruments is not None and not isinstance(instruments, Iterable):
        raise TypeError(f"instruments must be a list of instruments, not {instruments!r}")
    return instruments or ()


def _exits(instruments: Iterable[object]) -> list[Call]:
    found = ((one, find_hook(one, "exit_pass_ctx")) for one in instruments)
    return [(f"exit_pass_ctx of instrument {instrument_name(one)!r}", hook) for one, hook in found if hook is not None]


def _out_of_order(ctx: PassContext, scope: Scope | None) -> str:
    above = None if scope is None else scope.parent
    while above is not None and above.ctx is not ctx:
        above = above.parent
    if scope is None or scope.ctx is ctx or above is None:
        return f"{ctx!r} was left in a task that had not entered it; leave a context in the task that entered it"
    return f"{ctx!r} was left while {scope.ctx!r} is current; leave contexts in the reverse of the order of entering"
