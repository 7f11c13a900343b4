"""`PassContext`: the configuration that passes run under."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Hashable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from types import MappingProxyType, TracebackType
from typing import Any, Final, NoReturn, Self, TypeAlias, TypedDict, TypeVar, Unpack, cast, final

import anyio
from anyio.lowlevel import RunVar

from apass.concurrency.coroutines import await_once
from apass.concurrency.measuring import Measurement, MeasurementLane
from apass.concurrency.run_locals import RunLocal
from apass.core.adapter import never_modules
from apass.core.analysis import Analysis
from apass.core.analysis_manager import AnalysisManager
from apass.core.config import Config, ConfigValues, list_configs, make_config
from apass.core.context_hooks import enter_instruments, exit_instruments, replace_instruments
from apass.core.deadline import Deadline, earlier
from apass.core.diagnostic_context import DiagnosticContext
from apass.core.displayed import Displayed
from apass.core.executor import ExecutorChoice, check_executor
from apass.core.failures import note_failure
from apass.core.hooks import NO_HOOKS, Hooks, answer_of_should_run, mark_used, with_companions
from apass.core.instrument import instrument_name
from apass.core.pass_info import PassInfo
from apass.core.questions import answer_to
from apass.core.remarks import Remark
from apass.core.run import Run, current_run
from apass.core.run_settings import RunSettings
from apass.core.scope import ContextState, Scope
from apass.core.store import FaultTolerantStore, Store
from apass.core.tracebacks import hidden_in_pytest, hide_runner_frames
from apass.errors import PassContextError
from apass.loading.entry_points import plugins
from apass.util.checks import is_count, is_seconds
from apass.util.text import count_of, shorten

__all__ = [
    "OPENED",
    "SCOPE",
    "ContextOptions",
    "Opener",
    "PassContext",
    "PassScope",
    "current_scope",
    "enter_in_worker",
    "expect_pass_names",
    "has_hooks",
    "is_yield_due",
    "waiting_for",
    "yield_if_due",
]

__tracebackhide__ = hidden_in_pytest

R = TypeVar("R")

Opener: TypeAlias = Callable[["PassContext"], AbstractAsyncContextManager[R] | AsyncIterator[R]]
"""Opens something for a run of a pass, for example a solver: `Pass.open`, or a function like it."""

OPENED: Final[RunLocal[Mapping[Opener[Any], Any]]] = RunLocal("opened", MappingProxyType({}))
"""What the passes of the run have opened, by opener."""

_set_field: Final = object.__setattr__
"""How `__init__` fills the fields of a frozen context."""


class ContextOptions(TypedDict, total=False):
    """The parameters of `PassContext`, which `PassContext.replace` takes as well."""

    opt_level: int
    required_pass: Iterable[str] | None
    disabled_pass: Iterable[str] | None
    instruments: Iterable[object] | None
    config: ConfigValues | None
    diag_ctx: DiagnosticContext | None
    max_concurrency: int | None
    exit_grace: float
    executor: ExecutorChoice
    deadline: float | None
    store: Store | None


@dataclass(frozen=True, eq=False, repr=False, init=False)
@final
class PassContext(Displayed):
    """The configuration of passes: level, selection, instruments, options, limits.

    Use it with `async with`. Inside, `PassContext.current()` returns it, in this task and in the tasks started from it.
    One object may be entered by many tasks at once, nested, and repeatedly. It holds what the user sets and cannot be
    changed; only `override_instruments` replaces the instruments in force. Source: TVM's `PassContext`.

    Parameters and their defaults:
        opt_level: a Sequential runs the passes of this level and below (2).
        required_pass: names that a Sequential runs whatever their level; `should_run` is not called for them.
        disabled_pass: names that a Sequential does not run; takes precedence over `required_pass`.
        instruments: objects with hooks, called in this order (see `PassInstrument`).
        config: values by option, each registered with `register_config_option`, or by the key of the option.
        diag_ctx: where passes emit diagnostics (a new `DiagnosticContext`).
        max_concurrency: bodies of function passes in flight in this context beside the callers themselves (256); None
            is no limit.
        exit_grace: seconds that exit and failure hooks have after a cancellation (10).
        deadline: time limit in seconds for all work in this context, counted from entry (None, no limit). With nested
            contexts the earliest deadline wins. Work that exceeds it fails with BudgetExceededError.
        executor: where plain bodies of function passes run: `"inline"`, `"thread"`, `"process"`, `"interpreter"` or an
            `Executor` (None, in the thread of the event loop).
        store: where persistent analyses, and passes that are `cacheable`, keep results beyond the context (None). If it
            fails, the context emits a StoreWarning and computes the result. Whole modules in an executor only use a
            `SharedStore`.

    Raises:
        TypeError: if a value is of the wrong type, or an instrument has a misspelt hook.
        UnknownConfigError, ConfigTypeError: if `config` does not fit what is registered.

    >>> async def main():
    ...     async with PassContext(opt_level=3, max_concurrency=8) as ctx:
    ...         return PassContext.current() is ctx, ctx.opt_level
    >>> anyio.run(main)
    (True, 3)

    """

    # Not `dataclass(slots=True)`: the class that it makes anew raises a TypeError when a property is assigned to.
    __slots__ = (
        "_state",
        "config",
        "deadline",
        "diag_ctx",
        "disabled_pass",
        "executor",
        "exit_grace",
        "max_concurrency",
        "opt_level",
        "required_pass",
        "store",
    )

    opt_level: int
    """A Sequential runs the passes of this level and below."""
    required_pass: frozenset[str]
    """Names of passes that a Sequential runs whatever their level."""
    disabled_pass: frozenset[str]
    """Names of passes that a Sequential leaves out."""
    config: Config
    """The options: `ctx.config[key]` is the value set for `key`, else its registered default."""
    diag_ctx: DiagnosticContext
    """Where passes emit errors, warnings and notes."""
    max_concurrency: int | None
    """Bodies in flight beside the callers themselves; None is no limit."""
    exit_grace: float
    """Seconds that exit and failure hooks have after a cancellation."""
    executor: ExecutorChoice
    """Where plain bodies run if their pass does not choose; None is the thread of the event loop."""
    deadline: float | None
    """Time limit in seconds for all work in the context, counted from entry; None is no limit."""
    store: Store | None
    """Where results are kept beyond the context; None is nowhere."""
    _state: ContextState

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[object] | None = None,
        config: ConfigValues | None = None,
        *,
        diag_ctx: DiagnosticContext | None = None,
        max_concurrency: int | None = 256,
        exit_grace: float = 10.0,
        executor: ExecutorChoice = None,
        deadline: float | None = None,
        store: Store | None = None,
    ) -> None:
        # `bool` is a subclass of `int`, and `opt_level=True` is a mistake.
        if isinstance(opt_level, bool) or not isinstance(opt_level, int):
            raise TypeError(f"opt_level must be an int, got {opt_level!r}")
        if max_concurrency is not None and not is_count(max_concurrency):
            raise ValueError(f"max_concurrency must be an int of at least 1 or None, got {max_concurrency!r}")
        if exit_grace != 0 and not is_seconds(exit_grace):
            raise ValueError(f"exit_grace must be a number of seconds, 0 or more, got {exit_grace!r}")
        if deadline is not None and not is_seconds(deadline):
            raise ValueError(f"deadline must be a number of seconds above 0 or None, got {deadline!r}")
        if diag_ctx is not None and not isinstance(diag_ctx, DiagnosticContext):
            raise TypeError(f"diag_ctx must be a DiagnosticContext, got {diag_ctx!r}")
        _set_field(self, "opt_level", opt_level)
        _set_field(self, "required_pass", _names("required_pass", required_pass))
        _set_field(self, "disabled_pass", _names("disabled_pass", disabled_pass))
        _set_field(self, "config", make_config(config))
        _set_field(self, "diag_ctx", DiagnosticContext() if diag_ctx is None else diag_ctx)
        _set_field(self, "max_concurrency", max_concurrency)
        _set_field(self, "exit_grace", exit_grace)
        _set_field(self, "executor", check_executor("PassContext", executor))
        _set_field(self, "deadline", deadline)
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"store must be a Store, such as apass.stores.SqliteStore(path), got {store!r}")
        _set_field(self, "store", store)
        chosen, defaults = tuple(_instruments(instruments)), _default_instruments()
        # A context with instruments or config that is never entered is a mistake. A bare one may be a default value.
        hooks = Hooks.of(with_companions(chosen, defaults, must_be_entered=bool(chosen or config)))
        # One wrapper for each context: after a failure, all runs of the context pause its use.
        tolerant = None if store is None else FaultTolerantStore(store)
        _set_field(self, "_state", ContextState(hooks, max_concurrency, tolerant, RunSettings.of(chosen)))
        self._state.chosen_instruments, self._state.default_instruments = chosen, defaults

    @property
    def instruments(self) -> tuple[object, ...]:
        """The instruments in force; none after one has failed.

        These are the ones given to the constructor, or to the last `override_instruments`.
        """
        return self._state.hooks.instruments

    @property
    def run_settings(self) -> RunSettings:
        """What the instruments given to the constructor change of the runner."""
        return self._state.settings

    @property
    def analyses(self) -> AnalysisManager:
        """The results of analyses, with counts of those computed, found and preserved."""
        return self._state.analyses

    @property
    def wants_remarks(self) -> bool:
        """Whether an instrument listens for remarks.

        Check it before an expensive computation that only a remark needs.
        """
        return bool(self._state.hooks.remarks)

    @property
    def wants_statistics(self) -> bool:
        """Whether an instrument counts statistics.

        Check it before an expensive computation that only a statistic needs.
        """
        return bool(self._state.hooks.statistics)

    @staticmethod
    def current() -> "PassContext":
        """Return the current context of this task; if none was entered, a default one."""
        return current_scope().ctx

    @staticmethod
    def time_left() -> float:
        """Return the seconds until the earliest deadline; infinite if there is none.

        >>> async def main():
        ...     async with PassContext(deadline=5), PassContext(deadline=60):
        ...         return PassContext.time_left() <= 5
        >>> anyio.run(main), PassContext.time_left()
        (True, inf)
        """
        deadline = current_scope().deadline
        return float("inf") if deadline is None else deadline.left()

    @staticmethod
    def list_configs() -> Mapping[str, Mapping[str, Any]]:
        """Return the config options by key, each with its `type`, `default` and `doc`."""
        return list_configs()

    def replace(self, **options: Unpack[ContextOptions]) -> "PassContext":
        """Return a context with the configuration of this one, except for `options`.

        The new context has the instruments in force and the `diag_ctx` of this one. It has its own results of analyses
        and its own limit of concurrent bodies. Its deadline counts from its own entry.

        Parameters:
            **options: parameters of `PassContext`.

        Raises:
            TypeError, UnknownConfigError, ConfigTypeError: as for `PassContext`.

        >>> PassContext(opt_level=3, disabled_pass=["Tune"]).replace(opt_level=1)
        PassContext(opt_level=1, disabled_pass=['Tune'])

        """
        # The instruments go on in the new context. Those that warn if their context is never entered must not.
        for instrument in self.instruments:
            mark_used(instrument)
        merged: ContextOptions = {
            "opt_level": self.opt_level,
            "required_pass": self.required_pass,
            "disabled_pass": self.disabled_pass,
            # The chosen ones only: the constructor adds default instruments and companions again.
            "instruments": self._chosen_instruments(),
            "config": self.config,
            "diag_ctx": self.diag_ctx,
            "max_concurrency": self.max_concurrency,
            "exit_grace": self.exit_grace,
            "executor": self.executor,
            "deadline": self.deadline,
            "store": self.store,
            **options,
        }
        return PassContext(**merged)

    def extend(
        self,
        *,
        instruments: Iterable[object] = (),
        required_pass: Iterable[str] = (),
        disabled_pass: Iterable[str] = (),
        config: ConfigValues | None = None,
    ) -> "PassContext":
        """Return a context with the configuration of this one and more.

        See `replace` for what the new context shares with this one.

        Parameters:
            instruments: are called after those in force.
            required_pass: names that a Sequential runs as well.
            disabled_pass: names that a Sequential does not run either.
            config: values that are added to this context's, or replace them.

        Raises:
            TypeError, UnknownConfigError, ConfigTypeError: as for `PassContext`.

        >>> ctx = PassContext(opt_level=3, disabled_pass=["Tune"])
        >>> ctx.extend(disabled_pass=["FuseOps"])
        PassContext(opt_level=3, disabled_pass=['FuseOps', 'Tune'])

        """
        return self.replace(
            instruments=[*self._chosen_instruments(), *_instruments(instruments)],
            required_pass=self.required_pass | _names("required_pass", required_pass),
            disabled_pass=self.disabled_pass | _names("disabled_pass", disabled_pass),
            config={**self.config, **make_config(config)},
        )

    def _chosen_instruments(self) -> tuple[object, ...]:
        """Return the instruments that the user chose; after one has failed, none."""
        return () if self._state.hooks is NO_HOOKS else self._state.chosen_instruments

    async def get(self, analysis: Analysis[R], x: object, /, **options: Hashable) -> R:
        """Return the result of an analysis of a function or a module.

        The result is computed once for equal contents.

        Concurrent requests for the same analysis share one computation. Cancelling one caller does not cancel the
        others. Errors reach every caller and are not cached.

        Raises:
            AnalysisError: if an option cannot be hashed, or the analysis requires itself.
            Exception: any error that the analysis raised.

        """
        state = self._state
        # Most contexts record no answers, and most requests find their result: this path stays short.
        get = state.analyses.get if state.answers is None and not state.hooks.answers else self._get_answer
        if not state.hooks.waits:
            return await get(analysis, x, self, options)
        with state.hooks.waiting(current_run(), f"the analysis {analysis.name}"):
            return await get(analysis, x, self, options)

    async def _get_answer(
        self, analysis: Analysis[R], x: object, ctx: "PassContext", options: Mapping[str, Hashable]
    ) -> R:
        """Implement `get` where answers are recorded or replayed."""
        state = self._state
        compute = partial(state.analyses.get, analysis, x, ctx, options)
        question = state.analyses.question(analysis, x, options)
        result = await answer_to(state, question, compute, analysis.codec())
        if state.answers is not None:
            state.analyses.keep_answer(analysis, x, options, result)
        return result

    def got(self, analysis: Analysis[R], x: object, /, **options: Hashable) -> R:
        """Return a result that is already known, without waiting.

        Results are known of the analyses in a pass's `required`, and of those that `get` computed before.

        Raises:
            AnalysisError: if the result is not known.

        """
        return self._state.analyses.got(analysis, x, options)

    def opened(self, opener: Opener[R]) -> R:
        """Return what `open` of the current pass has opened for this run.

        Write `ctx.opened(self.open)` in the body. For a pass with `open=start_solver`, write
        `ctx.opened(start_solver)`.

        Raises:
            PassContextError: if it is not open, because another pass runs, or none.

        """
        opened = OPENED.get()
        # A bound method equals another one of the same object, so `self.open` finds what `pass_.open` opened.
        if opener not in opened:
            raise PassContextError(
                f"{opener!r} is not open; call ctx.opened(self.open) in the body of the pass that has this `open`"
            )
        result: R = opened[opener]
        return result

    def statistic(self, name: str, amount: float = 1) -> None:
        """Add `amount` to the statistic `name` of the current pass.

        If no instrument counts statistics, this has no effect.

        >>> PassContext().statistic("folded", 3)
        """
        hooks = self._state.hooks.statistics
        if hooks:
            run = current_run()
            for hook in hooks:
                hook(run, name, amount)

    def remark(self, remark: Remark) -> None:
        """Report what the current pass did, missed or found.

        If no instrument listens for remarks, this has no effect.

        >>> PassContext().remark(Remark.passed("Folded", "folded 3 calls", count=3))
        """
        hooks = self._state.hooks.remarks
        if hooks:
            remark = remark.made_by(current_run())
            for hook in hooks:
                hook(remark)

    def report_work(self, worker: str, start: float, end: float, run: Run | None = None) -> None:
        """Report that a thread or process worked for a pass.

        Passes and executors that start threads or processes of their own call it.

        Parameters:
            worker: a name for the thread or process.
            start: when the work started, as of `time.perf_counter`.
            end: when it ended.
            run: what it worked for; None is the current run.

        """
        run = run or current_run()
        if run is not None:
            for hook in self._state.hooks.work:
                hook(run, worker, start, end)

    @asynccontextmanager
    async def measuring(self) -> AsyncGenerator[Measurement]:
        """Hold the measurement lane of this machine within the block.

        The block waits until no other task or process measures. The wait does not count against the `timeout` of the
        pass. If a run of the measurement is cancelled, for example by a time limit, the result of the pass is not
        stored.

        Raises:
            MeasurementError: if this task measures already, or the lane cannot be used.

        >>> async def main():
        ...     async with PassContext() as ctx, ctx.measuring() as measurement:
        ...         return await measurement.call(divmod, 7, 2)
        >>> anyio.run(main)
        (3, 1)

        """
        async with AsyncExitStack() as stack:
            with waiting_for("the measurement lane"):
                measurement = await stack.enter_async_context(MeasurementLane().measuring())
            try:
                yield measurement
            finally:
                if measurement.was_cancelled:
                    note_failure()

    async def override_instruments(self, instruments: Iterable[object] | None) -> None:
        """Exit the instruments in force, and enter `instruments` in their place.

        Passes that are running call the new instruments for their later hooks. Errors are handled as for entering and
        leaving a context. Concurrent calls wait for each other.

        If no task is in the context, its instruments are not entered. Then they are replaced without a call of a hook.
        The default context always counts as entered.

        Raises:
            PassContextError: if a hook that this method calls calls it again.

        """
        state = self._state
        chosen = tuple(_instruments(instruments))
        # Before the lock, so that wrong instruments change nothing.
        new = Hooks.of(with_companions(chosen, state.default_instruments))
        if self in _OVERRIDING.get():
            raise PassContextError(
                f"override_instruments of {self!r} was called by a hook that it calls itself; call it from a pass, "
                "or around one"
            )
        lock = state.override_lock = state.override_lock or anyio.Lock()
        try:
            with _OVERRIDING.set_to((*_OVERRIDING.get(), self)):
                async with lock:
                    state.chosen_instruments = chosen
                    await replace_instruments(state, new, self.exit_grace)
        finally:
            # A lock belongs to one event loop, and the context may be used in another one later.
            if not lock.locked():
                state.override_lock = None

    async def instrument_enter_pass_ctx(self) -> None:
        """Call `enter_pass_ctx` of the instruments in force.

        Entering the context calls it. If a hook raises, the instruments already entered are exited, and the context
        has none afterwards. This and the three methods below are TVM's instrument points, for code that runs passes
        by itself.
        """
        await enter_instruments(self._state, self.exit_grace)

    async def instrument_exit_pass_ctx(self) -> None:
        """Call `exit_pass_ctx` of the instruments in force.

        If a hook raises, the context has no instruments afterwards.
        """
        await exit_instruments(self._state, self.exit_grace)

    async def instrument_before_pass(self, mod: Any, info: PassInfo) -> bool:
        """Call the hooks before a pass, and return whether the pass may run.

        All `should_run` are called, unless `required_pass` names the pass. If one returns False, no `run_before_pass`
        is called.

        Raises:
            PassResultError: if a `should_run` returns None.

        """
        hooks = self._state.hooks
        if info.name not in self.required_pass:
            answers = [
                await answer_of_should_run(hook(mod, info), hooks.instruments[index], info)
                for index, hook in hooks.should_run
            ]
            if not all(answers):
                return False
        # Re-read the hooks: a hook may have called `override_instruments`.
        for _, hook in self._state.hooks.before:
            await await_once(hook(mod, info), "run_before_pass")
        return True

    async def instrument_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Call `run_after_pass` of the instruments in force."""
        for _, hook in self._state.hooks.after:
            await await_once(hook(mod, info), "run_after_pass")

    def __block__(self) -> object:
        # The blocks take long to import, and most programs show no context.
        from apass.display.blocks import Fold, Group, Row, Span, Table

        settings: Mapping[str, object] = {
            "opt_level": self.opt_level,
            "required_pass": ", ".join(sorted(self.required_pass)),
            "disabled_pass": ", ".join(sorted(self.disabled_pass)),
            "instruments": ", ".join(map(instrument_name, self.instruments)),
            **{f"config[{key!r}]": repr(value) for key, value in self.config.items()},
            "max_concurrency": self.max_concurrency,
            "executor": self.executor,
            "deadline": None if self.deadline is None else f"{self.deadline:g} s",
            "store": self.store,
        }
        rows = [
            Row([(Span(key, "name"),), (Span(shorten(str(value), 200)),)])
            for key, value in settings.items()
            if value not in (None, "")
        ]
        table = Fold((Span("PassContext", "name"),), Table(["setting", "value"], rows))
        if not self.diag_ctx.diagnostics:
            return table
        title = (Span(count_of(len(self.diag_ctx.diagnostics), "pending diagnostic"), "warning"),)
        return Group([table, Fold(title, cast("Any", self.diag_ctx.__block__()))])

    async def __aenter__(self) -> Self:
        try:
            await self.instrument_enter_pass_ctx()
        except BaseException as error:
            hide_runner_frames(error)
            raise
        # After the hooks: their time does not count, and they run in the context around this one.
        parent = SCOPE.get()
        deadline = None if self.deadline is None else Deadline.from_now(self.deadline)
        if parent is not None:
            deadline = earlier(deadline, parent.deadline)
        is_plain = self._state.store is None and deadline is None
        selects = bool(self.disabled_pass or self.required_pass) or (parent is not None and parent.records_passes)
        task = anyio.get_current_task().id
        scope: PassScope = Scope(self, self._state, parent, task, deadline, is_plain, records_passes=selects)
        self._state.scopes.add(scope)
        SCOPE.set(scope)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        scope = SCOPE.get()
        if scope is None or scope.ctx is not self or scope.task != anyio.get_current_task().id:
            raise PassContextError(_out_of_order(self, scope))
        SCOPE.set(scope.parent)
        self._state.scopes.discard(scope)
        if scope.parent is not None:
            # The context around this one may disable a pass that runs only in this one.
            scope.parent.passes.update(scope.passes)
        try:
            await exit_instruments(self._state, self.exit_grace, exc)
        except BaseException as error:
            hide_runner_frames(error)
            raise
        # After an error, the passes that follow it have not been seen.
        if exc is None:
            scope.warn_unmatched()

    def default_scope(self) -> "PassScope":
        """Return the scope of a context that no task enters; for the runner."""
        return Scope(self, self._state, None, records_passes=bool(self.disabled_pass or self.required_pass))

    def __enter__(self) -> NoReturn:
        raise PassContextError("a PassContext awaits the hooks of its instruments: write `async with PassContext(...)`")

    def __exit__(self, *exc_info: object) -> None:
        """Do nothing: Python looks it up, but `__enter__` raises before it is called."""

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


PassScope: TypeAlias = Scope[PassContext]
"""One entry of a `PassContext`."""

SCOPE: ContextVar[PassScope | None] = ContextVar("apass_scope", default=None)
"""The scope of this task; None before the first use of the default scope, which `current_scope` returns."""
_OVERRIDING: Final[RunLocal[tuple[PassContext, ...]]] = RunLocal("overriding", ())
_DEFAULT_SCOPE: RunVar[PassScope] = RunVar("apass_default_scope")


never_modules(PassContext, "a context")


def current_scope() -> PassScope:
    """Return the scope of this task; if no context was entered, the default scope."""
    scope = SCOPE.get()
    if scope is None:
        try:
            scope = _default_scope()
        except RuntimeError:
            # Outside of any event loop. To keep the scope would give it to all later event loops.
            return PassContext().default_scope()
        # Worker threads that this task starts inherit contextvars, and cannot read a RunVar of the event loop.
        SCOPE.set(scope)
    return scope


@contextmanager
def limited_to(deadline: Deadline) -> Generator[None]:
    """Apply a deadline to the passes that this task runs in the block."""
    scope = current_scope()
    # `replace` copies the set `passes` by reference, so names that passes record in the block are seen outside.
    token = SCOPE.set(replace(scope, deadline=earlier(deadline, scope.deadline), is_plain=False))
    try:
        yield
    finally:
        SCOPE.reset(token)


def enter_in_worker(ctx: PassContext, deadline: Deadline | None) -> None:
    """Make `ctx` current for plain code in a worker, without hooks of instruments.

    It stays current until the end of the caller's contextvars context.
    """
    scope = ctx.default_scope()
    SCOPE.set(replace(scope, deadline=deadline, is_plain=deadline is None and scope.state.store is None))


def _default_scope() -> PassScope:
    """Return the default scope of the event loop; raise RuntimeError if there is none."""
    try:
        return _DEFAULT_SCOPE.get()
    except LookupError:
        scope = PassContext().default_scope()
        # It counts as entered, so that `override_instruments` calls the hooks of entering.
        scope.state.scopes.add(scope)
        _DEFAULT_SCOPE.set(scope)
        return scope


def _names(parameter: str, names: Iterable[str] | None) -> frozenset[str]:
    # A string is iterable: `disabled_pass="Fold"` would disable passes named F, o, l and d.
    if isinstance(names, str) or not isinstance(names, Iterable | None):
        prefix = "the string " if isinstance(names, str) else ""
        raise TypeError(f"{parameter} must be a list or set of names, got {prefix}{names!r}")
    unique_names = frozenset(names or ())
    for name in unique_names:
        if not isinstance(name, str):
            raise TypeError(f"{parameter} must hold names of passes, got {name!r}")
    return unique_names


def _instruments(instruments: Iterable[object] | None) -> Iterable[object]:
    if instruments is not None and not isinstance(instruments, Iterable):
        raise TypeError(f"instruments must be a list of instruments, got {instruments!r}")
    return instruments or ()


def _default_instruments() -> tuple[object, ...]:
    """Return the instruments of every context.

    In debug mode, with the environment variable APASS_DEBUG, it is a DebugInstrument.
    """
    if os.environ.get("APASS_DEBUG", "0") in ("", "0"):
        return ()
    # Instruments lie above contexts, so this one is an entry point.
    return (plugins("apass.instruments")["debug"].load()(),)


def _out_of_order(ctx: PassContext, scope: PassScope | None) -> str:
    above = None if scope is None else scope.parent
    while above is not None and above.ctx is not ctx:
        above = above.parent
    if scope is None or scope.ctx is ctx or above is None:
        return f"{ctx!r} was left in a task that had not entered it; leave a context in the task that entered it"
    return f"{ctx!r} was left while {scope.ctx!r} is current; leave contexts in the reverse of the order of entering"


def has_hooks() -> bool:
    """Return whether an instrument of the current context looks at passes.

    A pass that does the work of several ones at once may then let each of them run by itself.
    """
    return current_scope().state.hooks is not NO_HOOKS


def expect_pass_names(names: Iterable[str]) -> None:
    """Do not warn that no pass has these names, which a context requires or disables.

    A pass calls it whose own compiler applies them to its inner passes.
    """
    current_scope().expected.update(names)


def is_yield_due() -> bool:
    """Return whether the time slice has expired.

    A pass that must leave a context of its library before it yields asks this first.
    """
    return perf_counter() > current_scope().state.scheduler.slice_ends


async def yield_if_due() -> None:
    """Let the event loop run if the time slice has expired.

    A pass that changes many functions in one body calls it between them. For example, a pass
    of xDSL that changes a copy of the module calls it before each function.
    """
    # A look at the clock takes 0.2 us, a checkpoint 3 us on asyncio and 11 us on trio.
    if is_yield_due():
        await current_scope().state.scheduler.yield_to_loop()


@contextmanager
def waiting_for(what: str) -> Generator[None]:
    """Name what the current pass waits for within the block.

    If no instrument listens, this has no effect.

    >>> with waiting_for("the cost model"):
    ...     pass
    """
    hooks = current_scope().state.hooks
    # Passes wait thousands of times, and most contexts have no instrument for it.
    if not hooks.waits:
        yield
        return
    with hooks.waiting(current_run(), what):
        yield
