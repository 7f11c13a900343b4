"""Tables of the times of tests: by folder, kind and duration.

`pytest --junitxml=now.xml -o junit_duration_report=total` writes a file, and `python -m tests.times now.xml` prints the
tables; several files become columns. The kind of a test is what its source calls, directly or by helpers and fixtures
of its module.
"""

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.helpers.repository import ROOT

KINDS: Final[Mapping[str, str]] = {
    "pytest in pytest": r"\bpytester\b",
    "a browser": r"chromium|\bBrowser|browser_page|\bon_page",
    "servers": r"\bserved?\(|\bserving\(|running_(postgres|redis)|\bpostgres\b|server_process|\bServer\(",
    "new processes": r"subprocess|\b(process|script|run_in)\(|Popen|sys\.executable|run_process|WarmProcess|killed",
    "worker processes": r"ProcessExecutor|[\"']process[\"']|DaskExecutor|\bdask\b|run_in_worker|\bpool\b|jobs=",
    "deep programs": r"\bdeep|\blevels\(|[dD]epth|1\d?0_000",
    "many examples": r"@given|\bamount\(|\bsome\(|\bRandom\(|\brandom\b|real_models|light_|corpus",
}
"""The kinds, and what the source of a test of each matches; the first one counts."""

BUCKETS: Final = {"less than 0.1 s": 0.1, "0.1 to 1 s": 1.0, "1 to 5 s": 5.0, "more than 5 s": float("inf")}


@cache
def _sources(root: Path, module: str) -> Mapping[str, tuple[str, frozenset[str]]]:
    """Return the source of each function of a module, and the names in it."""
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        return {}
    text = path.read_text()
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
            names |= {argument.arg for argument in node.args.args}
            decorators = " ".join(f"@{ast.unparse(item)}" for item in node.decorator_list)
            found[node.name] = f"{decorators} {ast.unparse(node)}", frozenset(names)
    return found


def kind_of(root: Path, module: str, test: str) -> str:
    """Return the kind of a test."""
    sources = _sources(root, module)
    pending, seen, text = [test], set[str](), ""
    while pending:
        name = pending.pop()
        if name in sources and name not in seen:
            seen.add(name)
            text += sources[name][0]
            pending += sources[name][1]
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, text)), "other work")


def read(path: Path, root: Path) -> Iterator[tuple[str, str, float]]:
    """Iterate over the folder, the kind and the seconds of each test in a file."""
    for case in ElementTree.parse(path).iter("testcase"):
        module, name = case.get("classname", ""), case.get("name", "").partition("[")[0]
        yield module.split(".")[1], kind_of(root, module, name), float(case.get("time", "0"))


def _bucket(seconds: float) -> str:
    return next(name for name, end in BUCKETS.items() if seconds < end)


def table(title: str, columns: Sequence[Mapping[str, Sequence[float]]], order: Callable[[str], float]) -> Iterator[str]:
    """Iterate over the lines of a table: seconds, and the number of tests."""
    yield f"| {title} |{' seconds (tests) |' * len(columns)}"
    yield f"|---|{'---:|' * len(columns)}"
    for row in sorted(set[str]().union(*columns), key=order):
        cells = (column.get(row, ()) for column in columns)
        yield f"| {row} | " + " | ".join(f"{sum(times):,.0f} ({len(times):,})" for times in cells) + " |"
    yield ""


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="files of pytest; FILE:FOLDER for the tests of another repository")
    files = [
        (Path(name), Path(root or ROOT))
        for name, _, root in (item.partition(":") for item in parser.parse_args().files)
    ]
    runs = [list(read(path, root)) for path, root in files]
    for title, key in (("folder", 0), ("kind", 1), ("duration", 2)):
        columns: list[dict[str, list[float]]] = []
        for run in runs:
            column: dict[str, list[float]] = defaultdict(list)
            for folder, kind, seconds in run:
                column[(folder, kind, _bucket(seconds))[key]].append(seconds)
            columns.append(column)
        longest = {row: -sum(columns[0].get(row, ())) for column in columns for row in column}
        order = list(BUCKETS).index if title == "duration" else longest.__getitem__
        print("\n".join(table(title, columns, order)))


if __name__ == "__main__":
    main()
