"""The floors of the package, its modules, and the imports between them."""

import ast
from collections.abc import Iterable, Iterator, Set
from functools import cache
from pathlib import Path

from tests.helpers.repository import ROOT

FLOORS = (
    "errors util",
    "concurrency display",
    "loading",
    "core",
    "runner stores external",
    "passes",
    "pipelines",
    "executors",
    "batch adapters sync",
    "instruments plugins relay",
    "debugging search testing",
    "service",
    "cli",
    "__init__ __main__",
)
"""The folders and root modules of `apass` on each floor, from the top."""

RELAY_FLOORS = (
    "errors",
    "ir",
    "visitors structural dataflow adt base expr function loops scope_builder te ty",
    "rewrite text type_inference expr_functor type_functor",
    "dataflow_pattern interpreter param_dict parser",
    "analysis op std build_module",
    "backend equivalence frontend prelude",
    "testing",
    "integration transform",
    "data_dep_optimization",
    "__init__",
)
"""The folders of `apass.relay`, and the modules of its root that have TVM's names."""


def modules() -> dict[str, Path]:
    """Return the file of every module, by its name below `apass`."""
    files = {path.relative_to(ROOT / "apass"): path for path in sorted((ROOT / "apass").rglob("*.py"))}
    named = {".".join(short.with_suffix("").parts): path for short, path in files.items()}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


MODULES = modules()
FOLDERS = {name for name in MODULES if (ROOT / "apass" / name.replace(".", "/")).is_dir()}


@cache
def tree_of(name: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(MODULES[name].read_text())


def imports(tree: ast.AST) -> Iterator[str]:
    """Iterate over the full names of what `tree` imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _last_name(node.func) in ("import_module", "__import__"):
            yield from (str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant))


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@cache
def own_imports(name: str) -> Set[str]:
    """Return the modules of the package that a module imports, at any depth."""
    return set(_own(imports(tree_of(name))))


@cache
def late_imports(name: str) -> Set[str]:
    """Return the modules of the package that functions of a module import."""
    functions = [node for node in ast.walk(tree_of(name)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {other for function in functions for other in _own(imports(function))}


def _own(names: Iterable[str]) -> Iterator[str]:
    """Iterate over the modules of the package among imported names."""
    for full in names:
        if full == "apass" or full.startswith("apass."):
            inner = full.removeprefix("apass").removeprefix(".") or "__init__"
            yield inner if inner in MODULES else inner.rpartition(".")[0] or "__init__"


def part_of(name: str, package: str) -> str:
    """Return the folder or the root module of `package` that holds a module."""
    return name.removeprefix(package).removeprefix(".").partition(".")[0] or "__init__"


def floor_of(name: str, package: str, floors: tuple[str, ...]) -> int:
    """Return the floor of a module; -1 if the table does not list it."""
    part = part_of(name, package)
    return next((i for i, floor in enumerate(floors) if part in floor.split()), -1)


LAZY_PACKAGES = {name for name, path in MODULES.items() if "import lazy_names" in path.read_text()}
"""The packages whose names are imported when they are first used."""
