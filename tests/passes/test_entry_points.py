"""Passes from entry points of a distribution, seen by another interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.distributions import write_distribution
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.process


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Install a distribution with a factory, a class, a pass, and a missing object."""
    (tmp_path / "plugin.py").write_text(
        "import apass\n"
        "print('plugin is imported')\n"
        "class Step(apass.ModulePass):\n"
        "    info = apass.PassInfo(1, 'plugin.Step')\n"
        "    def __init__(self, by: int = 1):\n"
        "        self.by = by\n"
        "    def transform_module(self, mod, ctx):\n"
        "        return {name: func + self.by for name, func in mod.items()}\n"
        "def make(by: int):\n"
        "    return Step(by)\n"
        "step = Step()\n"
        "@apass.register_pass('plugin.Both')\n"
        "@apass.module_pass(opt_level=0)\n"
        "def Both(mod, ctx):\n"
        "    return mod\n"
    )
    write_distribution(
        tmp_path,
        "plugin",
        "[apass.passes]\n"
        "plugin.Step = plugin:Step\n"
        "plugin.Made = plugin:make\n"
        "plugin.Object = plugin:step\n"
        "plugin.Missing = plugin:missing\n"
        "plugin.Both = plugin:Both\n",
    )
    return tmp_path


def output_of(code: str, installed: Path) -> list[str]:
    """Return the lines that `code` prints in an interpreter that has the distribution."""
    code = "import sys; sys.path[:0] = sys.argv[1:]; import apass, apass.passes.race\n" + code
    command = [sys.executable, "-c", code, str(ROOT), str(installed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_entry_points_are_listed_without_being_loaded(installed: Path) -> None:
    code = "print([name for name in apass.list_passes() if 'plugin' in name])"
    known = ["plugin.Both", "plugin.Made", "plugin.Missing", "plugin.Object", "plugin.Step"]
    assert output_of(code, installed) == [str(known)]


def test_entry_point_can_be_factory_class_or_pass(installed: Path) -> None:
    code = (
        "step, made = apass.get_pass('plugin.Step', by=2), apass.get_pass('plugin.Made', by=3)\n"
        "pipeline = apass.Sequential([step, made, apass.get_pass('plugin.Object')])\n"
        "print(pipeline, apass.run(pipeline, {'f': 0}))\n"
    )
    assert output_of(code, installed) == [
        "plugin is imported",
        "plugin.Step{by=2},plugin.Made{by=3},plugin.Object {'f': 6}",
    ]


def test_entry_point_passes_resolve_by_name(installed: Path) -> None:
    code = (
        "from apass.pipelines.parser import parse_pipeline\n"
        "last = apass.module_pass(lambda mod, ctx: mod, opt_level=0, name='Last', required=['plugin.Step'])\n"
        "print(apass.run(apass.Sequential([last]), {'f': 0}))\n"
        "print(apass.run(parse_pipeline('plugin.Step{by=5}'), {'f': 0}))\n"
    )
    assert output_of(code, installed) == ["plugin is imported", "{'f': 1}", "{'f': 5}"]


def test_entry_point_names_cannot_be_registered_again(installed: Path) -> None:
    code = (
        "try:\n    apass.register_pass('plugin.Step', print)\n"
        "except apass.errors.PassRegistrationError as error:\n    print(error)\n"
    )
    assert "\n".join(output_of(code, installed)) == (
        "a pass named 'plugin.Step' is already registered; call unregister_pass('plugin.Step') first, "
        "or choose another name"
    )


def test_entry_point_module_may_register_itself(installed: Path) -> None:
    code = "print(apass.run(apass.get_pass('plugin.Both'), {'f': 0}))"
    assert output_of(code, installed) == ["plugin is imported", "{'f': 0}"]


@pytest.mark.slow
def test_unknown_name_error_suggests_entry_points(installed: Path) -> None:
    code = "try:\n    apass.get_pass('plugin.Setp')\nexcept apass.errors.UnknownPassError as error:\n    print(error)\n"
    assert output_of(code, installed) == [
        "no pass is registered under the name 'plugin.Setp'; did you mean 'plugin.Step'?"
    ]


def test_broken_entry_point_raises_on_use(installed: Path) -> None:
    code = (
        "try:\n    apass.get_pass('plugin.Missing')\n"
        "except apass.errors.PassRegistrationError as error:\n    print(error)\n"
    )
    told = (
        "pass 'plugin.Missing' cannot be loaded from the entry point 'plugin:missing': AttributeError: module 'plugin' "
        "has no attribute 'missing'; fix or uninstall the package that declares it"
    )
    assert output_of(code, installed) == ["plugin is imported", told]
