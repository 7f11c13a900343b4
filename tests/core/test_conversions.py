"""Conversions between IRs, which the names of passes declare."""

from pathlib import Path

import pytest

import apass
from apass.core.conversions import Conversion, Route, conversions, route_between
from apass.core.ir_plugin import ir_of_type, irs_of_suffix
from tests.helpers.distributions import write_distribution

POINTS = """[apass.irs]
.toy = toys:PLUGIN
a:.twin = toys:PLUGIN
b:.twin = toys:OTHER
[apass.pass_modules]
toy.FromONNX = toys
toy.ToA = toys
toy.ToNothing = toys
toy.* = toys
[apass.passes]
b.FromTOY = toys:Pass
"""


@pytest.fixture
def toys(packages: Path) -> None:
    """Install a package that declares three IRs, and has no module."""
    write_distribution(packages, "toys", POINTS)


@pytest.mark.usefixtures("toys")
def test_names_declare_conversions() -> None:
    found = [(one.name, one.source, one.result) for one in conversions() if "toy" in one.name.lower()]
    assert found == [("b.FromTOY", "toy", "b"), ("toy.FromONNX", "onnx", "toy"), ("toy.ToA", "toy", "a")]
    assert Conversion.of("relay.ToANormalForm") is None


@pytest.mark.usefixtures("toys")
def test_shortest_route_is_found() -> None:
    assert route_between(["relay"], ["a", "b"]) == Route("relay", ("onnx.FromRelay", "toy.FromONNX", "b.FromTOY"), "b")
    assert route_between(["relay", "onnx"], ["toy"]) == Route("onnx", ("toy.FromONNX",), "toy")
    assert route_between(["relay", "a"], ["a", "relay"]) == Route("relay", (), "relay")
    assert route_between(["a"], ["toy"]) is None


@pytest.mark.usefixtures("toys")
def test_suffix_without_a_prefix_names_its_ir() -> None:
    assert (irs_of_suffix(".toy"), irs_of_suffix(".twin")) == (("toy",), ("a", "b"))
    assert (irs_of_suffix(".mlir"), irs_of_suffix(".onnx")) == (("xdsl", "mlir"), ("onnx", "relay"))


def test_registered_plugin_has_an_ir() -> None:
    class Program(dict[str, int]):
        """A module of a test."""

    assert (ir_of_type(dict), ir_of_type(Program), ir_of_type(int)) == ("json", "json", None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:hello:DeprecationWarning")  # a pass of xDSL for tests
def test_every_pass_that_converts_is_named_so() -> None:
    found: dict[str, str | None] = {}
    for name in apass.list_passes():
        try:
            kind = apass.get_pass(name).execution.result_type
        except apass.errors.ApassError:  # an option is missing
            continue
        if kind is not None:
            found[name] = ir_of_type(kind)
    assert found == {one.name: one.result for one in conversions() if one.name in apass.list_passes()}
