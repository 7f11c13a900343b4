"""Costs of ONNX models, as keys of a `Race`: latency, nodes, and bytes.

`Race{key=onnx.latency}(onnx.Default,ort.Basic)` takes the faster result.
"""

from collections.abc import Callable, Sequence
from math import floor, log10
from statistics import median
from time import perf_counter
from typing import Any, Final

import onnx_ir as ir
from anyio import BrokenWorkerProcess, fail_after, to_thread

from apass.adapters.onnx import ADAPTER, count_nodes
from apass.adapters.onnx.outputs.evaluation import runtime_session
from apass.adapters.onnx.outputs.input_search import InputSearch
from apass.adapters.onnx.outputs.inputs import parsed
from apass.core.context import PassContext, waiting_for
from apass.core.named_callables import register_callable
from apass.errors import AdapterError, MissingExtraError
from apass.util.paired_times import AlternatingRounds, PairedTimes
from apass.util.text import short_reason

__all__ = ["compare_latency", "count_bytes", "count_nodes", "is_slower", "latency", "measure_latencies"]

WARM_UP: Final = 3
"""Number of runs of each model before the measurement."""

MAX_SECONDS: Final = 2.0
"""Seconds after which no further round is started."""

MIN_ROUNDS: Final = 6
"""Minimum number of rounds, however long they take. A rank test of less finds no difference."""

FEW_ROUNDS: Final = 20
"""Number of rounds after which a model that is not slower is recognized."""

NARROW: Final = 0.01
"""The width of the interval of a ratio at which a comparison ends."""

TIME_LIMIT: Final = 120.0
"""Seconds after which the process of a measurement is killed."""

TOLERATED: Final = 0.03
"""A model whose median is longer by this share at most is not slower."""

CHANCE: Final = 0.001
"""The chance of taking an equally fast model for a slower one."""

IsEnough = Callable[[PairedTimes], bool]
"""Whether the times of two models decide."""

Measured = float | str
"""The median in seconds, or the reason why a model cannot be run."""


@register_callable("onnx.latency")
async def latency(mod: ir.Model) -> float:
    """Return the latency of a model in onnxruntime, in seconds, rounded to two digits.

    Rounding makes models of about the same speed equal, so that a Race takes the first of them.

    Raises:
        AdapterError: if onnxruntime cannot run the model.
        MissingExtraError: if onnxruntime is not installed.

    """
    measured = (await measure_latencies([mod]))[0]
    if isinstance(measured, str):
        raise AdapterError(f"onnxruntime cannot run the model: {measured}")
    return round(measured, 1 - floor(log10(measured))) if measured > 0 else measured


register_callable("onnx.nodes")(count_nodes)


@register_callable("onnx.bytes")
async def count_bytes(mod: ir.Model) -> int:
    """Return the number of bytes of a model in a file, with its weights."""
    return len(await to_thread.run_sync(ADAPTER.dumps, mod))


async def measure_latencies(
    models: Sequence[ir.Model], *, rounds: int = 20, seed: int = 0, time_limit: float = 120.0
) -> list[Measured]:
    """Run models with onnxruntime on one thread, and return the median time of each.

    All models must have the inputs of the first, for which random values are made. One worker process runs them in
    turns, so that a load of the machine affects them alike. The call holds the measurement lane of the machine.

    Parameters:
        models: the models.
        rounds: number of runs of each model after the warm-up; fewer if they take longer than two seconds.
        seed: seed of the random inputs.
        time_limit: seconds after which the process is killed.

    Raises:
        AdapterError: if there are no random inputs for the models, or the process does not end in time or crashes.
        MissingExtraError: if onnxruntime is not installed.

    """
    found = await _in_worker(models, rounds, seed, time_limit)
    return [times if isinstance(times, str) else median(times) for times in found]


async def compare_latency(before: ir.Model, after: ir.Model, *, rounds: int = 200) -> PairedTimes:
    """Run two models alternately with onnxruntime on one thread, and return the times.

    The rounds end when the interval of the ratio is narrow, or after two seconds. The first model decides the inputs.

    Raises:
        AdapterError: if onnxruntime cannot run a model, or the process does not end in time or crashes.
        MissingExtraError: if onnxruntime is not installed.

    """
    found = await _in_worker([before, after], rounds, 0, TIME_LIMIT, _is_narrow)
    for times in found:
        if isinstance(times, str):
            raise AdapterError(f"onnxruntime cannot run the model: {times}")
    first, second = (tuple(times) for times in found if not isinstance(times, str))
    return PairedTimes(first, second)


def _is_narrow(times: PairedTimes) -> bool:
    """Return whether the interval of the ratio is as narrow as `NARROW`."""
    low, high = times.interval
    return times.rounds % FEW_ROUNDS == 0 and high - low <= NARROW


async def is_slower(before: ir.Model, after: ir.Model, *, rounds: int = 200, time_limit: float = 120.0) -> bool:
    """Return whether onnxruntime runs a model slower than another, or not at all.

    Both run alternately in one process. It is slower if the median is more than `TOLERATED` longer, and a rank test of
    the rounds gives such times a chance of less than `CHANCE` for equal models. The measurement ends early if the
    median is not longer.

    Raises:
        AdapterError: if the model before cannot be run, or the process does not end in time or crashes.
        MissingExtraError: if onnxruntime is not installed.

    """
    first, second = await _in_worker([before, after], rounds, 0, time_limit, _is_as_fast)
    if isinstance(first, str):
        raise AdapterError(f"onnxruntime cannot run the model: {first}")
    if isinstance(second, str):
        return True
    times = PairedTimes(tuple(first), tuple(second))
    # The test has two sides, each with half of the chance.
    return times.ratio > 1 + TOLERATED and times.p_value < 2 * CHANCE


def _is_as_fast(times: PairedTimes) -> bool:
    """Return whether a few rounds show that the second model is not slower."""
    return times.rounds % FEW_ROUNDS == 0 and times.ratio <= 1


async def _in_worker(
    models: Sequence[ir.Model], rounds: int, seed: int, time_limit: float, is_enough: IsEnough | None = None
) -> list[list[float] | str]:
    """Return the times of the runs of each model, or why it cannot be run.

    The measurement ends early if `is_enough` returns true for the times of all models.
    """
    with waiting_for("its latency in onnxruntime"):
        data = [await to_thread.run_sync(ADAPTER.dumps, model) for model in models]
        async with PassContext.current().measuring() as measurement:
            try:
                with fail_after(time_limit):
                    return await measurement.call(_measure, data, rounds, seed, is_enough)
            except TimeoutError as error:
                raise AdapterError(f"onnxruntime did not measure the latency within {time_limit:g} s") from error
            except BrokenWorkerProcess as error:
                raise AdapterError("onnxruntime crashed: the process that measures the latency ended") from error
            except ValueError as error:
                raise AdapterError(f"the latency cannot be measured: {error}") from error


def _measure(models: Sequence[bytes], rounds: int, seed: int, is_enough: IsEnough | None) -> list[list[float] | str]:
    """Implement `_in_worker`, in a worker process."""
    search = InputSearch(parsed(models[0]), {}, seed)
    results: dict[int, list[float] | str] = {}
    sessions: dict[int, Any] = {}
    inputs: dict[str, Any] | None = None
    for index, model in enumerate(models):
        try:
            sessions[index] = runtime_session(model, "ORT_ENABLE_ALL")
            # The first model decides the inputs.
            inputs = _accepted(sessions[index], search) if inputs is None else inputs
            for _ in range(WARM_UP):
                sessions[index].run(None, inputs)
        except MissingExtraError:
            raise
        except Exception as error:
            # onnxruntime raises errors of its own types for models that it does not support.
            results[index] = short_reason(error)
            sessions.pop(index, None)
    results.update(zip(sessions, _times([*sessions.values()], inputs, rounds, is_enough), strict=True))
    return [results[index] for index in range(len(models))]


def _times(sessions: Sequence[Any], inputs: Any, rounds: int, is_enough: IsEnough | None) -> Sequence[list[float]]:
    """Run sessions alternately; return the seconds of the runs of each."""
    if not sessions:
        return ()
    loop = AlternatingRounds(len(sessions), seconds=MAX_SECONDS, most=rounds, least=MIN_ROUNDS)
    for index in loop:
        start = perf_counter()
        sessions[index].run(None, inputs)
        loop.record(perf_counter() - start)
        if is_enough is not None and len(sessions) > 1 and loop.is_complete and is_enough(loop.paired()):
            break
    return loop.times


def _accepted(session: Any, search: InputSearch) -> dict[str, Any]:
    """Return inputs with which a session runs."""
    start, first = perf_counter(), None
    for candidate in search.candidates({}):
        try:
            session.run(None, candidate)
        except Exception as error:  # onnxruntime raises errors of its own types
            first = first or error
            if perf_counter() - start > search.seconds:
                break
        else:
            return candidate
    raise first or ValueError("there are no inputs")
