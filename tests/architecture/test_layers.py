"""The layers of the package: a module imports only from the rows above its own."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROWS = (
    "errors",
    (
        "info typed given fingerprint files gate stepping diagnostics timings event_file lanes textdiff single_flight "
        "failures store shrinking journal_file source process_group process_worker"
    ),
    "relay.[!_t]* relay.t[!r]*",
    "run adapter analysis config factories cleanup budget executor process_pool",
    "remarks numbering analyses promises activity",
    "instrument",
    "context",
    "transformer",
    "fanout observing guard caching waits",
    "funnel",
    "passes",
    "registry decorators journal",
    "sequential optimize blocking",
    "combinators pipeline",
    "plan reproducers resume report*",
    "instruments* executors* adapters* external* stores* print_ir relay.transform*",
    "bisecting replaying",
    "reducing",
    "relay",
    "cli*",
    "__init__ __main__",
)
"""The modules of each row, from the top; a star stands for a package and all in it."""

FOREIGN_INSIDE = ("adapters*", "relay.frontend*")
"""Where an import within a function is allowed: an adapter's own foreign library."""

TOGETHER = ("cli", "executors", "external", "instruments", "relay", "report")
"""Packages whose modules may import each other, without a cycle."""

HEAVY = (
    "asyncio",
    "cloudpickle",
    "httpx",
    "distributed",
    "lark",
    "numpy",
    "onnx",
    "onnx_ir",
    "opentelemetry",
    "rich",
    "stamina",
    "starlette",
    "trio",
    "tvm",
    "typer",
    "xdsl",
)


def modules() -> dict[str, ast.Module]:
    """Return every module of the package, parsed, by its name below `apass`."""
    files = {path.relative_to(ROOT / "apass"): path for path in sorted((ROOT / "apass").rglob("*.py"))}
    named = {".".join(short.with_suffix("").parts): path for short, path in files.items()}
    return {name.removesuffix(".__init__"): ast.parse(path.read_text()) for name, path in named.items()}


MODULES = modules()


def row_of(name: str) -> int:
    """Return the row of a module; -1 if the table does not have it."""
    matches = (i for i, row in enumerate(ROWS) if any(fnmatch(name, one) for one in row.split()))
    return next(matches, -1)


def imports(tree: ast.AST) -> Iterator[str]:
    """Go over the full names that are imported anywhere in `tree`: modules, and members of modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(name: str) -> set[str]:
    """Return the modules of the package that one of them imports."""
    found: set[str] = set()
    for full in imports(MODULES[name]):
        if full == "apass" or full.startswith("apass."):
            inner = full.removeprefix("apass").removeprefix(".") or "__init__"
            found.add(inner if inner in MODULES else inner.rpartition(".")[0] or "__init__")
    return found


def is_allowed(name: str, imported: str) -> bool:
    """Tell whether a module may import another: from the rows above, from its own package, or what it hands on."""
    packages = [one.partition(".")[0] for one in (name, imported)]
    is_within = imported.startswith(f"{name}.") or (packages[0] == packages[1] and packages[0] in TOGETHER)
    return row_of(imported) < row_of(name) or (is_within and row_of(imported) <= row_of(name))


def test_every_module_has_a_row() -> None:
    assert [name for name in MODULES if row_of(name) < 0] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_from_the_rows_above_it(name: str) -> None:
    assert sorted(one for one in own_imports(name) if not is_allowed(name, one)) == []


def test_there_is_no_import_cycle() -> None:
    order = TopologicalSorter({name: own_imports(name) for name in MODULES})
    assert set(order.static_order()) >= set(MODULES)


@pytest.mark.parametrize("name", [name for name in MODULES if not any(fnmatch(name, one) for one in FOREIGN_INSIDE)])
def test_nothing_is_imported_within_a_function(name: str) -> None:
    functions = [one for one in ast.walk(MODULES[name]) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [full for function in functions for full in imports(function)] == []


@pytest.mark.parametrize("name", MODULES)
def test_no_event_loop_is_imported_and_no_import_is_hidden_from_this_test(name: str) -> None:
    words = {node.id for node in ast.walk(MODULES[name]) if isinstance(node, ast.Name)}
    tops = {full.partition(".")[0] for full in imports(MODULES[name])}
    assert (tops & {"asyncio", "trio", "sniffio"}, words & {"TYPE_CHECKING", "__import__"}) == (set(), set())


def test_importing_apass_loads_nothing_heavy() -> None:
    code = f"import sys, apass; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")
