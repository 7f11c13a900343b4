"""Modules are loaded when a library first uses them."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from apass.util.late_modules import imported_late


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of an importable package with a submodule `inner`."""
    name = f"library_{tmp_path.name.replace('-', '_')}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("VALUE = 5\n")
    (folder / "inner.py").write_text("NAME = __name__\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for module in (name, f"{name}.inner"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return name


def import_as_a_library_does(name: str) -> ModuleType:
    scope: dict[str, ModuleType] = {}
    exec(f"import {name} as module", scope)
    return scope["module"]


def test_module_is_loaded_at_its_first_use(library: str) -> None:
    with imported_late(library):
        module = import_as_a_library_does(library)
        assert library in sys.modules
    assert library not in sys.modules
    assert module.VALUE == 5
    assert sys.modules[library].VALUE == 5


def test_late_submodule_is_imported_from_its_package(library: str) -> None:
    with imported_late(f"{library}.inner"):
        scope: dict[str, ModuleType] = {}
        exec(f"from {library} import inner", scope)
    assert f"{library}.inner" not in sys.modules
    assert scope["inner"].NAME.endswith(".inner")


def test_module_can_be_used_within_the_block(library: str) -> None:
    with imported_late(library):
        assert import_as_a_library_does(library).VALUE == 5
        loaded = sys.modules[library]
    assert sys.modules[library] is loaded


def test_submodule_of_a_late_package_is_importable(library: str) -> None:
    with imported_late(library):
        import_as_a_library_does(library)
        inner = import_as_a_library_does(f"{library}.inner")
        assert inner.NAME.endswith(".inner")


def test_imported_module_stays(library: str) -> None:
    loaded = import_as_a_library_does(library)
    with imported_late(library):
        assert import_as_a_library_does(library) is loaded
    assert sys.modules[library] is loaded


def test_other_imports_are_as_usual_after_the_block(library: str) -> None:
    with imported_late(library):
        late = import_as_a_library_does(library)
    usual = import_as_a_library_does(library)
    assert usual is sys.modules[library]
    assert late is not usual
    assert late.VALUE == usual.VALUE == 5


def test_unknown_name_is_reported_as_usual(library: str) -> None:
    with imported_late(library, "no_such_library"):
        late, missing = import_as_a_library_does(library), import_as_a_library_does("no_such_library")
    with pytest.raises(AttributeError, match="NOTHING"):
        _ = late.NOTHING
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        _ = missing.NOTHING
