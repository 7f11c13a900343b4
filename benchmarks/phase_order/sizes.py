"""Sizes of the programs, and checks of each.

    python -m benchmarks.phase_order.sizes [PIPELINE]

prints the instructions of each program without optimizations and after a pipeline of `opt`, by default `default<Oz>`,
and whether the program still works.
"""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.phase_order.bare import OPT, instructions
from benchmarks.phase_order.programs import PROGRAMS

__all__ = ["main"]


def main(pipeline: str = "default<Oz>") -> None:
    """Print a line for each program."""
    for program in PROGRAMS:
        module = program.module()
        with TemporaryDirectory() as text:
            path = Path(text) / "module.ll"
            begin = time.perf_counter()
            subprocess.run([OPT, f"-passes={pipeline},verify", "-S", str(module), "-o", str(path)], check=True)
            seconds = time.perf_counter() - begin
            before, after = (instructions(file.read_text(encoding="utf-8")) for file in (module, path))
            verdict = "works" if program.check(path) else "FAILS"
        print(f"{program.name:12} {program.domain:48} {before:6} {after:6} {seconds:5.2f} s  {verdict}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
