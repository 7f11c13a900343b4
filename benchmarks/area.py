"""Benchmarks of one file: `python -m benchmarks.FILE` runs them."""

import argparse
import gc
import inspect
import json
import shutil
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from benchmarks.measure import SESSION, Row, Session

BACKENDS = ("asyncio", "trio")
QUICK_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A function that records rows; a coroutine function runs on each event loop."""

    run: Callable[[int], Awaitable[None]] | Callable[[int], None]
    """Takes the number of rounds."""
    rounds: int = 15
    """Rounds unless the command line has another number."""
    quick: bool = False
    """Whether it belongs to the quick subset; it then takes a few seconds at most."""
    needs: tuple[str, ...] = ()
    """Libraries and programs without which it is left out."""

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.run.__name__

    @property
    def summary(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.run) or "").partition("\n")[0]


@dataclass(slots=True)
class Outcome:
    """Results of benchmarks."""

    rows: list[Row] = field(default_factory=list[Row])
    left_out: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """What is not installed, by the name of the benchmark that needs it."""
    errors: list[str] = field(default_factory=list[str])
    """Names of the benchmarks that raised."""

    def as_json(self) -> dict[str, Any]:
        """Return values for a JSON document."""
        rows = [{**asdict(row), "holds": row.holds} for row in self.rows]
        return {"rows": rows, "left_out": self.left_out, "errors": self.errors}

    def add_json(self, values: dict[str, Any]) -> None:
        """Add the results of a JSON document."""
        for row in values["rows"]:
            self.rows.append(Row(**{name: value for name, value in row.items() if name != "holds"}))
        self.left_out.update(values["left_out"])
        self.errors.extend(values["errors"])


def missing(needs: Iterable[str]) -> list[str]:
    """Return the libraries and programs that are not installed."""
    return [name for name in needs if find_spec(name) is None and shutil.which(name) is None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all commands have."""
    parser.add_argument("--quick", action="store_true", help="run the quick subset, with few rounds")
    parser.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="run the benchmarks with this name: FILE or FILE.FUNCTION, with * and ?; can be repeated",
    )
    parser.add_argument(
        "--backend", choices=[*BACKENDS, "both"], default="asyncio", help="event loop of the benchmarks"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="number of rounds, in place of each benchmark's own")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and run none")


def selects(only: Sequence[str] | None, area: str, name: str | None = None) -> bool:
    """Return whether the patterns select a benchmark.

    Without a name, return whether they may select one of the file.
    """
    for pattern in only or ("*",):
        area_pattern, _, name_pattern = pattern.partition(".")
        if fnmatch(area, area_pattern) and (name is None or fnmatch(name, name_pattern or "*")):
            return True
    return False


def main(file: str, benchmarks: Sequence[Benchmark], arguments: Sequence[str] | None = None) -> int:
    """Run the selected benchmarks of a file; return 1 if one raised, and 0 otherwise."""
    area = Path(file).stem
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{area}")
    add_options(parser)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="write the results as JSON")
    options = parser.parse_args(arguments)
    chosen = [
        benchmark
        for benchmark in benchmarks
        if selects(options.only, area, benchmark.name) and (benchmark.quick or not options.quick)
    ]
    outcome = Outcome()
    if chosen and not options.list:
        print(f"\n{area}", flush=True)
    for benchmark in chosen:
        if options.list:
            name = f"{area}.{benchmark.name}"
            print(f"{name:<32} {benchmark.summary}{' (quick)' if benchmark.quick else ''}")
            continue
        is_async = inspect.iscoroutinefunction(benchmark.run)
        for backend in BACKENDS if options.backend == "both" and is_async else (options.backend,):
            not_installed = missing([*benchmark.needs, *([backend] if is_async else [])])
            if not_installed:
                outcome.left_out[f"{area}.{benchmark.name}"] = not_installed
                continue
            rounds = options.rounds or (min(benchmark.rounds, QUICK_ROUNDS) if options.quick else benchmark.rounds)
            session = Session(area, backend if is_async else "", options.quick)
            try:
                run_one(benchmark, rounds, session, backend)
            except Exception:
                traceback.print_exc()
                outcome.errors.append(f"{area}.{benchmark.name}")
            outcome.rows += session.rows
    if options.rows:
        options.rows.write_text(json.dumps(outcome.as_json()), encoding="utf-8")
    return int(bool(outcome.errors))


def run_one(benchmark: Benchmark, rounds: int, session: Session, backend: str) -> None:
    """Run a benchmark as the current session."""
    token = SESSION.set(session)
    # A collection before each sample would otherwise visit all objects of the imported libraries.
    gc.collect()
    gc.freeze()
    try:
        if inspect.iscoroutinefunction(benchmark.run):
            anyio.run(benchmark.run, rounds, backend=backend)
        else:
            benchmark.run(rounds)
    finally:
        gc.unfreeze()
        SESSION.reset(token)
