"""Modules that `import apass` loads, and names that load when first used."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isabstract
from pathlib import Path
from typing import Any

import pytest

import apass
from tests.helpers.layers import LAZY_PACKAGES, MODULES, tree_of
from tests.helpers.repository import ROOT

STANDARD = {"apass", "apass.util", "apass.util.lazy_names"}
"""The modules of the package that `import apass` loads."""

HEAVY = (
    "anyio",
    "asyncio",
    "cloudpickle",
    "dataclasses",
    "distributed",
    "email",
    "httpx",
    "importlib.metadata",
    "inspect",
    "lark",
    "logging",
    "msgspec",
    "numpy",
    "onnx",
    "onnx_ir",
    "opentelemetry",
    "pathlib",
    "pickle",
    "rich",
    "ssl",
    "stamina",
    "starlette",
    "subprocess",
    "tempfile",
    "trio",
    "tvm",
    "typer",
    "xdsl",
)
"""Libraries, and modules of the standard library, that take longer to import than `import apass` itself."""


def loaded_by(code: str) -> list[str]:
    """Return the names of the modules that a new process has imported after `code`."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()[-1].split()


def checked_and_loaded(package: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the names by module that type checkers see, and those that load."""
    branches = [node for node in tree_of(package).body if isinstance(node, ast.If)]
    assert [ast.unparse(node.test) for node in branches] == ["TYPE_CHECKING"]
    checked: dict[str, set[str]] = {}
    for node in branches[0].body:
        assert isinstance(node, ast.ImportFrom), ast.unparse(node)
        assert node.module is not None
        assert all(alias.asname in (None, alias.name) for alias in node.names)
        checked.setdefault(node.module, set()).update(alias.name for alias in node.names)
    table = next(node for node in ast.walk(branches[0].orelse[0]) if isinstance(node, ast.Dict))
    return checked, {module: set(names) for module, names in ast.literal_eval(table).items()}


def full_name(package: str) -> str:
    """Return the importable name of a package in `MODULES`."""
    return "apass" if package == "__init__" else f"apass.{package}"


def test_apass_and_instruments_are_lazy() -> None:
    assert {"__init__", "instruments"} <= LAZY_PACKAGES


@pytest.mark.parametrize("package", sorted(LAZY_PACKAGES))
def test_type_checkers_see_the_names_that_load(package: str) -> None:
    checked, loaded = checked_and_loaded(package)
    assert checked == loaded


@pytest.mark.parametrize("package", sorted(LAZY_PACKAGES))
def test_every_public_name_is_lazy(package: str) -> None:
    names = {name for names in checked_and_loaded(package)[1].values() for name in names}
    public = set(import_module(full_name(package)).__all__)
    # Submodules that few programs need, and the version, are no names for `from apass import *`.
    assert {name for name in names - public if name in MODULES} | public | {"__version__"} == names | {"__version__"}


@pytest.mark.parametrize("package", sorted(LAZY_PACKAGES))
def test_lazy_name_is_the_object_of_its_module(package: str) -> None:
    owner = import_module(full_name(package))
    for module, names in checked_and_loaded(package)[1].items():
        for name in names:
            is_module = module == owner.__name__
            value = import_module(f"{module}.{name}") if is_module else getattr(import_module(module), name)
            assert (getattr(owner, name) is value, name in dir(owner)) == (True, True)


def test_own_passes_are_entry_points() -> None:
    public = {name: getattr(apass, name) for name in apass.__all__}
    passes: dict[str, type[apass.Pass[Any]]] = {
        name: kind for name, kind in public.items() if isinstance(kind, type) and issubclass(kind, apass.Pass)
    }
    offered = {point.name: point.load() for point in entry_points(group="apass.passes") if point.value[:6] == "apass."}
    assert offered == {name: kind for name, kind in passes.items() if not isabstract(kind)}


@pytest.mark.process
def test_import_apass_loads_nothing_heavy() -> None:
    loaded = loaded_by("import apass")
    assert sorted(set(HEAVY) & set(loaded)) == []
    assert {name for name in loaded if name.partition(".")[0] == "apass"} == STANDARD


@pytest.mark.process
def test_lazy_name_loads_only_what_it_needs() -> None:
    loaded = set(loaded_by("import apass\napass.ApassError\napass.instruments"))
    assert {name for name in loaded if name.startswith("apass.")} - STANDARD == {"apass.errors", "apass.instruments"}


@pytest.mark.process
def test_module_of_a_test_case_loads_no_compiler() -> None:
    loaded = loaded_by("from apass.testing import parse_module; parse_module('{}', '.json')")
    assert not {"llvmlite", "onnx", "tvm", "xdsl"} & set(loaded)


def test_service_needs_no_library_of_external_helpers() -> None:
    loaded = set(loaded_by("from apass.service import Optimizer"))
    assert ("apass.service.optimizer" in loaded, loaded & {"httpx", "stamina"}) == (True, set())


@pytest.mark.process
@pytest.mark.slow
def test_star_import_gives_every_public_name() -> None:
    code = "from apass import *\nimport apass\nassert {name for name in apass.__all__} <= set(globals())"
    loaded = set(loaded_by(code))
    assert ("apass.passes.sequential" in loaded, "apass.relay" in loaded) == (True, False)


@pytest.mark.process
def test_unknown_name_raises_attribute_error() -> None:
    code = "import apass\ntry:\n    apass.Sequental\nexcept AttributeError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "module 'apass' has no attribute 'Sequental'\n"


def test_error_names_the_package_of_a_name() -> None:
    for group in ("plugins", "instruments", "debugging", "batch", "errors"):
        owner = f"apass.{group}"
        for name in import_module(owner).__all__:
            if hasattr(apass, name):
                continue
            with pytest.raises(AttributeError) as caught:
                getattr(apass, name)
            with pytest.raises(ImportError) as imported:
                exec(f"from apass import {name}")
            message = f"module 'apass' has no attribute '{name}'; it is in {owner}: from {owner} import {name}"
            assert (str(caught.value), str(imported.value)) == (message, message)


def test_apass_has_at_most_80_names() -> None:
    assert len(apass.__all__) <= 80


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_know_lazy_names(checker: str, tmp_path: Path) -> None:
    pytest.importorskip(checker)
    user = tmp_path / "user.py"
    user.write_text(
        "import apass\n"
        "from apass import PassContext, instruments, relay\n"
        "from typing import assert_type\n"
        "assert_type(PassContext(opt_level=2), PassContext)\n"
        "assert_type(apass.Sequential([]).info, apass.PassInfo)\n"
        "assert_type(apass.__version__, str)\n"
        "assert_type(instruments.PassTimingInstrument(), apass.instruments.PassTimingInstrument)\n"
        "assert_type(relay.IRModule(), apass.relay.IRModule)\n"
        "raise apass.errors.ApassError\n"
    )
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import apass\n\nprint(apass.Sequental)\n")
    options = ["--strict"] if checker == "mypy" else ["--pythonpath", sys.executable]
    command = [sys.executable, "-m", checker, *options, str(user), str(wrong)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if " error:" in line]
    assert any("Sequental" in line for line in errors), done.stdout + done.stderr
    assert [line for line in errors if "wrong.py" not in line] == []
