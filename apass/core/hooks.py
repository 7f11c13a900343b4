"""`Hooks`: the hooks that the instruments of a context define, looked up once."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from apass.concurrency.coroutines import await_once
from apass.core.instrument import HOOKS, check_instrument, instrument_name, is_inherited
from apass.core.pass_info import PassInfo
from apass.core.remarks import Remark
from apass.core.run import Run
from apass.errors import PassResultError

__all__ = [
    "NO_HOOKS",
    "FunctionHooks",
    "Hooks",
    "answer_of_should_run",
    "find_hook",
    "mark_used",
    "with_companions",
]


@dataclass(frozen=True, slots=True)
class FunctionHooks:
    """The hooks around the bodies of function passes."""

    before: tuple[Callable[[Any, Run], object], ...]
    """Each `run_before_function`."""
    after: tuple[Callable[[Any, Any, Run], object], ...]
    """Each `run_after_function`."""
    failed: tuple[Callable[[Any, Run, BaseException], object], ...]
    """Each `run_after_function_failed`."""
    steps: tuple[Callable[[Run, float, float], object], ...]
    """Each `run_after_function_step`."""
    times: tuple[Callable[[Run | None, float, float, float], object], ...]
    """Each `on_hooks`."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of a sequence of instruments, looked up once.

    Hooks of passes are stored with the index of their instrument in the sequence.
    """

    instruments: tuple[object, ...]
    """The instruments, in the order in which their hooks are called."""
    should_run: tuple[tuple[int, Callable[..., Any]], ...]
    """`(index, hook)` of each `should_run`."""
    before: tuple[tuple[int, Callable[..., Any]], ...]
    """`(index, hook)` of each `run_before_pass`."""
    around: tuple[tuple[int, Callable[..., Any]], ...]
    """`(index, hook)` of each `run_around_pass`."""
    after: tuple[tuple[int, Callable[..., Any]], ...]
    """`(index, hook)` of each `run_after_pass`."""
    failed: tuple[tuple[int, Callable[..., Any]], ...]
    """`(index, hook)` of each `run_after_pass_failed`."""
    steps: tuple[Callable[[Run, float, float], object], ...]
    """Each `run_after_step`."""
    wraps: bool
    """Whether there are hooks that need a layer around the work: `steps` or `around`."""
    functions: FunctionHooks | None
    """The hooks around the bodies of function passes; None if there are none."""
    reads_modules: bool
    """Whether a hook may read or keep a module after the call."""
    statistics: tuple[Callable[[Run | None, str, float], object], ...]
    """Each `on_statistic`."""
    remarks: tuple[Callable[[Remark], object], ...]
    """Each `on_remark`."""
    waits: tuple[Callable[[Run | None, str, bool], object], ...]
    """Each `on_wait`."""
    answers: tuple[Callable[[Any], object], ...]
    """Each `on_answer`."""
    work: tuple[Callable[[Run, str, float, float], object], ...]
    """Each `on_work`."""
    times: tuple[Callable[[Run | None, float, float, float], object], ...]
    """Each `on_hooks`."""

    @contextmanager
    def waiting(self, run: Run | None, name: str) -> Generator[None]:
        """Call each `on_wait` at the start and at the end of the block."""
        for hook in self.waits:
            hook(run, name, False)
        try:
            yield
        finally:
            # Also after a cancellation: instruments count the waits that are open.
            for hook in self.waits:
                hook(run, name, True)

    @classmethod
    def of(cls, instruments: Iterable[object]) -> "Hooks":
        """Find the hooks that `instruments` define.

        Raises:
            TypeError: if an instrument is a class, defines no hook, or defines a misspelt one.

        """
        sequence = tuple(instruments)
        if not sequence:
            return NO_HOOKS
        for instrument in sequence:
            check_instrument(instrument)
        return cls(
            instruments=sequence,
            should_run=_indexed_hooks(sequence, "should_run"),
            before=_indexed_hooks(sequence, "run_before_pass"),
            around=(around := _indexed_hooks(sequence, "run_around_pass")),
            after=_indexed_hooks(sequence, "run_after_pass"),
            failed=_indexed_hooks(sequence, "run_after_pass_failed"),
            steps=(steps := _hooks(sequence, "run_after_step")),
            wraps=bool(steps or around),
            functions=_function_hooks(sequence),
            reads_modules=any(map(_reads_modules, sequence)),
            statistics=_hooks(sequence, "on_statistic"),
            remarks=_hooks(sequence, "on_remark"),
            waits=_hooks(sequence, "on_wait"),
            answers=_hooks(sequence, "on_answer"),
            work=_hooks(sequence, "on_work"),
            times=_hooks(sequence, "on_hooks"),
        )


NO_HOOKS: Final = Hooks((), (), (), (), (), (), (), False, None, False, (), (), (), (), (), ())
"""The hooks of no instruments. It is a single object, so that the runner can test for it by identity."""


def find_hook(instrument: object, name: str) -> Callable[..., Any] | None:
    """Return the bound hook `name` of an instrument, or None if it is not defined."""
    # From the instance, not the class: a hook may be set in `__init__`, or come from `__getattr__` of a wrapper.
    hook = getattr(instrument, name, None)
    if hook is None or is_inherited(hook, name):
        return None
    if not callable(hook):
        raise TypeError(f"the hook {name} of instrument {instrument_name(instrument)!r} must be callable, got {hook!r}")
    return cast("Callable[..., Any]", hook)


def with_companions(
    chosen: Sequence[object], defaults: Sequence[object] = (), *, must_be_entered: bool = False
) -> Sequence[object]:
    """Return the instruments of a context.

    These are the chosen ones, and the default ones of which no other of the class is chosen. An instrument may bring
    others, which come first: it has a method `companions(given, must_be_entered)` that returns them.

    Parameters:
        chosen: the instruments of the user.
        defaults: the instruments of every context.
        must_be_entered: whether it is a mistake if the context is never entered.

    """
    # For example, with APASS_DEBUG=1 a context that has a DebugInstrument of its own gets no second one.
    extra = [one for one in defaults if not any(isinstance(other, type(one)) for other in chosen)]
    given = [*chosen, *extra]
    for instrument in (*chosen, *extra):
        companions = getattr(type(instrument), "companions", None)
        if companions is not None:
            given = [*companions(instrument, given, must_be_entered), *given]
    return given


def mark_used(instrument: object) -> None:
    """Report that another context is derived from the one with this instrument.

    That counts as a use of the context.
    """
    mark = getattr(type(instrument), "mark_used", None)
    if mark is not None:
        mark(instrument)


def _indexed_hooks(instruments: tuple[object, ...], name: str) -> tuple[tuple[int, Callable[..., Any]], ...]:
    hooks = ((index, find_hook(instrument, name)) for index, instrument in enumerate(instruments))
    return tuple((index, hook) for index, hook in hooks if hook is not None)


def _hooks(instruments: tuple[object, ...], name: str) -> tuple[Callable[..., Any], ...]:
    """Return each hook `name`, once for an instrument that is listed twice."""
    # By identity: an instrument may define `__eq__`, as a dataclass does, and have no hash.
    unique = {id(instrument): instrument for instrument in instruments}
    return tuple(hook for _, hook in _indexed_hooks(tuple(unique.values()), name))


def _reads_modules(instrument: object) -> bool:
    """Return whether an instrument has hooks that receive and read modules."""
    # True by default: an instrument that keeps a module must not see it change (see `PassInstrument.reads_modules`).
    hooks = [name for name, arguments in HOOKS.items() if "mod" in arguments]
    return bool(getattr(instrument, "reads_modules", True)) and any(find_hook(instrument, name) for name in hooks)


def _function_hooks(instruments: tuple[object, ...]) -> FunctionHooks | None:
    hooks = FunctionHooks(
        before=_hooks(instruments, "run_before_function"),
        after=_hooks(instruments, "run_after_function"),
        failed=_hooks(instruments, "run_after_function_failed"),
        steps=_hooks(instruments, "run_after_function_step"),
        times=_hooks(instruments, "on_hooks"),
    )
    return hooks if hooks.before or hooks.after or hooks.failed or hooks.steps else None


async def answer_of_should_run(answer: Any, instrument: object, info: PassInfo) -> bool:
    """Return the result of a `should_run`, which may be awaitable.

    Raises:
        PassResultError: if it is None.

    """
    hook_label = f"should_run of instrument {instrument_name(instrument)!r}"
    answer = await await_once(answer, hook_label)
    if answer is None:
        raise PassResultError(f"{hook_label} returned None for pass {info.name!r}; return True or False")
    return bool(answer)
