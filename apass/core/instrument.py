"""The hook protocol of instruments, and how hooks are found; for the runner and for authors of instruments."""

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, TypeVar, cast, overload

from apass.core.info import PassInfo
from apass.core.remarks import Remark
from apass.core.run import Run

__all__ = ["HOOKS", "FunctionHooks", "Hooks", "PassInstrument", "find_hook", "instrument_name", "pass_instrument"]

InstrumentT = TypeVar("InstrumentT")

HookResult = Awaitable[None] | None
"""What a hook gives back: nothing, or something to await."""

HOOKS: Final = {
    "enter_pass_ctx": (),
    "exit_pass_ctx": (),
    "should_run": ("mod", "info"),
    "run_before_pass": ("mod", "info"),
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
    "on_work": ("run", "worker", "start", "end"),
}
"""The hooks that an instrument may define, each with the arguments that it is called with."""

_PLAIN: Final = tuple(HOOKS)[tuple(HOOKS).index("run_after_step") :]
"""The hooks that must be a plain `def`: they are called between two steps of a pass, or by it."""

_BASES: Final = (__name__, "tvm.ir.instrument")
"""Modules with a base class `PassInstrument` whose hooks do nothing."""

_NEAR_A_HOOK: Final = 0.8
"""How alike (difflib's ratio) a public method's name must be to a hook's to be taken for a misspelling of it."""


class PassInstrument:
    """A base for instruments, for those who like one; `pass_instrument` on any class does as well.

    Every method is a hook and may be `def` or `async def`. Override those you need: a hook that is left as it stands
    here is never called and costs nothing. Source: TVM's `PassInstrument`; `run_after_pass_failed` and what follows it
    are apass's own.
    """

    def enter_pass_ctx(self) -> HookResult:
        """Called when the `PassContext` is entered, before it is current."""

    def exit_pass_ctx(self) -> HookResult:
        """Called when the `PassContext` has been left, also after errors and cancellation."""

    def should_run(self, mod: Any, info: PassInfo) -> bool | Awaitable[bool]:
        """Say whether the pass may run on `mod`; one False is enough, yet every instrument is asked."""
        return True

    def run_before_pass(self, mod: Any, info: PassInfo) -> HookResult:
        """Called just before the pass gets `mod`."""

    def run_after_pass(self, mod: Any, info: PassInfo) -> HookResult:
        """Called with the module that the pass returned."""

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> HookResult:
        """Called with the pass's input when a pass that `run_before_pass` announced failed or was cancelled."""

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Called each time a run of a pass gives the loop back; `start` and `end` as of `time.perf_counter`.

        A step counts for the pass at work and for each pass that called it. Only `def`: it is called between steps.
        """

    def run_before_function(self, func: Any, run: Run) -> None:
        """Called just before a function pass works on `func`; `run.function` is its name. Only `def`, as all below."""

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Called with what a function pass made of `func`; `result is func` where it left it as it was."""

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Called when the work on a function that `run_before_function` announced failed or was cancelled."""

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Called each time the work on a function gives the loop back; times as of `time.perf_counter`."""

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        """Called when a pass counts something by `ctx.statistic(name, amount)`; perhaps in another thread."""

    def on_remark(self, remark: Remark) -> None:
        """Called when a pass says something by `ctx.remark(remark)`; perhaps in another thread."""

    def on_wait(self, run: Run | None, what: str, is_over: bool) -> None:
        """Called when a pass begins to wait for what it named by `apass.waiting_for(what)`, and when that is over."""

    def on_work(self, run: Run, worker: str, start: float, end: float) -> None:
        """Called when a worker thread or process has worked for a pass or a body; perhaps in that thread.

        Times are as of `time.perf_counter` here; a process does not tell when it began, so they are those of the answer
        less the seconds that it took.
        """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the hooks of a subclass as `pass_instrument` does."""
        super().__init_subclass__(**kwargs)
        _check_hooks(cls)


@overload
def pass_instrument(pi_cls: type[InstrumentT]) -> type[InstrumentT]: ...
@overload
def pass_instrument(pi_cls: None = None) -> Callable[[type[InstrumentT]], type[InstrumentT]]: ...
def pass_instrument(
    pi_cls: type[InstrumentT] | None = None,
) -> type[InstrumentT] | Callable[[type[InstrumentT]], type[InstrumentT]]:
    """Declare a class to be an instrument: its hooks are checked and it gets a `name`. TVM's decorator.

    Raises:
        TypeError: if `pi_cls` is no class, a method is a misspelt hook, or a hook takes the wrong arguments.

    >>> @pass_instrument
    ... class Counter:
    ...     def run_befor_pass(self, mod, info): ...
    Traceback (most recent call last):
        ...
    TypeError: Counter.run_befor_pass is no hook; did you mean 'run_before_pass'? (start its name with _ if it is none)

    """
    if pi_cls is None:
        return pass_instrument
    if not inspect.isclass(pi_cls):
        raise TypeError(f"pass_instrument decorates a class, not {pi_cls!r}")
    _check_hooks(pi_cls)
    if not hasattr(pi_cls, "name"):
        type.__setattr__(pi_cls, "name", pi_cls.__name__)
    return pi_cls


def instrument_name(instrument: object) -> str:
    """Return what messages call an instrument: its `name` where it has one, else the name of its class."""
    name = getattr(instrument, "name", None)
    return name if isinstance(name, str) else type(instrument).__name__


@dataclass(frozen=True, slots=True)
class FunctionHooks:
    """The hooks around the bodies of function passes, of all instruments that define some."""

    before: tuple[Callable[[Any, Run], object], ...]
    """Each `run_before_function`."""
    after: tuple[Callable[[Any, Any, Run], object], ...]
    """Each `run_after_function`."""
    failed: tuple[Callable[[Any, Run, BaseException], object], ...]
    """Each `run_after_function_failed`."""
    steps: tuple[Callable[[Run, float, float], object], ...]
    """Each `run_after_function_step`."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks that a row of instruments defines, looked up once; each with its instrument's place in the row."""

    instruments: tuple[object, ...]
    """The instruments, in the order in which their hooks are called."""
    should_run: tuple[tuple[int, Callable[..., Any]], ...]
    """`(place, hook)` of each instrument that has a say in whether a pass runs."""
    before: tuple[tuple[int, Callable[..., Any]], ...]
    """`(place, hook)` of each `run_before_pass`."""
    after: tuple[tuple[int, Callable[..., Any]], ...]
    """`(place, hook)` of each `run_after_pass`."""
    failed: tuple[tuple[int, Callable[..., Any]], ...]
    """`(place, hook)` of each `run_after_pass_failed`."""
    steps: tuple[Callable[[Run, float, float], object], ...]
    """Each `run_after_step`."""
    functions: FunctionHooks | None
    """The hooks around the bodies of function passes; None if there are none."""
    statistics: tuple[Callable[[Run | None, str, float], object], ...]
    """Each `on_statistic`."""
    remarks: tuple[Callable[[Remark], object], ...]
    """Each `on_remark`."""
    waits: tuple[Callable[[Run | None, str, bool], object], ...]
    """Each `on_wait`."""
    work: tuple[Callable[[Run, str, float, float], object], ...]
    """Each `on_work`."""

    @contextmanager
    def waiting(self, run: Run | None, what: str) -> Generator[None]:
        """Tell each `on_wait` that a run waits for something within the block."""
        for hook in self.waits:
            hook(run, what, False)
        try:
            yield
        finally:
            for hook in self.waits:
                hook(run, what, True)

    @classmethod
    def of(cls, instruments: Iterable[object]) -> "Hooks":
        """Find the hooks that `instruments` define.

        Raises:
            TypeError: if one of them is a class, defines no hook at all, or defines a misspelt one.

        """
        row = tuple(instruments)
        for instrument in row:
            _check_instrument(instrument)
        return cls(
            instruments=row,
            should_run=_places(row, "should_run"),
            before=_places(row, "run_before_pass"),
            after=_places(row, "run_after_pass"),
            failed=_places(row, "run_after_pass_failed"),
            steps=_hooks(row, "run_after_step"),
            functions=_function_hooks(row),
            statistics=_hooks(row, "on_statistic"),
            remarks=_hooks(row, "on_remark"),
            waits=_hooks(row, "on_wait"),
            work=_hooks(row, "on_work"),
        )


def find_hook(instrument: object, name: str) -> Callable[..., Any] | None:
    """Return the bound hook `name` of an instrument, or None where it defines none of its own."""
    hook = getattr(instrument, name, None)
    if hook is None or _is_of_base(hook, name):
        return None
    if not callable(hook):
        raise TypeError(f"the hook {name} of instrument {instrument_name(instrument)!r} is {hook!r}: a hook is called")
    return cast("Callable[..., Any]", hook)


def _is_of_base(hook: object, name: str) -> bool:
    """Tell the do-nothing hooks of the base classes, ours and TVM's, which stand for "not defined"."""
    own = getattr(hook, "__qualname__", "") == f"PassInstrument.{name}"
    return own and getattr(hook, "__module__", "") in _BASES


def _places(row: tuple[object, ...], name: str) -> tuple[tuple[int, Callable[..., Any]], ...]:
    found = ((place, find_hook(instrument, name)) for place, instrument in enumerate(row))
    return tuple((place, hook) for place, hook in found if hook is not None)


def _hooks(row: tuple[object, ...], name: str) -> tuple[Callable[..., Any], ...]:
    return tuple(hook for _, hook in _places(row, name))


def _function_hooks(row: tuple[object, ...]) -> FunctionHooks | None:
    found = FunctionHooks(
        before=_hooks(row, "run_before_function"),
        after=_hooks(row, "run_after_function"),
        failed=_hooks(row, "run_after_function_failed"),
        steps=_hooks(row, "run_after_function_step"),
    )
    return found if found.before or found.after or found.failed or found.steps else None


def _check_instrument(instrument: object) -> None:
    if inspect.isclass(instrument):
        raise TypeError(f"{instrument.__name__} is a class; an instrument is an instance: {instrument.__name__}(...)")
    _check_hooks(type(instrument))
    if not hasattr(instrument, "name") and not any(hasattr(instrument, name) for name in HOOKS):
        raise TypeError(f"{instrument!r} is no instrument: it has none of the hooks {', '.join(HOOKS)}")


def _check_hooks(cls: type) -> None:
    for name, member in _public_functions(cls):
        if name in HOOKS:
            _check_arguments(cls, name, member)
        elif near := get_close_matches(name.casefold(), HOOKS, n=1, cutoff=_NEAR_A_HOOK):
            raise TypeError(
                f"{cls.__name__}.{name} is no hook; did you mean {near[0]!r}? (start its name with _ if it is none)"
            )


def _public_functions(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for base in cls.__mro__:
        if base is object or (base.__name__ == "PassInstrument" and base.__module__ in _BASES):
            continue
        for name, member in vars(base).items():
            if not name.startswith("_") and inspect.isroutine(member) and not isinstance(member, partial):
                yield name, member


def _check_arguments(cls: type, name: str, member: object) -> None:
    if not inspect.isfunction(member):
        return
    given = HOOKS[name]
    try:
        inspect.signature(member).bind("self", *given)
    except TypeError as error:
        wanted = ", ".join(("self", *given))
        raise TypeError(f"the hook {cls.__name__}.{name} is called as {name}({wanted}), but: {error}") from None
    if inspect.isgeneratorfunction(member) or inspect.isasyncgenfunction(member):
        raise TypeError(f"the hook {cls.__name__}.{name} yields: nobody goes on with it; write two hooks")
    if name in _PLAIN and inspect.iscoroutinefunction(member):
        raise TypeError(f"the hook {cls.__name__}.{name} must be a plain def: nothing waits for it")
