"""The board of searches for an order of LLVM's passes.

    pip install 'apass[llvm,search]'
    python -m benchmarks.phase_order                                  # all programs; takes hours
    python -m benchmarks.phase_order --programs 'lz4,zlib' --strategies random,coreset
    python -m benchmarks.phase_order --page docs/reference/phase_order.md

The command builds the programs with clang-22, and searches each of them with every strategy: 200 candidates of the
space `llvm.size`, whose first 45 are the smaller budget. Values are instructions of LLVM IR, relative to
`opt-22 -passes='default<Oz>'`. The best module of each search is verified by `opt-22 -passes=verify`, linked and run.
Studies are kept, so that the next call continues.
"""

import argparse
import math
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import anyio

from apass.adapters.llvm import load_module
from apass.search import learn_pipelines, search
from benchmarks.machine import describe
from benchmarks.phase_order.bare import OPT, instructions, passes_of_opt, random_search
from benchmarks.phase_order.build import UNOPTIMIZED, Level, Program
from benchmarks.phase_order.collect import BASELINE, SECONDS, count, programs_at
from benchmarks.phase_order.learn import Results, level_of, name_of
from benchmarks.phase_order.programs import PROGRAMS
from benchmarks.phase_order.sources import folder
from benchmarks.rows import RowFile

__all__ = ["Row", "main", "page"]

BUDGETS: Final = (45, 200)
"""Builds of each program: the best after the first so many counts."""
STRATEGIES: Final = ("random", "greedy", "tpe", "evolution", "coreset")
"""The strategies of apass that take part."""
RANDOM: Final = "csmith"
"""How the names of random programs begin."""
BARE: Final = "bare script"
"""The random search of `bare.py`, a check of `random`."""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one search."""

    program: str
    """The name of the program."""
    strategy: str
    """The name of the strategy."""
    before: int
    """Instructions without optimizations."""
    baseline: int
    """Instructions after `default<Oz>`."""
    best: tuple[int, ...]
    """The fewest instructions within each budget; not more than the baseline."""
    works: bool
    """Whether the best module is valid, and the program prints the same with it."""
    failed: int
    """Candidates that failed."""
    saved: float
    """The share of runs of passes that common beginnings saved."""
    seconds: float
    """How long the search took."""
    pipeline: str
    """The best pipeline."""


async def contest(program: Program, strategy: str, results: Results, scratch: Path) -> Row:
    """Search one program with one strategy of apass."""
    path = program.module()
    mod = load_module(path)
    studies = folder() / "studies"
    studies.mkdir(exist_ok=True)
    name = strategy
    if strategy == "coreset":
        name = f"coreset:{learned(program, results, scratch)}"
    start = perf_counter()
    running = search(
        {program.key: mod},
        "llvm.size",
        count,
        strategy=name,
        budget=BUDGETS[-1],
        baseline=BASELINE,
        journal=studies / f"{program.key}-{strategy}.db",
        timeout=SECONDS,
        verify_outputs=False,  # the program runs at the end
    )
    async with running:
        async for _ in running:
            pass
        result = await running.finish()
        trials = list(running.trials()[program.key])
    found = result.modules[program.key]
    baseline = int(found.baseline.values["count"])
    values = [trial.values["count"] if trial.is_valid else math.inf for trial in trials if trial.number]
    best = tuple(int(min([baseline, *values[:budget]])) for budget in BUDGETS)
    target = scratch / "best.ll"
    target.write_text(found.module.text, encoding="utf-8")
    return Row(
        program.key,
        strategy,
        mod.instructions,
        baseline,
        best,
        works(program, target),
        result.failed,
        result.prefixes.saved,
        perf_counter() - start,
        found.pipeline,
    )


def learned(program: Program, results: Results, scratch: Path) -> Path:
    """Write what was learned on the other programs, and return the file."""
    path = scratch / "pipelines.txt"
    path.write_text("\n".join(learn_pipelines(results.without(program.name))), encoding="utf-8")
    return path


def works(program: Program, module: Path) -> bool:
    """Return whether a module is valid, and the program prints the same with it."""
    done = subprocess.run([OPT, "-passes=verify", "-disable-output", module], check=False, timeout=SECONDS)
    return done.returncode == 0 and program.check(module)


def bare(program: Program, baseline: int, scratch: Path) -> Row:
    """Search one program with the bare script."""
    path, start = program.module(), perf_counter()
    found = list(random_search(path, list(passes_of_opt()), BUDGETS[-1], f"board {program.name}"))
    best = tuple(int(min([baseline, *(value for value, _ in found[:budget])])) for budget in BUDGETS)
    seconds = perf_counter() - start
    value, pipeline = found[-1]
    pipeline = pipeline if value < baseline else "default<Oz>"
    target = scratch / "best.ll"
    subprocess.run([OPT, "-S", f"-passes={pipeline}", path, "-o", target], check=True)
    before = instructions(path.read_text(encoding="utf-8"))
    failed = sum(value == math.inf for value, _ in found)
    return Row(program.key, BARE, before, baseline, best, works(program, target), failed, 0.0, seconds, pipeline)


def mean(rows: Sequence[Row], index: int) -> float:
    """Return the geometric mean of best to baseline, within a budget; 1 for none."""
    if not rows:
        return 1.0
    return math.exp(sum(math.log(row.best[index] / row.baseline) for row in rows) / len(rows))


def page(rows: Sequence[Row], machine: str) -> str:
    """Return the page of the board."""
    return "\n".join(_page(rows, machine)) + "\n"


def _page(rows: Sequence[Row], machine: str) -> Iterator[str]:
    programs = dict.fromkeys(name_of(row.program) for row in rows)
    yield "<!-- Generated by `python -m benchmarks.phase_order --page`. Do not edit. -->\n"
    yield "# Orders of LLVM's passes\n"
    yield f"The board searches an order of passes for each of {len(programs)} C programs, with equal budgets. Values"
    yield "are instructions of LLVM IR relative to `opt-22 -passes='default<Oz>'`: -5% is 5% fewer. A search that finds"
    yield "nothing better counts as 0%.\n"
    yield "```sh\npip install 'apass[llvm,search]'"
    levels = list(dict.fromkeys(level_of(row.program) for row in rows))
    chosen = "" if len(programs) == len(PROGRAMS) else f" --programs '{','.join(programs)}'"
    for level in levels:
        strategies = ",".join(dict.fromkeys(row.strategy for row in rows if level_of(row.program) == level))
        target = " --page docs/reference/phase_order.md" if level == levels[-1] else ""
        options = f"--levels {level} --strategies '{strategies}'{chosen}"
        yield f"python -m benchmarks.phase_order --rows board.jsonl {options}{target}"
    yield "```\n"
    yield "The list of `coreset` is learned on the other programs. `bare script` is a random search by a script that"
    yield "calls `opt-22` only, a check of `random`. Every best module is verified, linked and run: the program must"
    yield "print the same. The strategies begin without any pass. `default<Oz>` is one of the steps, which `random`,"
    yield "`greedy` and `tpe` have to find. `random` and `tpe` have the same seed for all programs, so that luck"
    yield "remains in a mean. Programs named csmith are random programs of Csmith.\n"
    for level in dict.fromkeys(level_of(row.program) for row in rows):
        yield from _level(level, [row for row in rows if level_of(row.program) == level])
    yield f"\n{machine}"


LEVELS: Final = {
    "O0": "Modules of `clang -O0`, whose functions are all `noinline`, as in the programs of CompilerGym",
    "Oz": "Modules of `clang -Oz -Xclang -disable-llvm-passes`, as LLVM gets them",
}
"""The headings of the levels."""


def _level(level: str, rows: Sequence[Row]) -> Iterator[str]:
    strategies = [name for name in (BARE, *STRATEGIES) if any(row.strategy == name for row in rows)]
    table = {(row.program, row.strategy): row for row in rows}
    yield f"## {LEVELS[level]}\n"
    yield f"| | {' | '.join(strategies)} |\n|---|{'---:|' * len(strategies)}"
    written = [row for row in rows if not row.program.startswith(RANDOM)]
    for index, budget in enumerate(BUDGETS):
        for title, some in (("geometric mean", rows), ("without random programs", written)):
            cells = [_percent(mean([row for row in some if row.strategy == name], index)) for name in strategies]
            yield f"| {budget} builds, {title} | {' | '.join(cells)} |"
    for title, cell in TOTALS.items():
        cells = [cell([row for row in rows if row.strategy == name]) for name in strategies]
        yield f"| {title} | {' | '.join(cells)} |"
    for index, budget in enumerate(BUDGETS):
        yield f"\n### {budget} builds at {level}\n"
        yield f"| Program | before | Oz | {' | '.join(strategies)} |\n|---|---:|---:|{'---:|' * len(strategies)}"
        for program in dict.fromkeys(row.program for row in rows):
            found = [table.get((program, name)) for name in strategies]
            first = next(row for row in found if row is not None)
            cells = ["" if row is None else _percent(row.best[index] / row.baseline) for row in found]
            yield f"| {name_of(program)} | {first.before:,} | {first.baseline:,} | {' | '.join(cells)} |"
    yield ""


TOTALS: Final[Mapping[str, Callable[[Sequence[Row]], str]]] = {
    "programs that work": lambda rows: f"{sum(row.works for row in rows)} of {len(rows)}",
    "failed candidates": lambda rows: str(sum(row.failed for row in rows)),
    "runs of passes saved": lambda rows: f"{sum(row.saved for row in rows) / len(rows):.0%}",
}
"""Further rows of the first table."""


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}%" if ratio != 1 else "0%"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.phase_order",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--programs", default="*", help="names or patterns with commas between them")
    parser.add_argument("--levels", default="O0,Oz", help="how clang compiles the modules: O0, Oz or both")
    parser.add_argument("--strategies", default=",".join((BARE, *STRATEGIES)), help="names with commas between them")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep finished rows here, and continue from them")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of the documentation")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, print a line for each result, and write the page if asked for."""
    options = _options(arguments)
    patterns = options.programs.split(",")
    levels: list[Level] = [level for level in UNOPTIMIZED if level in options.levels.split(",")]
    programs = [each for each in programs_at(*levels) if any(fnmatch(each.name, pattern) for pattern in patterns)]
    results = Results.load()
    file = RowFile(options.rows, _row)
    rows = file.read()
    for program in programs:
        for strategy in options.strategies.split(","):
            if any((row.program, row.strategy) == (program.key, strategy) for row in rows):
                continue
            with TemporaryDirectory(prefix="apass-board-") as scratch:
                if strategy == BARE:
                    row = bare(program, oz(program), Path(scratch))
                else:
                    row = anyio.run(contest, program, strategy, results, Path(scratch))
            rows.append(row)
            file.append([row])
            bests = " ".join(f"{_percent(best / row.baseline):>7}" for best in row.best)
            verdict = "works" if row.works else "FAILS"
            print(
                f"{row.program:15} {row.strategy:12} {row.baseline:6} {bests}  {verdict}  {row.seconds:.0f} s",
                flush=True,
            )
    if options.page is not None:
        options.page.write_text(page(rows, _machine()), encoding="utf-8")
    for strategy in dict.fromkeys(row.strategy for row in rows):
        found = [row for row in rows if row.strategy == strategy]
        means = "  ".join(f"{_percent(mean(found, index))} in {budget}" for index, budget in enumerate(BUDGETS))
        print(f"{strategy:12} {means}  ({len(found)} programs)")


def _row(values: dict[str, Any]) -> Row:
    return replace(Row(**values), best=tuple(values["best"]))


def _machine() -> str:
    machine, version = describe(), subprocess.run([OPT, "--version"], capture_output=True, text=True, check=True).stdout
    llvm = next(line.strip() for line in version.splitlines() if "version" in line)
    return (
        f"Made on {machine['date'][:10]} with {llvm} and {machine['python']} on {machine['platform']}, "
        f"{machine['cpus']} processors."
    )


def oz(program: Program) -> int:
    """Return the instructions after `default<Oz>`."""
    command = [OPT, "-S", "-passes=default<Oz>", str(program.module()), "-o", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    return instructions(done.stdout.decode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main()
