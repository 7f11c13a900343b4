"""Instruments of passes in a worker: their twins there, and their records.

An instrument that observes whole modules in an executor defines `for_worker`. A worker has no access to the object
itself, so its hooks are called on a twin, and the records of the twin return to the instrument.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any, Protocol, runtime_checkable

from apass.core.instrument import HOOKS, instrument_name
from apass.core.pass_info import AnyPass
from apass.core.run import Run, RunCursor, current_module_name, current_run
from apass.errors import PassContextError

__all__ = [
    "Delegates",
    "PortableInstrument",
    "check_portable",
    "perf_epoch",
    "records_of",
    "remote_run",
    "why_not_portable",
]


@runtime_checkable
class PortableInstrument(Protocol):
    """An instrument whose hooks can be called in a worker.

    Besides `for_worker`, these methods are used if they are defined:

    - `worker_records()`, on the twin: returns what it has recorded. It is called when the pass has ended.
    - `merge_records(records)`, on the instrument: adds what a twin has recorded.
    - `worker_lost(error)`, on the instrument: is called instead if the records do not arrive. `error` is the reason,
      such as a WorkerLostError or the cancellation of the run.
    - `module_lost(mod, error)`, on the instrument: is called after `worker_lost`, with the module that was sent.

    In all methods of the instrument, `current_run()` is the run of the pass that the worker executes.
    """

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin; it is pickled and called in the worker.

        It is called in the task of the run, before each module is sent.
        """
        ...


@dataclass(frozen=True, slots=True)
class Delegates:
    """The instruments of a context, for one module that a worker optimizes."""

    originals: Sequence[Any]
    """The instruments."""
    factories: Sequence[Callable[[], object]]
    """A function for each instrument that creates its twin."""
    run: Run
    """The run of the pass that the worker executes."""

    @classmethod
    def of(cls, pass_: AnyPass, instruments: Iterable[object]) -> "Delegates":
        """Prepare the twins of `instruments`, for a worker that executes `pass_`.

        Raises:
            PassContextError: if an instrument cannot be used in a worker.

        """
        # An object that is listed twice has one twin, and the worker lists it once.
        originals: list[Any] = list({id(instrument): instrument for instrument in instruments}.values())
        check_portable(originals)
        run = Run(pass_.info, None, module=current_module_name(), pass_=pass_)
        run.started = perf_counter()
        # The run of a cursor without an item is its parent.
        with RunCursor(run):
            return cls(originals, [original.for_worker() for original in originals], run)

    def merge(self, records: Sequence[Any]) -> None:
        """Give each instrument the records of its twin."""
        with RunCursor(self.run):
            for original, record in zip(self.originals, records, strict=True):
                merge = getattr(original, "merge_records", None)
                if merge is not None:
                    merge(record)

    def lose(self, mod: Any, error: BaseException) -> None:
        """Report to each instrument that there are no records because of `error`.

        `mod` is the module that was sent.
        """
        self.run.ended = perf_counter()
        with RunCursor(self.run):
            for original in self.originals:
                lost = getattr(original, "worker_lost", None)
                if lost is not None:
                    lost(error)
                module_lost = getattr(original, "module_lost", None)
                if module_lost is not None:
                    module_lost(mod, error)


def remote_run() -> Run:
    """Return the run of the pass that a worker executes.

    It is for the methods of a `PortableInstrument`.
    """
    run = current_run()
    assert run is not None, "the executor sets the run"
    return run


def records_of(twin: Any) -> Any:
    """Return the records of a twin, in the worker; None if it keeps none."""
    records = getattr(twin, "worker_records", None)
    return None if records is None else records()


def check_portable(instruments: Iterable[object]) -> None:
    """Check that instruments can observe passes in a worker.

    Raises:
        PassContextError: if one cannot. The message names it and the reason.

    """
    for instrument in instruments:
        reason = why_not_portable(instrument)
        if reason is not None:
            raise PassContextError(
                f"instrument {instrument_name(instrument)!r} cannot observe whole modules in an executor: {reason}; "
                "remove it, or choose the executor for single passes: function_pass(executor=...)"
            )


def why_not_portable(instrument: object) -> str | None:
    """Return why an instrument cannot be used in a worker, or None if it can.

    An instrument states its own reason in an attribute `not_for_worker`.
    """
    reason: object = getattr(instrument, "not_for_worker", None)
    if isinstance(reason, str):
        return reason
    kind = type(instrument)
    if not isinstance(instrument, PortableInstrument):
        return f"{kind.__name__} does not define for_worker()"
    for base in kind.__mro__:
        if "for_worker" in vars(base):
            break
        # The twin would be one of the base class, without these hooks.
        overridden = [name for name in HOOKS if name in vars(base)]
        if overridden:
            return f"{base.__name__} overrides {', '.join(overridden)}, but not for_worker()"
    return None


def perf_epoch() -> float:
    """Return the `time.time` at which `perf_counter` was 0 in this process.

    The difference of two processes converts times of one to the clock of the other.
    """
    return time() - perf_counter()
