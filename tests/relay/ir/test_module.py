"""A module holds functions and data types, under variables or names."""

from typing import cast

import pytest

from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar, TypeData
from apass.relay.expr import GlobalVar, Var
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.make import const
from apass.relay.prelude import Prelude
from apass.relay.structural.equality import structural_equal
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import GlobalTypeVar, TypeVar

X = Var("x")
IDENTITY = Function([X], X)
BOX, T = GlobalTypeVar("Box"), TypeVar("t")
MAKE = Constructor("Make", [T], BOX)
DATA = TypeData(BOX, [T], [MAKE])


def test_a_data_type_is_added_and_found_under_its_variable() -> None:
    mod = IRModule()
    mod[BOX] = DATA
    assert mod[BOX] is DATA
    assert mod.get_type("Box") == (BOX, MAKE)


def test_functions_and_data_types_may_be_given_by_name() -> None:
    mod = IRModule({"main": IDENTITY}, {"Box": DATA})
    assert (mod["main"], mod[BOX]) == (IDENTITY, DATA)
    mod.update({"other": IDENTITY})
    assert [gvar.name_hint for gvar in mod.get_global_vars()] == ["main", "other"]


def test_a_module_that_is_built_by_hand_is_the_one_that_is_parsed() -> None:
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


def test_a_function_is_no_data_type_and_a_number_is_neither() -> None:
    mod = IRModule()
    with pytest.raises(TypeError, match="Box must be a function, or the definition of a data type; not <relay"):
        mod[BOX] = IDENTITY
    with pytest.raises(TypeError, match="main must be a function, or the definition of a data type; not 1"):
        mod[GlobalVar("main")] = cast("Function", 1)
    with pytest.raises(KeyError, match="no data type named 'Box'"):
        _ = mod[BOX]


def test_a_constructor_has_a_tag_by_which_its_module_finds_it() -> None:
    mod = Prelude().mod
    tags: list[int] = []
    for header in mod.get_global_type_vars():
        constructors = mod[header].constructors
        tags += [one.tag for one in constructors]
        assert [one.tag - constructors[0].tag for one in constructors] == list(range(len(constructors)))
        assert [mod.get_constructor(one.tag) for one in constructors] == list(constructors)
    assert len(set(tags)) == len(tags)
    assert min(tags) > 0


def test_a_constructor_without_a_data_type_has_no_tag_yet() -> None:
    assert Constructor("C", [], GlobalTypeVar("Loose")).tag == -1
    with pytest.raises(KeyError, match="no constructor with the tag 5"):
        IRModule().get_constructor(5)


def test_a_function_with_a_symbol_of_its_own_gets_that_name() -> None:
    func = Function([], const(1)).with_attr("global_symbol", "one")
    assert [one.name_hint for one in IRModule.from_expr(func).get_global_vars()] == ["one"]


def test_a_main_that_is_there_keeps_its_name() -> None:
    first = IRModule.from_expr(const(1))
    second = IRModule.from_expr(const(2), functions=first.functions)
    third = IRModule.from_expr(const(3), functions=second.functions)
    assert [one.name_hint for one in third.get_global_vars()] == ["main", "main_1", "main_2"]
    assert third["main"] is first["main"]
