"""Layers of the package: a folder imports only from the floors above its own."""

import ast
import os
import re
from graphlib import TopologicalSorter

import pytest

from tests.architecture.late_imports import LATE_IMPORTS
from tests.helpers.layers import (
    FLOORS,
    FOLDERS,
    LAZY_PACKAGES,
    MODULES,
    RELAY_FLOORS,
    floor_of,
    imports,
    late_imports,
    own_imports,
    part_of,
    tree_of,
)
from tests.helpers.repository import ROOT
from tests.helpers.warm_processes import WarmProcess

LOOP_BOUND = {
    "concurrency.native_cancellation": {"asyncio"},
    "testing.event_loops": {"asyncio", "trio"},
}
"""Modules that need one event loop.

Only asyncio has cancellation of its own. A loop with its own clock is a subclass.
"""


def forbidden_imports(package: str, floors: tuple[str, ...]) -> list[str]:
    """Return imports between parts of `package` that are not from a floor above."""
    inside = [name for name in MODULES if name == package or name.startswith(f"{package}.") or not package]
    return [
        f"{name} imports {other}"
        for name in inside
        for other in sorted(own_imports(name))
        if other in inside and part_of(name, package) != part_of(other, package)
        if floor_of(other, package, floors) >= floor_of(name, package, floors)
    ]


def room_of(name: str) -> str:
    """Return the room of a module: its folder, or the module itself.

    A module is a room of its own in a folder that has subfolders. The `__init__` of a folder, which only re-exports
    names, is a room too.
    """
    folder = name.rpartition(".")[0]
    has_folders = any(other.rpartition(".")[0] == folder for other in FOLDERS if other != folder)
    return name if name in FOLDERS or has_folders or not folder else f"{folder}/"


@pytest.mark.parametrize(("package", "floors"), [("", FLOORS), ("relay", RELAY_FLOORS)])
def test_every_module_has_a_floor(package: str, floors: tuple[str, ...]) -> None:
    inside = [name for name in MODULES if name == package or name.startswith(f"{package}.") or not package]
    assert [name for name in inside if floor_of(name, package, floors) < 0] == []


@pytest.mark.slow
@pytest.mark.parametrize(("package", "floors"), [("", FLOORS), ("relay", RELAY_FLOORS)])
def test_folder_imports_only_from_floors_above(package: str, floors: tuple[str, ...]) -> None:
    assert forbidden_imports(package, floors) == []


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in MODULES.values()}
    # The tools of the site, and of the distribution, do not find modules elsewhere.
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_runner_has_few_contextvars() -> None:
    rooms = ("core.", "passes.", "runner.", "concurrency.")
    code = "\n".join(path.read_text() for name, path in MODULES.items() if name.startswith(rooms))
    # What else belongs to a run is a `RunLocal`.
    assert len(re.findall(r" = ContextVar\(", code)) == 8


@pytest.mark.slow
def test_no_import_cycle_between_modules() -> None:
    order = TopologicalSorter({name: own_imports(name) for name in MODULES})
    assert set(order.static_order()) >= set(MODULES)


@pytest.mark.slow
def test_no_import_cycle_between_rooms() -> None:
    graph: dict[str, set[str]] = {}
    for name in MODULES:
        graph.setdefault(room_of(name), set()).update(set(map(room_of, own_imports(name))) - {room_of(name)})
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)


@pytest.mark.process
@pytest.mark.slow
def test_no_module_has_the_name_of_a_function() -> None:
    code = """
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
import apass
# Relay is different: TVM itself has such names.
# Its import needs the program mlir-opt.
left_out = ("apass.relay", "apass.adapters.mlir.passes")
names = [info.name for info in walk_packages(apass.__path__, "apass.") if not info.name.startswith(left_out)]
for name in names:
    import_module(name)
owners = [(name, *name.rsplit(".", 1)) for name in names]
print([name for name, owner, last in owners if not isinstance(getattr(import_module(owner), last), ModuleType)])
"""
    with WarmProcess(code, environ=os.environ) as process:
        assert process.communicate() == ("[]\n", "")


def test_roots_hold_only_the_listed_modules() -> None:
    roots = [sorted(name for name in MODULES if name.rpartition(".")[0] == folder) for folder in ("", "relay")]
    tvm = "adt base build_module errors expr expr_functor function loops param_dict parser prelude scope_builder te ty"
    assert set(roots[0]) - FOLDERS == {"__init__", "__main__", "errors", "sync"}
    assert {name.removeprefix("relay.") for name in set(roots[1]) - FOLDERS} == {*tvm.split(), "type_functor"}


@pytest.mark.slow
def test_only_listed_modules_import_late() -> None:
    found = {name: tuple(sorted(late_imports(name))) for name in MODULES if late_imports(name)}
    # Remove what is gone. Before adding an entry, move the import to the top, or the code to where it is used.
    assert found == LATE_IMPORTS


@pytest.mark.parametrize("name", LATE_IMPORTS)
def test_late_import_has_a_reason(name: str) -> None:
    lines = MODULES[name].read_text().splitlines()
    late = [
        node.lineno - 1
        for function in ast.walk(tree_of(name))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "apass"
    ]
    for line in late:
        before = line - 1
        while lines[before].strip().startswith(("from ", "import ", "try:")) or not lines[before].strip():
            before -= 1
        assert lines[before].strip().startswith("#"), f"{name}:{line + 1}: write the reason in a comment"


@pytest.mark.slow
def test_module_imports_are_visible_and_loop_independent() -> None:
    offences: dict[str, set[str]] = {}
    for name in MODULES:
        words = {node.id for node in ast.walk(tree_of(name)) if isinstance(node, ast.Name)}
        tops = {full.partition(".")[0] for full in imports(tree_of(name))}
        hiding = {"__import__"} if name in LAZY_PACKAGES else {"TYPE_CHECKING", "__import__"}
        loops = {"asyncio", "trio", "sniffio"} - LOOP_BOUND.get(name, set())
        offences[name] = tops & loops | words & hiding
    assert {name: words for name, words in offences.items() if words} == {}


@pytest.mark.slow
def test_no_module_imports_from_test_module() -> None:
    texts = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))}
    assert [
        f"{path.relative_to(ROOT)} imports {full}"
        for path, text in texts.items()
        if "test_" in "".join(re.findall(r"^ *(?:from|import) .*", text, re.MULTILINE))
        for full in imports(ast.parse(text))
        if full.startswith("tests.") and ".test_" in full
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heading", "floors"), [("### Floors of `apass`", FLOORS), ("### Rooms of Relay", RELAY_FLOORS)]
)
def test_table_of_floors_in_docs_is_current(heading: str, floors: tuple[str, ...]) -> None:
    section = (ROOT / "docs/explanation/architecture.md").read_text().partition(heading)[2].partition("\n#")[0]
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", section, re.MULTILINE)
    assert [(number, names.replace("`", "").strip()) for number, names in rows] == [
        (str(number), names) for number, names in enumerate(floors, 1)
    ]
