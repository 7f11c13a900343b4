"""Time to import apass and to run its commands, in new processes.

python -m benchmarks.start [--rounds 9]

`xdsl-opt` is the peer of `apass --help`, if it is on the path or named by the environment variable `XDSL_OPT`.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.area import Benchmark, main
from benchmarks.measure import cached_bytecode, record_rounds

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


def import_seconds(module: str, environment: Mapping[str, str]) -> Callable[[], float]:
    """Return a job that measures an import from within a new process."""
    command = [sys.executable, "-c", TIMED_IMPORT.format(module)]
    return lambda: float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def process_seconds(command: Sequence[str], environment: Mapping[str, str]) -> Callable[[], float]:
    """Return a job that measures a whole process."""

    def measure() -> float:
        start = perf_counter()
        subprocess.run(command, env=environment, capture_output=True, check=True)
        return perf_counter() - start

    return measure


def compare(
    name: str, ours: Callable[[], float], other: Callable[[], float], bound: float, peer: str, rounds: int
) -> None:
    """Run both jobs alternately, after a warm-up, and record the row."""
    pairs = [(ours(), other()) for _ in range(rounds + 1)][1:]
    record_rounds(name, [our for our, _ in pairs], [peer_seconds for _, peer_seconds in pairs], bound, peer)


def imports(rounds: int) -> None:
    """Measure `import apass` and a first pass in new processes."""
    python = [sys.executable, "-c"]
    with cached_bytecode() as environment:
        ours, other = import_seconds("apass", environment), import_seconds("anyio", environment)
        compare("import apass", ours, other, 3.0, "import anyio", rounds)
        ours = process_seconds([*python, FIRST_PASS], environment)
        other = process_seconds([*python, FIRST_TASK], environment)
        compare("process that runs one pass", ours, other, 3.0, "anyio.run", rounds)


def commands(rounds: int) -> None:
    """Measure whole runs of the command line."""
    apass = str(Path(sysconfig.get_path("scripts")) / "apass")
    xdsl_opt = os.environ.get("XDSL_OPT") or shutil.which("xdsl-opt")
    with tempfile.TemporaryDirectory() as folder, cached_bytecode() as environment:
        if xdsl_opt is not None:
            ours = process_seconds([apass, "--help"], environment)
            other = process_seconds([xdsl_opt, "--help"], environment)
            compare("apass --help", ours, other, 1.0, "xdsl-opt --help", rounds)
        # The model is a Relay program, so that only `apass[cli,relay]` is needed.
        model = Path(folder) / "model.relay"
        model.write_text(MODEL)
        ours = process_seconds([apass, "opt", str(model)], environment)
        other = process_seconds([sys.executable, "-c", LIBRARIES], environment)
        compare("apass opt of one small model", ours, other, 4.0, "imports of its libraries", rounds)


BENCHMARKS = (Benchmark(imports, rounds=9, quick=True), Benchmark(commands, rounds=9))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
