"""`SearchDisplay`: the progress of a search, and its result."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any, Final

from rich.console import Console

from apass.cli.terminal import OutputFormat, echo, print_error, print_json
from apass.search.ablation import Effect
from apass.search.options import Budget
from apass.search.result import ModuleResult, SearchResult
from apass.search.trial import Trial
from apass.util.text import count_of, shorten

__all__ = ["SearchDisplay", "change_of"]

MOST_REASONS: Final = 3
"""Reasons of failed candidates that are printed."""


class SearchDisplay:
    """The line of a running search, and its result; or lines of JSON.

    Parameters:
        budget: how long the search lasts.
        output_format: text or JSON.

    """

    def __init__(self, budget: Budget, output_format: OutputFormat) -> None:
        self._budget = budget
        self._is_json = output_format is OutputFormat.JSON
        console = Console(stderr=True)
        self._status = console.status("evaluating the baselines") if console.is_terminal and not self._is_json else None
        self._count = 0
        self._reasons: Counter[str] = Counter()
        self._failures: dict[str, Trial] = {}
        """A trial for each reason; one with a reproducer, if there is any."""

    def __enter__(self) -> "SearchDisplay":
        if self._status is not None:
            self._status.start()
        self._start = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, trial: Trial, ratio: float | None) -> None:
        """Show that a trial has ended."""
        self._count += 1
        if self._is_json:
            print_json({"trial": trial.as_json()})
        if not trial.is_valid:
            reason = shorten(trial.reason.partition("\n")[0], 160)
            self._reasons[reason] += 1
            if reason not in self._failures or trial.reproducer:
                self._failures[reason] = trial
        if self._status is not None:
            best = f"best{_percent(ratio)}" if ratio is not None else "no better candidate yet"
            elapsed = perf_counter() - self._start
            rate = self._count / elapsed
            left = self._left(trial.number + 1, rate, elapsed)
            self._status.update(f"{self._count:,} candidates, {best}, {rate:.1f} per second, {left:.0f} s left")

    def _left(self, done: int, rate: float, elapsed: float) -> float:
        """Return the seconds that are left."""
        limits: list[float] = []
        if self._budget.evaluations is not None:
            limits.append((self._budget.evaluations - done) / rate)
        if self._budget.seconds is not None:
            limits.append(self._budget.seconds - elapsed)
        return max(0.0, min(limits))

    def print(self, result: SearchResult[Any], effects: Mapping[str, Sequence[Effect]]) -> None:
        """Print the result, what passes contribute, and why candidates failed."""
        if self._is_json:
            contributions = {name: [asdict(effect) for effect in found] for name, found in effects.items()}
            print_json({"result": result.as_json() | ({"effects": contributions} if contributions else {})})
            return
        for found in result.modules.values():
            _print_module(found, effects.get(found.name, ()))
        echo(_summary(result))
        for reason, count in self._reasons.most_common(MOST_REASONS):
            trial = self._failures[reason]
            folder = f"; reproducer: {trial.reproducer}" if trial.reproducer else ""
            print_error(f"{count_of(count, 'candidate')} failed, as {shorten(trial.pipeline, 80)}: {reason}{folder}")


def change_of(found: ModuleResult[Any]) -> str:
    """Return the first value before and after."""
    before, after = found.baseline.values[found.objective], found.values[found.objective]
    text = f"{found.objective} {before:,.6g}"
    return text if before == after else f"{text} -> {after:,.6g}{_percent(found.ratio)}"


def _print_module(found: ModuleResult[Any], effects: Sequence[Effect]) -> None:
    echo(f"{found.name}: {change_of(found)}, {count_of(found.trials, 'candidate')}")
    for trial in found.front:
        values = ", ".join(f"{name} {value:,.6g}" for name, value in trial.values.items())
        echo(f"  {trial.pipeline or '(no pass)'}" + (f"  ({values})" if len(found.front) > 1 else ""))
    for effect in effects:
        gain = "fails without" if effect.gain is None else f"{effect.gain:+,.6g} without"
        echo(f"    {gain} {effect.element}")


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f" ({100 * (ratio - 1):+.1f}%)"


def _summary(result: SearchResult[Any]) -> str:
    mean = f"geometric mean{_percent(result.ratio)}; " if len(result.modules) > 1 and result.ratio is not None else ""
    counts = [f"{result.resumed:,} of an earlier run"] if result.resumed else []
    counts += [f"{count:,} {what}" for count, what in ((result.equal, "equal"), (result.failed, "failed")) if count]
    details = f" ({', '.join(counts)})" if counts else ""
    saved = f", {100 * result.prefixes.saved:.0f}% of pass runs saved" if result.prefixes.runs else ""
    end = "" if result.finished else "; interrupted"
    return f"{mean}{count_of(result.evaluations, 'candidate')}{details}{saved}, {result.seconds:.1f} s{end}"
