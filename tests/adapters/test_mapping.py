"""The dict adapter: marks, replacement, texts, fingerprints, bytes and copies."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass import IRAdapter
from apass.adapters.mapping import ADAPTER, PLUGIN
from apass.core.adapter import select_functions
from apass.errors import AdapterError, VerifyError
from apass.testing import check_adapter
from apass.testing.strategies import modules

Module = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Marked:
    """A function with marks as attributes."""

    SkipOptimization: bool = True
    kind: str = "prim_func"


class Plain:
    """A function without marks whose type could have them."""


def test_dict_adapter_implements_the_protocol() -> None:
    adapter: IRAdapter[Module, Any] = ADAPTER
    assert adapter.thread_safe


def test_functions_are_in_the_order_of_the_dict() -> None:
    mod = {"b": 1, "a": 2}
    assert (list(ADAPTER.functions(mod)), ADAPTER.get(mod, "a")) == ([("b", 1), ("a", 2)], 2)
    with pytest.raises(KeyError):
        ADAPTER.get(mod, "c")


@pytest.mark.parametrize(
    ("func", "skips", "kind"),
    [
        (1, False, "function"),
        ("SkipOptimization", False, "function"),
        (Marked(), True, "prim_func"),
        (Marked(False, "function"), False, "function"),
        (SimpleNamespace(SkipOptimization=1, kind="prim_func"), True, "prim_func"),
        (SimpleNamespace(attrs={"SkipOptimization": True, "kind": "prim_func"}), True, "prim_func"),
        (SimpleNamespace(attrs=None, SkipOptimization=False), False, "function"),
        ({"SkipOptimization": True, "kind": "prim_func"}, True, "prim_func"),
        ({"attrs": {"SkipOptimization": True, "kind": "prim_func"}}, True, "prim_func"),
        (MappingProxyType({"SkipOptimization": 0}), False, "function"),
        (Plain(), False, "function"),
    ],
)
def test_marks_are_found_in_all_locations(func: object, skips: bool, kind: str) -> None:
    assert (ADAPTER.skips(func), ADAPTER.kind(func)) == (skips, kind)
    selected = {key: select_functions(ADAPTER, {"f": func, "g": 1}, key)[0] for key in ("function", "prim_func")}
    expected = {"function": ["g"], "prim_func": list[str]()}
    if not skips:
        expected[kind] = sorted(["f", *expected[kind]])
    assert selected == expected


def test_replace_returns_copy_of_same_class_and_order() -> None:
    mod = OrderedDict[str, Any](b=1, a=2)
    result = ADAPTER.replace(mod, {"a": 3})
    assert (type(result), list(result.items()), dict(mod)) == (OrderedDict, [("b", 1), ("a", 3)], {"b": 1, "a": 2})
    by_default = ADAPTER.replace(defaultdict[str, Any](list, f=1), {"f": 2})
    assert (by_default["f"], by_default["new"]) == (2, [])


@pytest.mark.parametrize(
    ("mod", "message"),
    [
        ({1: "x"}, "a function of a dict module is named 1; names must be strings"),
        ({"f": None}, "function 'f' of a dict module is None"),
    ],
)
def test_verify_names_the_broken_rule(mod: Any, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        ADAPTER.verify(mod)
    assert str(caught.value) == message


def change(private: Module) -> None:
    """Change a private module in place."""
    functions: list[Any] = [func for func in private.values() if isinstance(func, list)]
    for func in functions:
        func.append("changed")
    private["another"] = 1


@pytest.mark.slow
@given(st.lists(modules(ADAPTER), min_size=1, max_size=3))
def test_laws_of_adapters_hold(mods: list[Module]) -> None:
    check_adapter(ADAPTER, mods, mutate=change)


@pytest.mark.parametrize("func", [(1, 2), {1: 2}, object(), b"x", {1, 2}, [(1,)]])
def test_dumps_rejects_functions_that_json_changes(func: object) -> None:
    with pytest.raises(AdapterError, match="register an adapter for it"):
        ADAPTER.dumps({"f": func})


def test_text_has_names_and_values() -> None:
    assert ADAPTER.to_text({"f": "x + 1", "g": [1, 2]}) == "f: x + 1\ng: [1, 2]"
    assert (ADAPTER.to_text("x"), ADAPTER.to_text([1])) == ("x", "[1]")


def test_file_with_repeated_name_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    for text in ('{"f": 1, "f": 2}', '{"f": {"a": 1, "b": 2, "a": 3}}'):
        path.write_text(text)
        with pytest.raises(AdapterError, match="an object has two entries named"):
            PLUGIN.read(path)
    path.write_text('{"f": {"a": 1}}')
    assert PLUGIN.read(path) == {"f": {"a": 1}}
