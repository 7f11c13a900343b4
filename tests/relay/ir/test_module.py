"""`IRModule`: functions and data types, added by variable or by name."""

import pickle
from collections.abc import Callable, Mapping
from typing import cast

import pytest

from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar, TypeData
from apass.relay.expr import GlobalVar, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const
from apass.relay.ir.map import Map
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from apass.relay.prelude import Prelude
from apass.relay.structural.equality import structural_equal
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import GlobalTypeVar, TypeVar

X = Var("x")
IDENTITY = Function([X], X)
BOX, T = GlobalTypeVar("Box"), TypeVar("t")
MAKE = Constructor("Make", [T], BOX)
DATA = TypeData(BOX, [T], [MAKE])


def test_data_type_is_stored_by_variable() -> None:
    mod = IRModule()
    mod[BOX] = DATA
    assert mod[BOX] is DATA
    assert mod.get_type("Box") == (BOX, MAKE)


def test_module_accepts_names_as_keys() -> None:
    mod = IRModule({"main": IDENTITY}, {"Box": DATA})
    assert (mod["main"], mod[BOX]) == (IDENTITY, DATA)
    mod.update({"other": IDENTITY})
    assert [gvar.name_hint for gvar in mod.get_global_vars()] == ["main", "other"]


def test_built_module_equals_parsed_module() -> None:
    a, inner = TypeVar("a"), Var("inner")
    box = Var("box", BOX(a))
    body = Match(box, [Clause(PatternConstructor(MAKE, [PatternVar(inner)]), inner)])
    mod = IRModule()
    mod[BOX] = DATA
    mod["unbox"] = Function([box], body, a, [a])
    text = """\
type Box[t] {
  Make(t),
}

def @unbox[a](%box: Box[a]) -> a {
  match (%box) {
    Make(%inner) => {
      %inner
    },
  }
}
"""
    assert str(mod) == text
    assert structural_equal(read_module(text), mod)


def test_setitem_rejects_value_of_wrong_kind() -> None:
    mod = IRModule()
    with pytest.raises(TypeError, match="Box must be a function or a TypeData, got <relay"):
        mod[BOX] = IDENTITY
    with pytest.raises(TypeError, match="main must be a function or a TypeData, got 1"):
        mod[GlobalVar("main")] = cast("Function", 1)
    with pytest.raises(KeyError, match="no data type named 'Box'"):
        _ = mod[BOX]


def test_get_constructor_accepts_unique_tag() -> None:
    mod = Prelude().mod
    tags: list[int] = []
    for header in mod.get_global_type_vars():
        constructors = mod[header].constructors
        new_tags = [constructor.tag for constructor in constructors]
        assert [tag - constructors[0].tag for tag in new_tags] == list(range(len(constructors)))
        assert [mod.get_constructor(tag) for tag in new_tags] == list(constructors)
        tags += new_tags
    assert len(set(tags)) == len(tags)


def test_tag_is_unset_without_data_type() -> None:
    assert Constructor("C", [], GlobalTypeVar("Loose")).tag == -1
    with pytest.raises(KeyError, match="no constructor with the tag 5"):
        IRModule().get_constructor(5)


def test_from_expr_uses_global_symbol() -> None:
    func = Function([], const(1)).with_attr("global_symbol", "one")
    assert [gvar.name_hint for gvar in IRModule.from_expr(func).get_global_vars()] == ["one"]


def test_from_expr_picks_unused_name() -> None:
    first = IRModule.from_expr(const(1))
    second = IRModule.from_expr(const(2), functions=first.functions)
    third = IRModule.from_expr(const(3), functions=second.functions)
    assert [gvar.name_hint for gvar in third.get_global_vars()] == ["main", "main_1", "main_2"]
    assert third["main"] is first["main"]


# Maps.


def test_items_of_module_are_lists_of_pairs() -> None:
    mod = parse("type Pair { Pair(int32, int32), }\ndef @main() { 1 }\ndef @other() { 2 }")
    header, data = mod.type_definitions.items()[0]
    assert (header, data.header) == (mod.get_global_type_var("Pair"), mod.get_global_type_var("Pair"))
    pairs = mod.functions.items()
    assert isinstance(pairs, list)
    assert [gvar.name_hint for gvar, _ in pairs] == ["main", "other"]
    assert pairs[1][1] is mod["other"]


def test_map_is_a_mapping_with_list_of_items() -> None:
    entries = {"a": 1, "b": 2}
    mapping = Map(entries)
    assert isinstance(mapping, Mapping)
    assert mapping.items() == [("a", 1), ("b", 2)]
    assert (list(mapping), list(mapping.keys()), list(mapping.values())) == (["a", "b"], ["a", "b"], [1, 2])
    assert (mapping["a"], mapping.get("c"), mapping.get("c", 3), len(mapping), "b" in mapping) == (1, None, 3, 2, True)
    assert mapping == entries == mapping == Map(entries) != Map({})
    assert repr(mapping) == repr(entries)
    assert pickle.loads(pickle.dumps(mapping)) == mapping
    entries["c"] = 3
    assert "c" not in mapping


def test_module_takes_maps_of_another_module() -> None:
    mod = parse("type Pair { Pair(int32, int32), }\ndef @main() { 1 }")
    other = IRModule(mod.functions, mod.type_definitions)
    assert (other.functions, other.type_definitions) == (mod.functions, mod.type_definitions)
    other.update(mod.functions)
    assert other.functions == mod.functions


def test_add_replaces_only_with_update() -> None:
    mod = IRModule()
    add: Callable[..., None] = getattr(mod, "_add")  # noqa: B009 - a private name that code for TVM uses
    add("f", X)
    add(BOX, DATA)
    assert mod["f"].body is X
    assert mod[BOX] is DATA
    with pytest.raises(ValueError, match=r"^the module already has a function named 'f'; pass update=True to replace"):
        add(GlobalVar("f"), IDENTITY)
    with pytest.raises(ValueError, match=r"^the module already has a data type named 'Box'; pass update=True"):
        add(BOX, DATA)
    add(GlobalVar("f"), IDENTITY, update=True)
    add(BOX, DATA, True)
    assert mod["f"] is IDENTITY


def test_attributes_belong_to_the_copy() -> None:
    mod = IRModule({"main": IDENTITY})
    marked = mod.with_attr("runtime", "cpp").with_attr({"executor": "graph"})
    assert (marked.get_attr("runtime"), marked.get_attr("executor"), marked.get_attr("other")) == ("cpp", "graph", None)
    assert mod.get_attr("runtime") is None
    assert dict(marked.with_functions({"f": IDENTITY}).attrs.items()) == {"runtime": "cpp", "executor": "graph"}
    assert not structural_equal(mod, marked)
    assert structural_equal(marked, mod.with_attr({"executor": "graph", "runtime": "cpp"}))
