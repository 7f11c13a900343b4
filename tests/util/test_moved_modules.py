"""The documented modules of earlier revisions are still importable."""

import sys
from importlib import import_module

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


@pytest.mark.parametrize("old", DOCUMENTED)
def test_old_module_warns_and_has_its_names(old: str) -> None:
    parent, _, name = old.rpartition(".")
    try:
        with pytest.warns(DeprecationWarning, match=f"the module {old} is apass"):
            module = import_module(old)
        assert [item for item in DOCUMENTED[old] if not hasattr(module, item)] == []
    finally:
        del sys.modules[old]
        delattr(import_module(parent), name)


def test_names_of_old_module_are_the_same_objects() -> None:
    with pytest.warns(DeprecationWarning, match="single_flight"):
        module = import_module("apass.single_flight")
    assert module.SingleFlight is apass.SingleFlight


def test_other_modules_are_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match="apass"):
        import_module("apass.gates")
