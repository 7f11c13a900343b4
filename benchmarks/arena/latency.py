"""Latency of models in onnxruntime, measured alternately in one process.

`python -m benchmarks.arena.latency REPORT SECONDS ORIGINAL ORIGINAL RESULT...` is the process. Two sessions of the same
model differ too, because of where their weights are in memory. The second session of the original shows by how much.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, log, sqrt
from pathlib import Path
from random import Random
from statistics import NormalDist, median
from time import perf_counter
from typing import Any, Final

__all__ = ["Latency", "ratio_interval"]

CONFIDENCE: Final = 0.95
"""The probability that the interval contains the ratio, if the load of the machine is the same for both."""

SAMPLE: Final = 0.002
"""Minimum duration of a sample, in seconds. The time to call a tiny model varies more than the model."""

MIN_ROUNDS: Final = 7
"""Minimum number of rounds. With five, the interval is as wide as all ratios."""

MAX_ROUNDS: Final = 60
"""Maximum number of rounds."""


@dataclass(frozen=True, slots=True)
class Latency:
    """The latency of a result against the original."""

    before: float
    """Median of the original, in seconds."""
    after: float
    """Median of the result, in seconds."""
    low: float
    """Lower end of the interval of the ratio."""
    high: float
    """Upper end of the interval of the ratio."""
    rounds: int
    """Number of samples of the result."""
    control: float = 1.0
    """The ratio of a second session of the original to the first, which is noise."""

    @property
    def ratio(self) -> float:
        """The median of the result divided by that of the original: less is better."""
        return self.after / self.before

    @property
    def change(self) -> str:
        """`faster`, `slower`, or nothing if the difference may be noise.

        It may be noise if the interval contains 1, or the ratio of two sessions of the original.
        """
        noise = max(self.control, 1 / self.control)
        return "faster" if self.high < 1 / noise else "slower" if self.low > noise else ""

    @classmethod
    def of(cls, before: Sequence[float], again: Sequence[float], after: Sequence[float]) -> "Latency":
        """Return the latency from the seconds of the three sessions.

        The first two are sessions of the original.
        """
        both = [*before, *again]
        control = median(again) / median(before)
        return cls(median(both), median(after), *ratio_interval(both, after), len(after), control)


def ratio_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the ratio by the rank test of Mann and Whitney.

    Hodges and Lehmann: the ends are two of all ratios of a value of one sample to a value of the other.
    """
    ratios = sorted(log(second) - log(first) for first in before for second in after)
    first, second = len(before), len(after)
    quantile = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    index = floor(first * second / 2 - quantile * sqrt(first * second * (first + second + 1) / 12))
    index = min(max(index, 0), (len(ratios) - 1) // 2)
    return exp(ratios[index]), exp(ratios[-1 - index])


def measure(models: Sequence[bytes], seconds: float) -> tuple[dict[int, list[float]], dict[int, str]]:
    """Run models alternately; return the seconds by index, and the errors.

    Each round has another order: a model that always ran twice in succession would find its weights in the caches. The
    first model is the original: if it fails, nothing is run.
    """
    sessions: dict[int, Any] = {}
    errors: dict[int, str] = {}
    inputs: Mapping[str, Any] = {}
    for index, model in enumerate(models):
        try:
            sessions[index] = _session(model)
            inputs = inputs if index else _inputs(model, sessions[index])
            sessions[index].run(None, inputs)
        except Exception as error:
            # onnxruntime raises errors of its own types.
            sessions.pop(index, None)
            errors[index] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            if not index:
                break
    runs: dict[int, int] = {}
    for index, session in sessions.items():
        once = min(_seconds(session, inputs, 1) for _ in range(3))
        runs[index] = max(1, ceil(SAMPLE / max(once, 1e-9)))
    times: dict[int, list[float]] = {index: [] for index in sessions}
    order, shuffle = list(sessions), Random(0).shuffle
    end = perf_counter() + seconds
    for count in range(MAX_ROUNDS):
        if count >= MIN_ROUNDS and perf_counter() > end:
            break
        shuffle(order)
        for index in order:
            times[index].append(_seconds(sessions[index], inputs, runs[index]))
    return times, errors


def _session(model: bytes) -> Any:
    from apass.adapters.onnx.outputs.evaluation import runtime_session  # the parent needs no numpy

    return runtime_session(model, "ORT_ENABLE_ALL")


def _inputs(model: bytes, session: Any) -> Mapping[str, Any]:
    """Return inputs with which the model runs.

    Raises:
        ValueError: if there are none.

    """
    from apass.adapters.onnx.outputs.input_search import InputSearch  # see above
    from apass.adapters.onnx.outputs.inputs import parsed

    start, failure = perf_counter(), "there are no inputs"
    search = InputSearch(parsed(model), {}, 0)
    for candidate in search.candidates({}):
        try:
            session.run(None, candidate)
        except Exception as error:
            # onnxruntime raises errors of its own types.
            failure = str(error).strip().partition("\n")[0]
        else:
            return candidate
        if perf_counter() - start > search.seconds:
            break
    raise ValueError(failure)


def _seconds(session: Any, inputs: Mapping[str, Any], runs: int) -> float:
    start = perf_counter()
    for _ in range(runs):
        session.run(None, inputs)
    return (perf_counter() - start) / runs


def main(report: Path, seconds: float, files: Sequence[Path]) -> int:
    """Measure the models of files, and write the times."""
    times, errors = measure([file.read_bytes() for file in files], seconds)
    report.write_text(json.dumps({"times": times, "errors": errors}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), [Path(name) for name in sys.argv[3:]]))
