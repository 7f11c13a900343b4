"""Random search over orders of passes, by a script that only calls `opt`.

    python -m benchmarks.phase_order.bare [--budget 45] [--seed 0] [PROGRAM ...]

It is the check of the board: apass's random search over `llvm.size` must come out alike. The names of the passes are
those of that space; everything else is its own.
"""

import argparse
import math
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from apass.adapters.llvm.spaces import MOST_SMALL, SMALL
from benchmarks.phase_order.programs import PROGRAMS

__all__ = ["instructions", "main", "passes_of_opt", "random_search"]

OPT: Final = "opt-22"
SECONDS: Final = 30
"""Maximum time of a build; a sequence that needs more counts as a failure."""

_INSTRUCTION: Final = re.compile(
    r"^[ \t]+(?:"
    r'%(?:"[^"\n]*"|[-A-Za-z0-9$._]+)[ \t]*=|\#dbg_|(?:(?:tail|musttail|notail)[ \t]+)?call\b|store\b|br\b|ret\b'
    r"|unreachable\b|switch\b|invoke\b|fence\b|resume\b|indirectbr\b|callbr\b|cleanupret\b|catchret\b)",
    re.MULTILINE,
)
"""The start of an instruction in a printed module."""


def instructions(text: str) -> int:
    """Return the number of instructions in a printed module, as `Module.instructions`."""
    return len(_INSTRUCTION.findall(text))


def count(module: Path, passes: str) -> int | None:
    """Return the number of instructions after some passes; None if `opt` fails."""
    command = [OPT, "-S", f"-passes={passes}", str(module), "-o", "-"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return None if done.returncode else instructions(done.stdout.decode("utf-8", "surrogateescape"))


def passes_of_opt() -> Iterator[str]:
    """Yield the passes of the space in the language of `opt`, within managers."""
    listed = subprocess.run([OPT, "--print-passes"], capture_output=True, text=True, check=True).stdout
    around: dict[str, str] = {"loop": "function({})", "loop-mssa": "function({})"}
    template = None
    for line in listed.splitlines():
        if not line.startswith(" "):
            template = "function({})" if line.startswith("Function passes") else None
        elif template is not None:
            around.setdefault(re.split("[<\n]", line.strip())[0], template)
    for text in SMALL.split():
        yield around.get(re.split("[<(]", text)[0], "{}").format(text)


def random_search(module: Path, passes: Sequence[str], budget: int, seed: object) -> Iterator[tuple[float, str]]:
    """Yield the best number of instructions and its pipeline, after each build.

    The number is infinite while all builds have failed.
    """
    generator = random.Random(f"{seed}")
    best: tuple[float, str] = (math.inf, "")
    for _ in range(budget):
        steps = [generator.choice(passes) for _ in range(generator.randint(1, MOST_SMALL))]
        # What must be inlined counts where it is inlined.
        chosen = ",".join(["always-inline", *steps])
        found = count(module, chosen)
        best = min(best, (math.inf if found is None else found, chosen))
        yield best


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print the best of each program and the geometric mean."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phase_order.bare", description=__doc__)
    parser.add_argument("--budget", type=int, default=45, help="builds of each program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    options = parser.parse_args(arguments)
    passes, ratios = list(passes_of_opt()), list[float]()
    for program in PROGRAMS:
        if options.programs and program.name not in options.programs:
            continue
        module = program.module()
        size = count(module, "default<Oz>")
        *_, (best, text) = random_search(module, passes, options.budget, f"{options.seed} {program.name}")
        if size is None:
            raise SystemExit(f"{OPT} fails with default<Oz> on {program.name}")
        ratios.append(best / size)
        print(f"{program.name:12} {size:6} {best:6} {100 * (1 - ratios[-1]):6.2f}%  {text}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of {len(ratios)} programs: {100 * (1 - mean):.2f}% below default<Oz>")


if __name__ == "__main__":
    main()
