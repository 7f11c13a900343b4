"""Looking up adapters: by the type of a module, from apass, from a registration and from an entry point."""

import os
import subprocess
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import apass
from apass import AdapterError, FunctionPass, PassContext, PassInfo, adapter_for, register_adapter
from apass.adapters.mapping import ADAPTER, DictAdapter

pytestmark = pytest.mark.anyio


class Program:
    """A module of an IR of one's own: names, and texts in the same order."""

    def __init__(self, *functions: tuple[str, str]) -> None:
        self.functions = functions


class ProgramAdapter(DictAdapter):
    """The few methods that a FunctionPass needs, and the dict adapter's for the rest."""

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
ROOT = Path(apass.__file__).parent.parent


@pytest.fixture
def program() -> type[Program]:
    """Return a class of modules that no test before has registered an adapter for."""
    return type("Program", (Program,), {})


class Upper(FunctionPass[Any, str]):
    info = PassInfo(0, "Upper")

    async def transform_function(self, func: str, mod: Any, ctx: PassContext) -> str:
        return func.upper()


@pytest.mark.parametrize(
    "mod", [{}, OrderedDict[str, Any](), defaultdict[str, Any](list)], ids=["dict", "subclass", "default"]
)
def test_a_dict_of_any_class_has_the_dict_adapter(mod: dict[str, Any]) -> None:
    assert adapter_for(mod) is ADAPTER


@pytest.mark.parametrize("mod", [[], "text", 7, None, object()])
def test_a_type_that_nothing_knows_says_how_to_provide_an_adapter(mod: object) -> None:
    name = type(mod).__qualname__
    with pytest.raises(AdapterError) as caught:
        adapter_for(mod)
    assert str(caught.value) == (
        f"no IR adapter for modules of type builtins.{name}; pass a dict of functions, an "
        f"apass.relay.IRModule or an onnx_ir.Model, or provide one with apass.register_adapter({name}, ...) or the "
        f"entry point group 'apass.adapters'"
    )


async def test_a_registered_adapter_serves_the_type_and_its_subclasses(program: type[Program]) -> None:
    register_adapter(program, PROGRAM_ADAPTER)
    better = type("BetterProgram", (program,), {})
    done = await Upper()(better(("f", "x"), ("p", "prim"), ("s", "skip"), ("g", "y")))
    assert (type(done), done.functions) == (better, (("f", "X"), ("p", "prim"), ("s", "skip"), ("g", "Y")))


def test_the_adapter_of_the_nearest_base_class_wins(program: type[Program]) -> None:
    own: Any = ProgramAdapter()
    better = type("BetterProgram", (program,), {})
    register_adapter(program, PROGRAM_ADAPTER)
    register_adapter(better, own)
    assert (adapter_for(program()) is PROGRAM_ADAPTER, adapter_for(better()) is own) == (True, True)


def test_an_adapter_registered_after_a_look_up_is_found(program: type[Program]) -> None:
    own: Any = ProgramAdapter()
    better = type("BetterProgram", (program,), {})
    with pytest.raises(AdapterError):
        adapter_for(better())
    register_adapter(program, PROGRAM_ADAPTER)
    assert adapter_for(better()) is PROGRAM_ADAPTER
    register_adapter(better, own)
    assert adapter_for(better()) is own


def test_a_type_has_one_adapter(program: type[Program]) -> None:
    another: Any = ProgramAdapter()
    register_adapter(program, PROGRAM_ADAPTER)
    register_adapter(program, PROGRAM_ADAPTER)
    with pytest.raises(AdapterError, match="modules of type Program already have the adapter"):
        register_adapter(program, another)
    assert adapter_for(program()) is PROGRAM_ADAPTER


MY_IR = """
from apass.adapters.mapping import DictAdapter
class Program: ...
class Other: ...
ADAPTER = DictAdapter()
"""


@pytest.mark.parametrize(
    ("name", "found"),
    [("my_ir.Program", ["Program"]), ("my_ir", ["Program", "Other"]), ("another", [])],
    ids=["class", "package", "other package"],
)
def test_an_entry_point_is_found_by_the_name_of_the_class_or_of_the_package(
    name: str, found: list[str], tmp_path: Path
) -> None:
    (tmp_path / "my_ir.py").write_text(MY_IR)
    info = tmp_path / "my_ir-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-ir\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[apass.adapters]\n{name} = my_ir:ADAPTER\n")
    code = (
        "import apass, my_ir\n"
        "for kind in (my_ir.Program, my_ir.Other):\n"
        "    try:\n"
        "        print(kind.__name__, apass.adapter_for(kind()) is my_ir.ADAPTER)\n"
        "    except apass.AdapterError:\n"
        "        pass\n"
    )
    assert run_python(code, tmp_path) == [word for one in found for word in (one, "True")]


def test_an_adapter_is_imported_when_its_first_module_arrives() -> None:
    code = (
        "import sys, apass\n"
        "print('apass.adapters.mapping' in sys.modules)\n"
        "apass.adapter_for({})\n"
        "print('apass.adapters.mapping' in sys.modules)\n"
    )
    assert run_python(code, ROOT) == ["False", "True"]


def run_python(code: str, directory: Path) -> list[str]:
    """Run `code` in a process of its own that finds apass, and what is in `directory`; return the words it printed."""
    path = os.pathsep.join([str(directory), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()
