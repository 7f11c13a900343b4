"""Times of modules of TVM on the CPU, for the objective `latency` of a search."""

import os
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Any, Final

import numpy as np
from anyio import BrokenWorkerProcess, fail_after, to_thread

from apass.adapters.tvm.adapter import ADAPTER
from apass.adapters.tvm.library import BaseFunc, IRModule, short_reason, tvm
from apass.adapters.tvm.outputs import SEED, TIME_LIMIT, machine_of, random_arguments, random_array
from apass.core.context import PassContext, waiting_for
from apass.errors import AdapterError
from apass.util.paired_times import AlternatingRounds, PairedTimes

__all__ = ["compare_times"]

NARROW: Final = 0.01
"""The width of the interval of the ratio at which a comparison ends."""

MAX_SECONDS: Final = 2.0
"""Seconds after which no further round is started."""

MIN_ROUNDS: Final = 6
"""Minimum number of rounds, however long they take. A rank test of less finds no difference."""

SHORTEST: Final = 1e-3
"""Seconds that a run takes at least: a function that takes less is called several times."""

Run = Callable[[int], float]
"""Calls the functions of a module the given number of times; returns the mean seconds."""


async def compare_times(before: IRModule, after: IRModule) -> PairedTimes:
    """Compile two modules for the CPU, run them alternately, and return the times.

    Each public Relax function is called with random arguments. If there is none, it is each public TIR function, with
    random buffers. The module before decides about functions and arguments. They run on one thread, in the measurement
    lane, with the rights of this process.

    Raises:
        AdapterError: if there is no such function, or one cannot be compiled or called, takes too long or crashes.

    """
    names = _public_names(before)
    data = await to_thread.run_sync(lambda: [ADAPTER.dumps(mod) for mod in (before, after)])
    with waiting_for("its time in TVM"):
        async with PassContext.current().measuring() as measurement:
            try:
                with fail_after(TIME_LIMIT):
                    return await measurement.call(_measure, data, names)
            except TimeoutError as error:
                raise AdapterError(f"TVM did not compile and run the modules within {TIME_LIMIT:g} s") from error
            except BrokenWorkerProcess as error:
                raise AdapterError("TVM crashed: the process that runs the modules ended") from error


def _public_names(mod: IRModule) -> list[str]:
    """Return the names of the functions to call: those of Relax, or else those of TIR.

    Raises:
        AdapterError: if there are none.

    """
    public = [(name, func) for name, func in ADAPTER.functions(mod) if func.attrs and "global_symbol" in func.attrs]
    # The functions of Relax call the others.
    of_relax = [name for name, func in public if isinstance(func, tvm.relax.Function)]
    if not public:
        raise AdapterError("the module has no public function to run")
    return of_relax or [name for name, _ in public]


def _measure(data: Sequence[bytes], names: Sequence[str]) -> PairedTimes:
    """Implement `compare_times`, in a worker process."""
    # Otherwise TVM would move this thread to a core of its own choice, and parallel loops to the other cores.
    os.environ["TVM_BIND_THREADS"] = "0"
    tvm.get_global_func("runtime.config_threadpool")(1, 1)
    before, after = map(ADAPTER.loads, data)
    functions = [before[name] for name in names]
    runs = [_prepared(mod, functions, names, label) for mod, label in ((before, "before"), (after, "after"))]
    numbers = [max(1, ceil(SHORTEST / run(1))) for run in runs]
    rounds = AlternatingRounds(width=NARROW, seconds=MAX_SECONDS, least=MIN_ROUNDS)
    for index in rounds:
        rounds.record(runs[index](numbers[index]))
    return rounds.paired()


def _prepared(mod: IRModule, functions: Sequence[BaseFunc], names: Sequence[str], label: str) -> Run:
    """Compile a module, and return a function that runs it.

    Raises:
        AdapterError: if that fails, or a function cannot be called.

    """
    # Each module has arguments of its own: a TIR function writes to some.
    arguments = [list(_arguments(func, name)) for name, func in zip(names, functions, strict=True)]
    try:
        device = tvm.cpu()
        is_relax = isinstance(functions[0], tvm.relax.Function)
        # TVM's loop is in C++, so that the time of a call from Python is not in the times.
        timed = machine_of(mod) if is_relax else tvm.compile(mod, target="llvm").mod

        def run(number: int) -> float:
            evaluators = [timed.time_evaluator(name, device, number=number) for name in names]
            times = (evaluator(*given).mean for evaluator, given in zip(evaluators, arguments, strict=True))
            return float(sum(times))

        run(1)
    except Exception as error:  # TVM raises errors of many types
        raise AdapterError(f"TVM cannot compile and run the module {label}: {short_reason(error)}") from None
    return run


def _arguments(func: BaseFunc, name: str) -> Iterator[Any]:
    """Iterate over random arguments.

    Raises:
        AdapterError: if a parameter has a type without random values.

    """
    if isinstance(func, tvm.relax.Function):
        yield from random_arguments(func, SEED, lambda value: value)
        return
    random = np.random.default_rng(SEED)
    for param in func.params:
        kind = param.ty
        is_buffer = isinstance(kind, tvm.tirx.buffer.BufferType)
        if not is_buffer or not all(isinstance(size, tvm.tirx.IntImm) for size in kind.shape):
            raise AdapterError(f"parameter {param.name!r} of {name!r} is no buffer of static shape")
        yield tvm.runtime.tensor(random_array(random, [int(size) for size in kind.shape], str(kind.dtype)))
