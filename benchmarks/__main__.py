"""Runs all benchmarks, and prints one table of their rows."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.area import Outcome, add_options, missing, selects
from benchmarks.machine import calibrate, describe
from benchmarks.measure import Row, quantity

AREAS: Final[Mapping[str, tuple[str, ...]]] = {
    "benchmarks.runner": (),
    "benchmarks.against_tvm": ("tvm",),
    "benchmarks.command_line": ("typer", "onnx", "onnx_ir"),
    "benchmarks.start": ("typer", "numpy", "lark"),
    "benchmarks.many_modules": ("onnx", "onnx_ir"),
    "benchmarks.caching": ("onnx", "onnx_ir"),
    "benchmarks.search": (),
    "benchmarks.executors": ("distributed",),
    "benchmarks.service": ("fastapi", "uvicorn", "psutil", "onnx", "onnx_ir"),
    "benchmarks.service_model": ("fastapi", "uvicorn", "psutil", "onnx", "onnx_ir"),
    "benchmarks.instruments": ("onnx", "onnx_ir", "opentelemetry.sdk", "rich"),
    "benchmarks.relay_walk": ("numpy", "lark"),
    "benchmarks.relay_text": ("numpy", "lark"),
    "benchmarks.relay_kernels": ("numpy", "lark"),
    "benchmarks.relay_passes": ("numpy", "lark", "onnx", "onnx_ir"),
    "benchmarks.tvm_passes": ("tvm", "onnx"),
    "benchmarks.llvm": ("llvmlite",),
    "benchmarks.xdsl": ("xdsl",),
    "benchmarks.report": ("playwright",),
    "benchmarks.mlir": ("stamina",),
}
"""The files with benchmarks, and the libraries that each imports."""

COLUMNS: Final = ("area", "row", "loop", "apass", "peer", "ratio", "spread", "bound", "", "compared with")


def main(arguments: Sequence[str] | None = None, areas: Mapping[str, tuple[str, ...]] = AREAS) -> int:
    """Run the selected benchmarks; return 1 if one raised, and 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table, the machine and its calibration")
    options = parser.parse_args(arguments)
    chosen = {module: needs for module, needs in areas.items() if selects(options.only, area_of(module))}
    shared = [f"--backend={options.backend}", *(f"--only={pattern}" for pattern in options.only or ())]
    shared += ["--quick"] if options.quick else []
    shared += [f"--rounds={options.rounds}"] if options.rounds else []
    outcome = Outcome()
    before = {} if options.list else calibrate()
    for module, needs in chosen.items():
        not_installed = missing(needs)
        if not_installed:
            outcome.left_out[area_of(module)] = not_installed
        elif options.list:
            run_file(module, [*shared, "--list"], outcome)
        else:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "rows.json"
                run_file(module, [*shared, f"--rows={file}"], outcome)
                if file.exists():
                    outcome.add_json(json.loads(file.read_text(encoding="utf-8")))
    if not options.list:
        # The smaller time of both counts, in case other work began or ended in between.
        after = calibrate()
        calibration = {name: min(value, after[name]) for name, value in before.items()}
        document = {**describe(), "calibration": calibration, **outcome.as_json()}
        print_table(outcome.rows)
        print(summary(document))
        if options.json:
            options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for name, libraries in outcome.left_out.items():
        print(f"left out: {name}, which needs {' and '.join(libraries)}: pip install 'apass[bench]'")
    for name in outcome.errors:
        print(f"raised: {name}")
    return int(bool(outcome.errors))


def area_of(module: str) -> str:
    """Return the name of a file from that of its module."""
    return module.rpartition(".")[2]


def run_file(module: str, arguments: Sequence[str], outcome: Outcome) -> None:
    """Run the benchmarks of a file in a process of its own.

    What one file imports and allocates does not slow down the next. All processes hash text alike, because the order of
    sets and the collisions in dicts change times.
    """
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([sys.executable, "-m", module, *arguments], env=environment, check=False)
    if done.returncode not in (0, 1) or (done.returncode == 1 and not has_rows(arguments)):
        outcome.errors.append(f"{area_of(module)}, exit status {done.returncode}")


def has_rows(arguments: Sequence[str]) -> bool:
    """Return whether the process wrote its rows and its errors."""
    files = [argument.partition("=")[2] for argument in arguments if argument.startswith("--rows=")]
    return all(Path(file).exists() for file in files)


def summary(document: Mapping[str, Any]) -> str:
    """Return the lines about the machine and the bounds."""
    python, memory = (quantity(document["calibration"][name], "s") for name in ("python", "memory"))
    holds = [row["holds"] for row in document["rows"] if row["holds"] is not None]
    revision = f" ({document['revision']})" if document["revision"] else ""
    return (
        f"apass {document['apass']}{revision}, {document['python']}, {document['platform']}, {document['cpus']} CPUs\n"
        f"calibration: {python} of pure Python, {memory} of copies and hashes\n"
        f"{sum(holds)} of {len(holds)} bounds hold"
    )


def print_table(rows: Iterable[Row]) -> None:
    """Print the rows, as a table of rich if it is installed."""
    cells = [row_cells(row) for row in rows]
    if not cells:
        return
    print()
    if find_spec("rich"):
        print_with_rich(cells)
        return
    widths = [max(map(len, column)) for column in zip(COLUMNS, *cells, strict=True)]
    for line in (COLUMNS, *cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_with_rich(cells: Iterable[Sequence[str]]) -> None:
    """Print a table of rich; lines are wrapped on a terminal only."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in COLUMNS[3:8] else "left")
    for line in cells:
        table.add_row(*map(escape, line), style="bold red" if "OVER" in line else None)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def row_cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row."""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    other = "" if row.other is None else quantity(row.other, row.unit)
    ours = quantity(row.ours, row.unit)
    numbers = (number(row.ratio), number(row.spread), number(row.bound))
    return (row.area, row.name, row.backend, ours, other, *numbers, row.mark, row.peer)


if __name__ == "__main__":
    sys.exit(main())
