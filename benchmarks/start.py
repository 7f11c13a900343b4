"""Time to import apass and to run its commands, in new processes.

`xdsl-opt` is the peer of `apass --help` if it is on the path, or named by `--xdsl-opt`. The bounds hold for medians.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio
from measure import Ratio

TIMED_IMPORT = "from time import perf_counter; start = perf_counter(); import {}; print(perf_counter() - start)"
FIRST_PASS = """
from apass import module_pass, run
@module_pass(opt_level=0)
def keep(mod, ctx):
    return mod
run(keep, {"f": 1})
"""
FIRST_TASK = """
from anyio import run
async def main():
    pass
run(main)
"""
MODEL = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { add(%x, add(1f, 2f)) }\n'
LIBRARIES = "import typer, rich.console, rich.progress, numpy, lark, anyio._backends._asyncio"
"""The libraries with which `apass opt` runs a Relay model."""


def import_seconds(module: str) -> Callable[[], float]:
    """Return a job that measures an import from within a new process."""
    command = [sys.executable, "-c", TIMED_IMPORT.format(module)]
    return lambda: float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def process_seconds(command: Sequence[str]) -> Callable[[], float]:
    """Return a job that measures a whole process."""

    def measure() -> float:
        start = perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        return perf_counter() - start

    return measure


def compare(
    name: str, ours: Callable[[], float], other: Callable[[], float], bound: float, peer: str, rounds: int
) -> Ratio:
    """Run both jobs alternately, after a warm-up; print and return the ratio.

    The ratio is that of the medians over `rounds`.
    """
    pairs = [(ours(), other()) for _ in range(rounds + 1)][1:]
    our_median, other_median = (statistics.median(column) for column in zip(*pairs, strict=True))
    result = Ratio(name, our_median, other_median, bound, peer)
    print(result, flush=True)
    return result


async def rows(rounds: int, xdsl_opt: str | None = None) -> list[Ratio]:
    """Measure and print each row.

    The model is a Relay program, so that only `apass[cli,relay]` is needed.
    """
    python = [sys.executable, "-c"]
    apass = str(Path(sysconfig.get_path("scripts")) / "apass")
    xdsl_opt = xdsl_opt or shutil.which("xdsl-opt")
    results = [
        compare("import apass", import_seconds("apass"), import_seconds("anyio"), 3.0, "import anyio", rounds),
        compare(
            "import apass, whole process",
            process_seconds([*python, "import apass"]),
            process_seconds([*python, "import anyio"]),
            3.0,
            "import anyio",
            rounds,
        ),
        compare(
            "process that runs one pass",
            process_seconds([*python, FIRST_PASS]),
            process_seconds([*python, FIRST_TASK]),
            3.0,
            "anyio.run",
            rounds,
        ),
    ]
    if xdsl_opt is not None:
        ours, other = process_seconds([apass, "--help"]), process_seconds([xdsl_opt, "--help"])
        results.append(compare("apass --help", ours, other, 1.0, "xdsl-opt --help", rounds))
    with TemporaryDirectory() as folder:
        model = Path(folder) / "model.relay"
        model.write_text(MODEL)
        ours = process_seconds([apass, "opt", str(model)])
        other = process_seconds([*python, LIBRARIES])
        results.append(compare("apass opt of one small model", ours, other, 4.0, "imports of its libraries", rounds))
    return results


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--xdsl-opt", metavar="PATH", help="the command xdsl-opt, if it is not on the path")
    arguments = parser.parse_args()
    anyio.run(rows, arguments.rounds, arguments.xdsl_opt)


if __name__ == "__main__":
    main()
