"""Strategies for modules: by the adapter, and from samples."""

import sys
from functools import partial
from importlib import import_module
from operator import eq
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings

from apass.adapters.mapping import ADAPTER, DictAdapter
from apass.errors import AdapterError, MissingExtraError
from apass.relay.ir.module import IRModule
from apass.testing.strategies import modules
from apass.util.delta_debugging import Shrinking

ANY = settings(phases=[Phase.generate])
"""Any example that fits, not the smallest."""
SAMPLES: list[dict[str, Any]] = [{"f": [1, 2], "g": "x"}, {"h": 3}]


class Unshrinkable(DictAdapter):
    """An adapter without optional methods for tests."""

    strategy: Any = None
    shrinkings: Any = None


def fail(removed: frozenset[int]) -> Any:
    """Fail to remove parts."""
    raise KeyError(removed)


class Fragile(DictAdapter):
    """An adapter with parts that cannot be removed, and with invalid parts."""

    def shrinkings(self, mod: Any) -> Any:
        """Iterate over shrinkings of which one fails."""
        for shrinking in super().shrinkings(mod):
            yield shrinking
            yield Shrinking("nothing", 1, fail)

    def verify(self, mod: Any) -> None:
        """Reject small modules."""
        if len(mod) < 2:
            ADAPTER.verify({"f": None})


def is_part(mod: dict[str, Any]) -> bool:
    """Return whether a module is a sample, or a part of one."""
    return any(mod.keys() <= sample.keys() for sample in SAMPLES)


@pytest.mark.slow
def test_plugin_object_has_the_strategy_of_its_adapter() -> None:
    plugin: Any = SimpleNamespace(adapter=ADAPTER)
    assert len(find(modules(plugin), lambda mod: len(mod) > 1)) == 2


@given(modules(ADAPTER, SAMPLES))
def test_samples_yield_their_parts(mod: dict[str, Any]) -> None:
    assert is_part(mod)


def test_parts_of_samples_are_found() -> None:
    strategy = modules(ADAPTER, SAMPLES)
    for expected in ({"f": [1, 2], "g": "x"}, {"g": "x"}, {"f": [2], "g": "x"}, {}):
        assert find(strategy, partial(eq, expected)) == expected


@given(modules(Fragile(), SAMPLES[:1]))
def test_invalid_parts_are_left_out(mod: dict[str, Any]) -> None:
    assert set(mod) == {"f", "g"}


@given(modules(Unshrinkable(), SAMPLES))
def test_samples_stay_whole_without_shrinkings(mod: dict[str, Any]) -> None:
    assert mod in SAMPLES


def test_adapter_without_strategy_needs_samples() -> None:
    with pytest.raises(AdapterError, match="Unshrinkable has no strategy; give it a method strategy"):
        modules(Unshrinkable())


def test_missing_hypothesis_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    for name in ("apass.testing.strategies", "apass.relay.testing.programs"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        with pytest.raises(MissingExtraError, match=r"pip install 'apass\[testing\]'"):
            import_module(name)


def test_relay_strategy_yields_modules() -> None:
    adapter: Any = import_module("apass.relay.integration.adapter").ADAPTER
    assert isinstance(find(modules(adapter), lambda mod: True, settings=ANY), IRModule)
