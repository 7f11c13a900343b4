"""Layers of the package: a folder imports only from the floors above its own."""

import ast
import re
import subprocess
import sys
from fnmatch import fnmatch
from graphlib import TopologicalSorter

import pytest

from tests.helpers.layers import (
    FLOORS,
    FOLDERS,
    LAZY_PACKAGES,
    MODULES,
    RELAY_FLOORS,
    floor_of,
    imports,
    own_imports,
    part_of,
    tree_of,
)
from tests.helpers.repository import ROOT

FOREIGN_INSIDE = ("adapters*", "relay.backend*", "relay.frontend*")
"""Modules whose functions may import: the foreign library of an adapter."""


LOOP_BOUND = {"testing.event_loops": {"asyncio"}, "service.trio_server": {"trio"}}
"""Modules that need one event loop: a loop with its own clock is a subclass, and hypercorn takes streams of trio."""


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


@pytest.mark.parametrize(("package", "floors"), [("", FLOORS), ("relay", RELAY_FLOORS)])
def test_folder_imports_only_from_floors_above(package: str, floors: tuple[str, ...]) -> None:
    assert forbidden_imports(package, floors) == []


def test_no_import_cycle_between_modules() -> None:
    order = TopologicalSorter({name: own_imports(name) for name in MODULES})
    assert set(order.static_order()) >= set(MODULES)


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_roots_hold_only_the_listed_modules() -> None:
    roots = [sorted(name for name in MODULES if name.rpartition(".")[0] == folder) for folder in ("", "relay")]
    tvm = "adt base build_module errors expr expr_functor function loops param_dict parser prelude scope_builder te ty"
    assert set(roots[0]) - FOLDERS == {"__init__", "__main__", "errors", "sync"}
    assert {name.removeprefix("relay.") for name in set(roots[1]) - FOLDERS} == {*tvm.split(), "type_functor"}


def test_functions_import_nothing() -> None:
    names = [name for name in MODULES if not any(fnmatch(name, pattern) for pattern in FOREIGN_INSIDE)]
    inside = {
        name: [
            full
            for node in ast.walk(tree_of(name))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for full in imports(node)
        ]
        for name in names
    }
    assert {name: imported for name, imported in inside.items() if imported} == {}


def test_module_imports_are_visible_and_loop_independent() -> None:
    offences: dict[str, set[str]] = {}
    for name in MODULES:
        words = {node.id for node in ast.walk(tree_of(name)) if isinstance(node, ast.Name)}
        tops = {full.partition(".")[0] for full in imports(tree_of(name))}
        hiding = {"__import__"} if name in LAZY_PACKAGES else {"TYPE_CHECKING", "__import__"}
        loops = {"asyncio", "trio", "sniffio"} - LOOP_BOUND.get(name, set())
        offences[name] = tops & loops | words & hiding
    assert {name: words for name, words in offences.items() if words} == {}


def test_no_module_imports_from_test_module() -> None:
    trees = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "tests").rglob("*.py"))}
    assert [
        f"{path.relative_to(ROOT)} imports {full}"
        for path, tree in trees.items()
        for full in imports(tree)
        if full.startswith("tests.") and ".test_" in full
    ] == []


@pytest.mark.parametrize(
    ("heading", "floors"), [("### Floors of `apass`", FLOORS), ("### Rooms of Relay", RELAY_FLOORS)]
)
def test_table_of_floors_in_docs_is_current(heading: str, floors: tuple[str, ...]) -> None:
    section = (ROOT / "docs/explanation/architecture.md").read_text().partition(heading)[2].partition("\n#")[0]
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", section, re.MULTILINE)
    assert [(number, names.replace("`", "").strip()) for number, names in rows] == [
        (str(number), names) for number, names in enumerate(floors, 1)
    ]
