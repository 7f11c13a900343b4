"""Entry points of installed packages."""

import json
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

import apass
from apass.core.ir_plugin import plugin_for_suffix
from apass.loading.entry_points import all_plugins
from tests.helpers.distributions import installed, write_distribution


def test_import_reads_no_description_of_a_package(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_distribution(packages, "first", "[apass.passes]\nmy.Tune = json:loads\n")
    offer = all_plugins()["apass.passes"]["my.Tune"]

    def metadata(_distribution: object) -> None:
        raise AssertionError("parsed")  # which takes milliseconds for a long one

    # Packages such as importlib-metadata replace Python's own class.
    monkeypatch.setattr(type(offer.point.dist), "metadata", property(metadata))
    assert offer.load() is json.loads
    with pytest.raises(AssertionError, match="parsed"):
        _ = offer.package


@pytest.mark.parametrize(
    ("requirement", "is_imported"),
    [
        ("anyio>=4; extra == 'folder'", False),
        ('anyio[trio] (>=4) ; python_version > "3" and extra == "folder"', False),
        ("anyio>=4; extra == 'folder'\nRequires-Dist: no-such-library; extra == 'folder'", True),
        ("anyio>=4; extra == 'other'", True),
        ("anyio>=4", True),
    ],
)
def test_requirements_of_extra_replace_the_import(packages: Path, requirement: str, *, is_imported: bool) -> None:
    write_distribution(packages, "toy", "[apass.irs]\n.toy = toy.folder.plugin:PLUGIN\n", requires=requirement)
    offer = all_plugins()["apass.irs"][".toy"]
    if is_imported:
        with pytest.raises(apass.errors.PluginError, match=r"No module named 'toy'"):
            offer.require()
    else:
        offer.require()


def test_name_of_two_packages_is_an_error(packages: Path) -> None:
    write_distribution(packages, "first", "[apass.passes]\nmy.Tune = json:loads\nmy.Other = json:loads\n")
    write_distribution(packages, "second", "[apass.passes]\nmy.Tune = json:dumps\n", version="2.1")
    message = (
        "the packages first 1.0 and second 2.1 both declare 'my.Tune' in the entry point group 'apass.passes'; "
        "uninstall all but one of them"
    )
    with pytest.raises(apass.errors.PluginError) as caught:
        apass.get_pass("my.Tune")
    assert str(caught.value) == message
    # Other passes of the packages can be used.
    assert "my.Tune" in apass.list_passes()
    assert set(apass.pass_options("my.Other"))


def test_package_installed_twice_is_no_conflict(packages: Path) -> None:
    folders = [packages / "user", packages / "system"]
    for folder in folders:
        write_distribution(folder, "first", "[apass.passes]\nmy.Tune = json:loads\n")
    with installed(*folders):
        assert set(apass.pass_options("my.Tune"))


BROKEN = """[apass.irs]
.foo = no_such_module:PLUGIN
[apass.pass_modules]
broken.* = no_such_module
[apass.config_modules]
broken.* = no_such_module
"""
MESSAGE = (
    "'no_such_module{}' cannot be loaded from the entry point group '{}': "
    "ModuleNotFoundError: No module named 'no_such_module'; fix or uninstall broken 1.0"
)


@pytest.fixture
def broken(packages: Path) -> None:
    """Install a package whose modules cannot be imported."""
    write_distribution(packages, "broken", BROKEN)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("name", "group", "use"),
    [
        (":PLUGIN", "apass.irs", lambda: plugin_for_suffix(".foo")),
        ("", "apass.pass_modules", lambda: apass.get_pass("broken.Pass")),
    ],
)
def test_broken_package_is_named(name: str, group: str, use: Callable[[], object]) -> None:
    with pytest.raises(apass.errors.PluginError) as caught:
        use()
    assert str(caught.value) == MESSAGE.format(name, group)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("group", "names"),
    [("apass.pass_modules", apass.list_passes), ("apass.config_modules", apass.PassContext.list_configs)],
)
def test_lists_leave_a_broken_package_out(group: str, names: Callable[[], Collection[str]]) -> None:
    with pytest.warns(apass.errors.PluginWarning) as warned:
        assert names()
    assert MESSAGE.format("", group) in [str(warning.message) for warning in warned]
