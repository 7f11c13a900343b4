"""The hook protocol of instruments, and the lookup of hooks."""

import inspect
from abc import ABCMeta
from collections.abc import Awaitable, Callable, Iterator
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import Any, Final, Protocol, TypeVar, overload
from weakref import WeakSet

from apass.core.pass_info import PassInfo
from apass.core.remarks import Remark
from apass.core.run import Run

__all__ = [
    "HOOKS",
    "ObservingInstrument",
    "PassInstrument",
    "PassWork",
    "check_instrument",
    "instrument_name",
    "is_inherited",
    "pass_instrument",
]

InstrumentT = TypeVar("InstrumentT")

HookResult = Awaitable[None] | None
"""The result of a hook: None or an awaitable."""


class PassWork(Protocol):
    """The work of a pass, as a `run_around_pass` receives it."""

    def __call__(self, mod: Any, pass_: Any = None, /) -> Awaitable[Any]:
        """Run the pass on `mod` and return the new module.

        It may be called any number of times. If `pass_` is given, it runs in place of the pass.
        """
        ...


HOOKS: Final[dict[str, tuple[str, ...]]] = {
    "enter_pass_ctx": (),
    "exit_pass_ctx": (),
    "should_run": ("mod", "info"),
    "run_before_pass": ("mod", "info"),
    "run_around_pass": ("mod", "info", "work"),
    "run_after_pass": ("mod", "info"),
    "run_after_pass_failed": ("mod", "info", "error"),
    "run_after_step": ("run", "start", "end"),
    "run_before_function": ("func", "run"),
    "run_after_function": ("func", "result", "run"),
    "run_after_function_failed": ("func", "run", "error"),
    "run_after_function_step": ("run", "start", "end"),
    "on_statistic": ("run", "name", "amount"),
    "on_remark": ("remark",),
    "on_wait": ("run", "what", "is_over"),
    "on_answer": ("answer",),
    "on_work": ("run", "worker", "start", "end"),
    "on_hooks": ("run", "start", "end", "busy"),
    "on_context_failed": ("error", "is_entered"),
}
"""The hooks that an instrument may define, each with the names of its arguments."""

_PLAIN: Final = tuple(HOOKS)[tuple(HOOKS).index("run_after_step") :]
"""The hooks that must be a plain `def`, because they are called where the runner cannot await."""

_BASES: Final = (__name__, "tvm.ir.instrument")
"""Modules with base classes whose hooks do nothing."""
_BASE_NAMES: Final = ("PassInstrument", "ObservingInstrument")
"""The names of these classes."""

_SIMILARITY: Final = 0.8
"""The similarity to the name of a hook (difflib's ratio) at which a method is reported as misspelt."""


def instrument_name(instrument: object) -> str:
    """Return the name of an instrument for messages: its `name` or its class name."""
    name = getattr(instrument, "name", None)
    return name if isinstance(name, str) else type(instrument).__name__


def is_inherited(hook: object, name: str) -> bool:
    """Return whether a hook is the empty one of a base class, apass's or TVM's."""
    # By name rather than by identity, because TVM must not be imported for this.
    kind, _, method = getattr(hook, "__qualname__", "").rpartition(".")
    return method == name and kind in _BASE_NAMES and getattr(hook, "__module__", "") in _BASES


def check_instrument(instrument: object) -> None:
    """Raise TypeError unless an object is an instrument with valid hooks."""
    if inspect.isclass(instrument):
        raise TypeError(f"{instrument.__name__} is a class; pass an instance: {instrument.__name__}(...)")
    kind = type(instrument)
    if kind not in _CHECKED_CLASSES:
        _check_hooks(kind)
        _CHECKED_CLASSES.add(kind)
    if not hasattr(instrument, "name") and not any(hasattr(instrument, name) for name in HOOKS):
        raise TypeError(f"{instrument!r} is not an instrument; it has none of the hooks {', '.join(HOOKS)}")


def _check_hooks(cls: type) -> None:
    for name, member in _public_functions(cls):
        if name in HOOKS:
            if member not in _CHECKED:
                _check_arguments(cls, name, member)
                _CHECKED.add(member)
        elif near := _similar_hook(name):
            raise TypeError(
                f"{cls.__name__}.{name} is not a hook; did you mean {near!r}? (prefix other methods with _)"
            )


_CHECKED_CLASSES: Final[WeakSet[type]] = WeakSet()
"""Classes with valid hooks. A service creates instruments for each job, and to look through a class takes 0.05 ms."""

_CHECKED: Final[WeakSet[Callable[..., Any]]] = WeakSet()
"""Hooks with valid signatures. A service creates a context for each request, and a check takes 0.1 ms."""


@lru_cache(maxsize=1024)
def _similar_hook(name: str) -> str | None:
    """Return the hook whose name is similar to the name of another method."""
    near = get_close_matches(name.casefold(), HOOKS, n=1, cutoff=_SIMILARITY)
    return near[0] if near else None


def _public_functions(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    # The bases too: a class that `pass_instrument` decorates may inherit hooks from one that it does not.
    for base in cls.__mro__:
        if base is object or (base.__name__ in _BASE_NAMES and base.__module__ in _BASES):
            continue
        for name, member in vars(base).items():
            if not name.startswith("_") and inspect.isroutine(member) and not isinstance(member, partial):
                yield name, member


def _check_arguments(cls: type, name: str, member: object) -> None:
    # The signature of a builtin may be unknown, and a static method is not called with `self`.
    if not inspect.isfunction(member):
        return
    arguments = ("self", *HOOKS[name])
    try:
        inspect.signature(member).bind(*arguments)
    except TypeError as error:
        call = f"{name}({', '.join(arguments)})"
        raise TypeError(f"the hook {cls.__name__}.{name} is called as {call}, but: {error}") from None
    if inspect.isgeneratorfunction(member) or inspect.isasyncgenfunction(member):
        raise TypeError(
            f"the hook {cls.__name__}.{name} is a generator, but hooks cannot yield; "
            "split it into a before hook and an after hook"
        )
    if name in _PLAIN and inspect.iscoroutinefunction(member):
        raise TypeError(f"the hook {cls.__name__}.{name} must be a plain def, because it is not awaited")


class _InstrumentType(ABCMeta):
    """The metaclass of `PassInstrument`, which has `register` for `pass_instrument`.

    Readers and linters expect abstract methods of a class whose metaclass is ABCMeta itself.
    """


class PassInstrument(metaclass=_InstrumentType):
    """An optional base class of instruments.

    Alternatively, use `pass_instrument` on any class. An instance of such a class counts as one of this class.

    Set `reads_modules = False` if the hooks ignore the modules that they receive. Passes that change a private copy in
    place (`InPlacePass`) then share one copy. Otherwise each makes its own, so that a hook may keep any module.

    Every method is a hook. It may be `def` or `async def`. Override only the hooks that you need: the others are never
    called and cost nothing. `ObservingInstrument` has more, for functions, steps and what passes report. An instrument
    of any class may define them. Source: TVM's `PassInstrument`; `run_after_pass_failed` is an addition of apass.

    If a context lists one object twice, its hooks are called twice, as in TVM.
    """

    reads_modules: bool = True
    """Whether the hooks read or keep the modules that they receive."""

    def enter_pass_ctx(self) -> HookResult:
        """Handle the entry to the `PassContext`, before it becomes current."""

    def exit_pass_ctx(self) -> HookResult:
        """Handle the exit from the `PassContext`, also after errors and cancellation.

        It is called when the `async with` block ends. Tasks that the block has started and not awaited may still run
        passes in the context, and call other hooks later. Start them in a task group inside the block.
        """

    def should_run(self, mod: Any, info: PassInfo) -> bool | Awaitable[bool]:
        """Return whether the pass may run on `mod`.

        If any instrument returns False, the pass is skipped. All instruments are called nevertheless.
        """
        return True

    def run_before_pass(self, mod: Any, info: PassInfo) -> HookResult:
        """Handle the start of a pass on `mod`."""

    def run_after_pass(self, mod: Any, info: PassInfo) -> HookResult:
        """Handle the module that the pass returned."""

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> HookResult:
        """Handle the failure or cancellation of a pass; `mod` is its input.

        It is called only after `run_before_pass` was called for this run.
        """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the hooks of a subclass as `pass_instrument` does."""
        super().__init_subclass__(**kwargs)
        _check_hooks(cls)


class ObservingInstrument(PassInstrument):
    """A base class of instruments with the hooks that TVM does not have.

    They are for what surrounds a pass, its steps, the bodies of function passes, and what passes report. If a context
    lists one object twice, these hooks are called once, except for `run_around_pass`.
    """

    run_settings: Any = None
    """The `RunSettings` that the instrument makes; None is none."""

    def run_around_pass(self, mod: Any, info: PassInfo, work: PassWork) -> Any:
        """Return the module that the pass makes of `mod`: usually `await work(mod)`.

        It is called between `run_before_pass` and `run_after_pass` of all instruments. It may skip the pass by not
        calling `work`, run it again, run another pass in its place, or return another module. Such a result is not
        stored. Of two instruments, the hook of the first one receives the second hook as its `work`.
        """
        return work(mod)

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Handle one step of a pass; must be a plain `def`.

        A step is the time between two suspensions, in `time.perf_counter` seconds. It is reported for the current pass
        and for each pass that called it. If the hook raises, the pass is cancelled at its next suspension, and fails
        with the error of the hook.
        """

    def run_before_function(self, func: Any, run: Run) -> None:
        """Handle the start of the body of a function pass; must be a plain `def`.

        `run.function` is the name of the function.
        """

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Handle the result of the body of a function pass; must be a plain `def`.

        If the function is unchanged, `result is func`.
        """

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Handle the failure or cancellation of a body; must be a plain `def`.

        It is called only after `run_before_function` was called for this body.
        """

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Handle one step of the body of a function pass; must be a plain `def`.

        Times are in `time.perf_counter` seconds. If the hook raises, the pass fails as for `run_after_step`.
        """

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        """Handle a `ctx.statistic(name, amount)`; must be a plain `def`.

        The call may come from another thread.
        """

    def on_remark(self, remark: Remark) -> None:
        """Handle a `ctx.remark(remark)`; must be a plain `def`.

        The call may come from another thread.
        """

    def on_wait(self, run: Run | None, what: str, is_over: bool) -> None:
        """Handle the start or the end of an `apass.waiting_for(what)`.

        It must be a plain `def`.
        """

    def on_answer(self, answer: Any) -> None:
        """Handle the `apass.instruments.Answer` to a question; must be a plain `def`.

        It is the answer of a service, a child process, an analysis or a measurement, or the error in its place. An
        answer that is found in memory is reported as well.
        """

    def on_work(self, run: Run, worker: str, start: float, end: float) -> None:
        """Handle the work of a thread or process for a pass or a body.

        It must be a plain `def`. The call may come from the worker thread. Times are `time.perf_counter` seconds of
        this process. For a worker process, `end` is the time at which its response arrived, and `start` is `end` minus
        the seconds that it worked.
        """

    def on_hooks(self, run: Run | None, start: float, end: float, busy: float) -> None:
        """Handle the time that the hooks of all instruments took around a pass or a body.

        It must be a plain `def`. `run` is the run that the time is part of: for the hooks around a pass, its caller, or
        None; for those around a body, its function pass. Times are in `time.perf_counter` seconds, and `busy` is the
        part in which the hooks did not wait.
        """

    def on_context_failed(self, error: BaseException, is_entered: bool) -> None:
        """Handle that `exit_pass_ctx` will not be called; must be a plain `def`.

        It is called if `error` ended the entry to the context, or the exit from it, before it reached this instrument.
        `is_entered` is whether `enter_pass_ctx` has completed.
        """


@overload
def pass_instrument(pi_cls: type[InstrumentT]) -> type[InstrumentT]: ...
@overload
def pass_instrument(pi_cls: None = None) -> Callable[[type[InstrumentT]], type[InstrumentT]]: ...
def pass_instrument(
    pi_cls: type[InstrumentT] | None = None,
) -> type[InstrumentT] | Callable[[type[InstrumentT]], type[InstrumentT]]:
    """Declare a class as an instrument: check its hooks and set its `name`.

    Source: TVM's decorator of this name.

    Raises:
        TypeError: if `pi_cls` is not a class, a method is a misspelt hook, or a hook takes the wrong arguments.

    >>> @pass_instrument
    ... class Counter:
    ...     def run_befor_pass(self, mod, info): ...
    Traceback (most recent call last):
        ...
    TypeError: Counter.run_befor_pass is not a hook; did you mean 'run_before_pass'? (prefix other methods with _)

    """
    if pi_cls is None:
        return pass_instrument
    if not inspect.isclass(pi_cls):
        raise TypeError(f"pass_instrument decorates a class, got {pi_cls!r}")
    _check_hooks(pi_cls)
    # A base class that was declared so has its own name.
    if getattr(pi_cls, "name", None) in {None, *(base.__name__ for base in pi_cls.__mro__)}:
        # Type checkers know no `name` of the class, so that `pi_cls.name = ...` would be an error.
        type.__setattr__(pi_cls, "name", pi_cls.__name__)
    PassInstrument.register(pi_cls)
    return pi_cls
