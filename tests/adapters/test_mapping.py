"""The dict adapter: marks on functions, replacing, texts, fingerprints, bytes and private copies."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass import AdapterError, IRAdapter, VerifyError
from apass.adapters.mapping import ADAPTER
from apass.core.adapter import select_functions

Module = dict[str, Any]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MODULES = st.dictionaries(st.text(), JSON.filter(lambda func: func is not None), max_size=4)


@dataclass(frozen=True, slots=True)
class Marked:
    SkipOptimization: bool = True
    kind: str = "prim_func"


class Plain:
    """A class whose objects have attributes."""


def test_it_is_an_adapter() -> None:
    adapter: IRAdapter[Module, Any] = ADAPTER
    assert adapter.thread_safe


def test_functions_come_in_the_order_of_the_dict() -> None:
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
def test_marks_are_found_where_a_function_may_carry_them(func: object, skips: bool, kind: str) -> None:
    assert (ADAPTER.skips(func), ADAPTER.kind(func)) == (skips, kind)
    chosen = {of: select_functions(ADAPTER, {"f": func, "g": 1}, of)[0] for of in ("function", "prim_func")}
    expect = {"function": ["g"], "prim_func": list[str]()}
    if not skips:
        expect[kind] = sorted(["f", *expect[kind]])
    assert chosen == expect


def test_replace_keeps_class_and_order_and_leaves_the_input() -> None:
    mod = OrderedDict[str, Any](b=1, a=2)
    done = ADAPTER.replace(mod, {"a": 3})
    assert (type(done), list(done.items()), dict(mod)) == (OrderedDict, [("b", 1), ("a", 3)], {"b": 1, "a": 2})
    by_default = ADAPTER.replace(defaultdict[str, Any](list, f=1), {"f": 2})
    assert (by_default["f"], by_default["new"]) == (2, [])


@pytest.mark.parametrize(
    ("mod", "says"),
    [
        ({1: "x"}, "a function of a dict module is named 1; names must be strings"),
        ({"f": None}, "function 'f' of a dict module is None"),
    ],
)
def test_verify_says_which_rule_is_broken(mod: Any, says: str) -> None:
    with pytest.raises(VerifyError) as caught:
        ADAPTER.verify(mod)
    assert str(caught.value) == says


@given(MODULES)
def test_what_verify_lets_pass_is_equal_to_a_copy_of_itself(mod: Module) -> None:
    ADAPTER.verify(mod)
    copy = ADAPTER.isolate(mod, mod)
    assert ADAPTER.equal(mod, copy)
    assert ADAPTER.fingerprint(mod) == ADAPTER.fingerprint(copy)
    assert not ADAPTER.equal(mod, {**mod, "another function": 1, "and one more": 2})


@given(MODULES)
def test_bytes_bring_the_module_back(mod: Module) -> None:
    back = ADAPTER.loads(ADAPTER.dumps(mod))
    assert (back, ADAPTER.fingerprint(back)) == (mod, ADAPTER.fingerprint(mod))
    assert list(back) == list(mod)


@pytest.mark.parametrize("func", [(1, 2), {1: 2}, object(), b"x", {1, 2}, [(1,)]])
def test_what_json_would_not_bring_back_is_refused(func: object) -> None:
    with pytest.raises(AdapterError, match="register an adapter for it"):
        ADAPTER.dumps({"f": func})


def test_the_text_shows_names_and_values() -> None:
    assert ADAPTER.to_text({"f": "x + 1", "g": [1, 2]}) == "f: x + 1\ng: [1, 2]"
    assert (ADAPTER.to_text("x"), ADAPTER.to_text([1])) == ("x", "[1]")


def test_isolated_functions_can_be_changed_without_harm() -> None:
    mod: Module = {"f": [[1]], "g": [2]}
    sub = ADAPTER.isolate(mod, ["f"])
    sub["f"][0].append("changed")
    sub["extra"] = 1
    assert (mod, ADAPTER.extract(sub, ["f"])) == ({"f": [[1]], "g": [2]}, {"f": [[1, "changed"]]})
