"""Lookup of adapters: by type, from apass, registrations and entry points."""

import os
import subprocess
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from apass import FunctionPass, PassContext, PassInfo, adapter_for, register_adapter
from apass.adapters.mapping import ADAPTER, DictAdapter
from apass.core.adapter import adapter_by_name
from apass.errors import AdapterError
from apass.loading.entry_points import plugins
from tests.helpers.distributions import write_distribution
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.anyio


class Program:
    """A module of a custom IR: pairs of a name and a text, in order."""

    def __init__(self, *functions: tuple[str, str]) -> None:
        self.functions = functions


class ProgramAdapter(DictAdapter):
    """Adapter with the methods that a FunctionPass needs; the rest is inherited."""

    def functions(self, mod: Any) -> Iterable[tuple[str, Any]]:
        return list(mod.functions)

    def kind(self, func: str) -> Any:
        return "prim_func" if func.startswith("prim") else "function"

    def skips(self, func: str) -> bool:
        return func.endswith("skip")

    def replace(self, mod: Any, updates: Mapping[str, Any]) -> Any:
        return type(mod)(*((name, updates.get(name, func)) for name, func in mod.functions))

    select: Any = None


PROGRAM_ADAPTER: Any = ProgramAdapter()


@pytest.fixture
def program() -> type[Program]:
    """Return a fresh class of modules, for which no adapter is registered."""
    return type("Program", (Program,), {})


class Upper(FunctionPass[Any, str]):
    info = PassInfo(0, "Upper")

    async def transform_function(self, func: str, mod: Any, ctx: PassContext) -> str:
        return func.upper()


@pytest.mark.parametrize(
    "mod", [{}, OrderedDict[str, Any](), defaultdict[str, Any](list)], ids=["dict", "subclass", "default"]
)
def test_dict_subclass_uses_dict_adapter(mod: dict[str, Any]) -> None:
    assert adapter_for(mod) is ADAPTER


@pytest.mark.parametrize("mod", [[], "text", 7, None, object()])
def test_unknown_type_error_suggests_register_adapter(mod: object) -> None:
    name = type(mod).__qualname__
    known = sorted(key for key in plugins("apass.irs") if not key.startswith(".") and ":" not in key)
    with pytest.raises(AdapterError) as caught:
        adapter_for(mod)
    assert str(caught.value) == (
        f"no IR adapter for modules of type builtins.{name}; "
        f"known types are {', '.join(known)}; "
        f"add one with apass.register_adapter({name}, ...) or the entry point group 'apass.irs'"
    )


async def test_registered_adapter_serves_subclasses(program: type[Program]) -> None:
    register_adapter(program, PROGRAM_ADAPTER)
    subclass = type("BetterProgram", (program,), {})
    result = await Upper()(subclass(("f", "x"), ("p", "prim"), ("s", "skip"), ("g", "y")))
    assert (type(result), result.functions) == (subclass, (("f", "X"), ("p", "prim"), ("s", "skip"), ("g", "Y")))


async def test_two_functions_of_one_name_are_an_error(program: type[Program]) -> None:
    register_adapter(program, PROGRAM_ADAPTER)
    with pytest.raises(AdapterError) as caught:
        await Upper()(program(("f", "a"), ("g", "b"), ("g", "c")))
    assert str(caught.value) == (
        "the module has several functions named 'g'; the adapter ProgramAdapter must give each function its own name, "
        "or leave it out"
    )


def test_adapter_of_nearest_base_class_wins(program: type[Program]) -> None:
    subclass_adapter: Any = ProgramAdapter()
    subclass = type("BetterProgram", (program,), {})
    register_adapter(program, PROGRAM_ADAPTER)
    register_adapter(subclass, subclass_adapter)
    assert (adapter_for(program()) is PROGRAM_ADAPTER, adapter_for(subclass()) is subclass_adapter) == (True, True)


def test_adapter_registered_after_lookup_is_used(program: type[Program]) -> None:
    subclass_adapter: Any = ProgramAdapter()
    subclass = type("BetterProgram", (program,), {})
    with pytest.raises(AdapterError):
        adapter_for(subclass())
    register_adapter(program, PROGRAM_ADAPTER)
    assert adapter_for(subclass()) is PROGRAM_ADAPTER
    register_adapter(subclass, subclass_adapter)
    assert adapter_for(subclass()) is subclass_adapter


def test_second_adapter_for_type_raises(program: type[Program]) -> None:
    other_adapter: Any = ProgramAdapter()
    register_adapter(program, PROGRAM_ADAPTER)
    register_adapter(program, PROGRAM_ADAPTER)
    with pytest.raises(AdapterError, match="modules of type Program already have the adapter"):
        register_adapter(program, other_adapter)
    assert adapter_for(program()) is PROGRAM_ADAPTER


MY_IR = """
from apass.adapters.mapping import DictAdapter
class Program: ...
class Other: ...
ADAPTER = DictAdapter()
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "expected"),
    [("my_ir.Program", ["Program"]), ("my_ir", ["Program", "Other"]), ("another", [])],
    ids=["class", "package", "other package"],
)
def test_entry_point_matches_class_or_package_name(name: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "my_ir.py").write_text(MY_IR)
    write_distribution(tmp_path, "my_ir", f"[apass.irs]\n{name} = my_ir:ADAPTER\n")
    code = (
        "import apass, my_ir\n"
        "for kind in (my_ir.Program, my_ir.Other):\n"
        "    try:\n"
        "        print(kind.__name__, apass.adapter_for(kind()) is my_ir.ADAPTER)\n"
        "    except apass.errors.AdapterError:\n"
        "        pass\n"
    )
    assert run_python(code, tmp_path) == [word for class_name in expected for word in (class_name, "True")]


@pytest.mark.process
def test_adapter_is_imported_on_first_use() -> None:
    code = (
        "import sys, apass\n"
        "print('apass.adapters.mapping' in sys.modules)\n"
        "apass.adapter_for({})\n"
        "print('apass.adapters.mapping' in sys.modules)\n"
    )
    assert run_python(code, ROOT) == ["False", "True"]


def run_python(code: str, directory: Path) -> list[str]:
    """Run `code` in a new process and return the words that it printed.

    The process can import apass and the modules in `directory`.
    """
    path = os.pathsep.join([str(directory), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return completed.stdout.split()


def test_name_of_a_type_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted_ir.py").write_text("class Module(dict): ...")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert adapter_by_name("planted_ir:Module") is None
    assert "planted_ir" not in sys.modules


@pytest.mark.parametrize("name", ["", ":", "os", "os:", "os:system", "os.path:", "subprocess:Popen", "a:b.c", "\0:\0"])
def test_odd_type_name_has_no_adapter(name: str) -> None:
    assert adapter_by_name(name) is None
