"""Runs one optimizer in this process.

    python -m benchmarks.arena.worker REPORT TOOL SOURCE TARGET

`TOOL` is JSON: the factory, its arguments, and the parts to skip.
"""

import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from pkgutil import resolve_name
from time import perf_counter
from typing import Any

from benchmarks.arena.optimizers import Run


def main(report: Path, tool: dict[str, Any], source: Path, target: Path) -> int:
    """Run the optimizer, and write its duration or its error."""
    try:
        factory: Callable[..., Run] = resolve_name(tool["factory"])
        skip: Collection[str] = tool["skip"]
        run = factory(skip, *tool["arguments"])
        start = perf_counter()
        run(source, target)
        values: dict[str, Any] = {"seconds": perf_counter() - start}
    except Exception as error:
        # The optimizers raise errors of many types.
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        values = {"error": f"{type(error).__name__}: {first}"}
    report.write_text(json.dumps(values), encoding="utf-8")
    return int("error" in values)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])))
