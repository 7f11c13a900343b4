"""Breaks random lines of the package, and counts those that tests notice.

`python -m tests.mutants --mutants 60 relay service --save before.json` breaks 60 lines, one at a time, in copies of the
last commit. First it runs the tests of the rooms once, and records which files of tests reach each line. Then it breaks
a line and runs these files, the nearest one first, until a test fails. A line whose tests all pass is a mutant that
survives: no test depends on it. `--again before.json` breaks the same lines in another state of the package, and prints
both results.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from random import Random
from time import monotonic
from typing import Final

from tests.helpers.repository import ROOT

TIME_LIMIT: Final = 1800.0
"""Seconds for the tests of a mutant. A mutant that hangs them is noticed."""

_REACHED: Final = """
import os
_seen = set()
def reached(number):
    file = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0].replace("/", "%")
    if (number, file) not in _seen:
        _seen.add((number, file))
        os.close(os.open("{folder}/" + str(number) + " " + file, os.O_CREAT))
"""
"""A module that records which tests reach a line: as names of empty files."""

OPERATORS: Final = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "is": "is not", "is not": "is",
    "in": "not in", "not in": "in", "and": "or", "or": "and", "+": "-", "-": "+", "*": "+", "//": "*",
}  # fmt: skip
"""Operators, and what replaces them."""

GONE: Final = "the line is gone"
"""The verdict about a line that another state of the package does not have."""

_times = count(1)


@dataclass(frozen=True)
class Mutant:
    """A line, and what replaces it."""

    path: str
    line: int
    before: str
    after: str

    @property
    def room(self) -> str:
        """The folder of the package."""
        return self.path.split("/")[1]


@dataclass(frozen=True)
class Verdict:
    """The result of the tests of the room for a mutant."""

    mutant: Mutant
    noticed_by: str
    """The first test that failed, or what else ended the run; empty if the mutant survived."""
    seconds: float


class _Edits(ast.NodeVisitor):
    """Collects the edits of a module: start and end in a line, and the new text."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.found: list[tuple[int, int, int, str]] = []

    def _add(self, node: ast.expr | ast.stmt, text: str) -> None:
        if node.lineno == node.end_lineno and node.end_col_offset is not None:
            self.found.append((node.lineno, node.col_offset, node.end_col_offset, text))

    def _swap(self, left: ast.expr, right: ast.expr) -> None:
        """Replace the operator between two operands."""
        if left.end_lineno != right.lineno or left.end_col_offset is None:
            return
        between = self._lines[right.lineno - 1].encode()[left.end_col_offset : right.col_offset].decode()
        new = OPERATORS.get(between.strip(" ()"))
        if new is not None:
            text = between.replace(between.strip(" ()"), new)
            self.found.append((right.lineno, left.end_col_offset, right.col_offset, text))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        for statement in body:
            self.visit(statement)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave messages alone."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._swap(node.left, node.comparators[0])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._swap(node.values[0], node.values[1])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._swap(node.left, node.right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, ast.unparse(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, str(node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        self._add(node.test, f"not ({ast.unparse(node.test)})")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add(node, "return None")
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Await):
            self._add(node, "pass")
            self.visit(node.value)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Iterate over all mutants of a module."""
    text = path.read_text()
    lines = text.splitlines()
    edits = _Edits(lines)
    for node in ast.parse(text).body:
        # Constants at the top are tables and defaults.
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            edits.visit(node)
    for line, start, end, new in edits.found:
        old = lines[line - 1].encode()
        after = (old[:start] + new.encode() + old[end:]).decode()
        yield Mutant(str(path.relative_to(ROOT)), line, lines[line - 1], after)


def chosen(rooms: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """Choose mutants, in each room in proportion to its lines."""
    files = {room: sorted((ROOT / "apass" / room).rglob("*.py")) for room in rooms}
    sizes = {room: sum(len(path.read_text().splitlines()) for path in files[room]) for room in rooms}
    result: list[Mutant] = []
    for room in rooms:
        every = [mutant for path in files[room] for mutant in mutants_of(path)]
        share = max(1, round(number * sizes[room] / sum(sizes.values())))
        result += Random(f"{seed} {room}").sample(every, min(share, len(every)))
    return result


def _nearness(path: Path, tests: Path, mutant: Mutant) -> int:
    """Return how much the paths of a test file and of the broken module share."""
    module = Path(mutant.path).with_suffix("").parts[1:]
    test = path.relative_to(tests).with_suffix("").parts
    common = sum(1 for first, second in zip(module, test, strict=False) if first == second)
    return 2 * common + 3 * (path.stem.removeprefix("test_") in module) + (module[-1] in path.read_text())


def _place(mutant: Mutant, lines: Sequence[str]) -> int | None:
    """Return the number of the line, counted from one; None if it is gone."""
    same = [number for number, line in enumerate(lines, 1) if line == mutant.before]
    return min(same, key=lambda number: abs(number - mutant.line), default=None)


def _statement(text: str, place: int) -> int:
    """Return the line of the innermost statement that another one can precede."""
    lines = text.splitlines()
    starts: list[int] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            # A decorated definition begins with its first decorator.
            start = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
            begins_line = not lines[start - 1][: node.col_offset].strip()
            if (
                start <= place <= (node.end_lineno or 0)
                and begins_line
                and not lines[start - 1].lstrip().startswith("elif")
            ):
                starts.append(start)
    return max(starts)


def reaching_files(mutants: Sequence[Mutant], copy: Path) -> dict[Mutant, set[str]]:
    """Run the tests of the rooms once, and return the files that reach each line.

    A file is its path in the repository. A line that is reached without a test, such as at import, has the file "".
    """
    marks = copy / "marks"
    marks.mkdir()
    (copy / "apass" / "_reached.py").write_text(_REACHED.format(folder=str(marks)))
    originals: dict[Path, str] = {}
    inserted: dict[Path, dict[int, list[int]]] = {}
    for number, mutant in enumerate(mutants):
        path = copy / mutant.path
        text = originals.setdefault(path, path.read_text()) if path.exists() else ""
        place = _place(mutant, text.splitlines())
        if place is not None:
            inserted.setdefault(path, {}).setdefault(_statement(text, place), []).append(number)
    for path, places in inserted.items():
        lines = originals[path].splitlines(keepends=True)
        for place in sorted(places, reverse=True):
            indent = lines[place - 1][: -len(lines[place - 1].lstrip())]
            for number in places[place]:
                lines.insert(place - 1, f'{indent}__import__("apass._reached")._reached.reached({number})\n')
        _write(path, "".join(lines))
    rooms = sorted({str(copy / "tests" / mutant.room) for mutant in mutants})
    _pytest(copy, "-n", "auto", "--dist", "loadfile", *rooms)
    for path, text in originals.items():
        _write(path, text)
    (copy / "apass" / "_reached.py").unlink()
    found: dict[Mutant, set[str]] = {mutant: set() for mutant in mutants}
    for mark in marks.iterdir():
        index, _, file = mark.name.partition(" ")
        found[mutants[int(index)]].add(file.replace("%", "/"))
    return found


def _pytest(copy: Path, *arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environ = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run(command, cwd=copy, env=environ, capture_output=True, text=True, check=False, timeout=timeout)


def verdict_of(mutant: Mutant, copy: Path, reaching: set[str]) -> Verdict:
    """Break a line in a copy of the repository, and run the tests that reach it."""
    path, tests = copy / mutant.path, copy / "tests"
    whole = path.read_text() if path.exists() else ""
    place = _place(mutant, whole.splitlines())
    if place is None:
        return Verdict(mutant, GONE, 0.0)
    lines = whole.splitlines(keepends=True)
    lines[place - 1] = mutant.after + "\n"
    files = [
        file
        for file in (tests / mutant.room).rglob("test_*.py")
        if "" in reaching or str(file.relative_to(copy)) in reaching
    ]
    if not files:
        return Verdict(mutant, "", 0.0)
    files.sort(key=lambda file: -_nearness(file, tests, mutant))
    start = monotonic()
    _write(path, "".join(lines))
    try:
        done = _pytest(copy, "-x", *map(str, files), timeout=TIME_LIMIT)
        failed = [row for row in done.stdout.splitlines() if row.startswith(("FAILED", "ERROR"))]
        noticed = "" if done.returncode == 0 else (failed or [f"exit status {done.returncode}"])[0]
    except subprocess.TimeoutExpired:
        noticed = "the time limit"
    finally:
        _write(path, whole)
    return Verdict(mutant, noticed, round(monotonic() - start, 1))


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    # Python finds stale bytecode by seconds and size, and a broken line may have the same size.
    os.utime(path, (next(_times), next(_times)))


def verdicts(mutants: Sequence[Mutant], jobs: int) -> Iterator[Verdict]:
    """Iterate over the verdicts, in the order of the mutants.

    As many as `jobs` are made at the same time.
    """
    with tempfile.TemporaryDirectory() as folder:
        folders = [Path(folder, str(number)) for number in range(jobs)]
        for copy in folders:
            subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)
        reaching = reaching_files(mutants, folders[0])
        copies: SimpleQueue[Path] = SimpleQueue()
        for copy in folders:
            copies.put(copy)

        def run(mutant: Mutant) -> Verdict:
            copy = copies.get()
            try:
                return verdict_of(mutant, copy, reaching[mutant])
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as threads:
            yield from threads.map(run, mutants)


def table(results: Sequence[Sequence[Verdict]]) -> str:
    """Return how many mutants each run noticed, of those whose line it has, by room."""
    rooms = sorted({verdict.mutant.room for run in results for verdict in run})
    rows = [("room", *(f"noticed in run {number}" for number, _ in enumerate(results, 1)))]
    for room in [*rooms, ""]:
        runs = [[verdict for verdict in run if room in ("", verdict.mutant.room)] for run in results]
        rows.append((room or "all", *map(_share, runs)))
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ("---",) * len(rows[0]), *rows[1:]])


def _share(run: Sequence[Verdict]) -> str:
    broken = [verdict for verdict in run if verdict.noticed_by != GONE]
    return f"{sum(bool(verdict.noticed_by) for verdict in broken)} of {len(broken)}"


def saved(path: Path) -> list[Verdict]:
    """Read the verdicts of an earlier run."""
    return [Verdict(Mutant(**row.pop("mutant")), **row) for row in json.loads(path.read_text())]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", help="folders of the package; by default all that have tests of their own")
    parser.add_argument("--mutants", type=int, default=60, help="the number of lines to break")
    parser.add_argument("--seed", type=int, default=1, help="decides which lines")
    parser.add_argument("--jobs", type=int, default=2, help="the number of mutants at the same time")
    parser.add_argument("--save", type=Path, help="write the verdicts to this file")
    parser.add_argument("--again", type=Path, help="break the lines of this file of verdicts again")
    options = parser.parse_args()
    rooms = options.rooms or sorted(
        path.name for path in (ROOT / "apass").iterdir() if (ROOT / "tests" / path.name).is_dir()
    )
    earlier = [saved(options.again)] if options.again else []
    mutants = [verdict.mutant for verdict in earlier[0]] if earlier else chosen(rooms, options.mutants, options.seed)
    found: list[Verdict] = []
    for verdict in verdicts(mutants, options.jobs):
        found.append(verdict)
        place = f"{verdict.mutant.path}:{verdict.mutant.line}"
        print(f"{place}: {verdict.noticed_by or 'SURVIVED'} ({verdict.seconds} s)")
        print(f"    {verdict.mutant.before.strip()}\n    {verdict.mutant.after.strip()}", flush=True)
        if options.save:
            options.save.write_text(json.dumps([asdict(item) for item in found], indent=1))
    print(table([*earlier, found]))


if __name__ == "__main__":
    main()
