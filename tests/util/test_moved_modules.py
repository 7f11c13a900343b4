"""The documented modules of earlier revisions are still importable."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

import pytest

import apass

DOCUMENTED = {
    "apass.adapters.onnx_outputs": ["Verdict", "compare_outputs"],
    "apass.adapters.onnx_passes": ["DEFAULT", "TABLE"],
    "apass.analyses": ["Analyses"],
    "apass.config": ["Config", "ConfigOption"],
    "apass.decorators": ["FunctionPassOptions", "Promises", "function_pass"],
    "apass.fingerprint": ["fingerprint_value"],
    "apass.optimize": ["OutcomeStream", "optimize_all", "optimize_stream"],
    "apass.promises": ["Promises"],
    "apass.reducing": ["Size"],
    "apass.registry": ["pass_options"],
    "apass.relay.bind": ["bind_params_by_name"],
    "apass.relay.evaluator": ["evaluate"],
    "apass.relay.module": ["IRModule"],
    "apass.relay.outputs": ["difference"],
    "apass.relay.type_infer": ["infer_module"],
    "apass.relay.walks": ["post_order"],
    "apass.reproducers": ["ContextSettings"],
    "apass.shrinking": ["Shrinking"],
    "apass.single_flight": ["SingleFlight"],
    "apass.store": ["Store"],
}
"""The modules and names in the documentation and the examples of revision 29831d6."""


@contextmanager
def old_module(name: str) -> Generator[ModuleType]:
    """Import a module by its old name, and forget it afterwards."""
    with pytest.warns(DeprecationWarning, match=f"the module {name} is apass"):
        module = import_module(name)
    try:
        yield module
    finally:
        parent, _, attribute = name.rpartition(".")
        del sys.modules[name]
        delattr(import_module(parent), attribute)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_old_module_warns_and_has_its_names(name: str) -> None:
    with old_module(name) as module:
        assert [item for item in DOCUMENTED[name] if not hasattr(module, item)] == []


def test_names_of_old_module_are_the_same_objects() -> None:
    with old_module("apass.single_flight") as module:
        assert module.SingleFlight is apass.SingleFlight


def test_other_modules_are_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match="apass"):
        import_module("apass.gates")
