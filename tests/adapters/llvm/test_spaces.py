"""The spaces of pipelines for LLVM. Their points are pipelines that run."""

from random import Random

import pytest

import apass
from apass.adapters.llvm import ADAPTER, Module, spaces
from apass.adapters.llvm.opt import needed_opt
from apass.errors import SearchError
from apass.search import Space, search
from apass.search.moves import random_point
from apass.search.template import Steps
from tests.helpers.amounts import some
from tests.helpers.llvm_modules import TEXTS, needs_opt
from tests.helpers.rows import row

pytestmark = [needs_opt, pytest.mark.process]


def alternatives(text: str) -> tuple[str, ...]:
    """Return the alternatives of a space that ends with a sequence."""
    *_, hole = Space(text).items
    assert isinstance(hole, Steps)
    return hole.labels


def test_actions_of_the_literature_are_124() -> None:
    names = [*spaces.SAME.split(), *spaces.RENAMED, *spaces.GONE]
    assert len(names) == len(set(names)) == 124


def test_phases_have_all_names_of_today() -> None:
    entries = {entry.name for entry in needed_opt().catalogue.passes}
    chosen = alternatives(spaces.phases())
    assert len(chosen) == 113
    assert [text for text in chosen if text.removeprefix("llvm.").partition("{")[0] not in entries] == []


def test_size_has_all_its_passes() -> None:
    assert len(alternatives(spaces.size())) == len(spaces.SMALL.split())


def test_phases_leave_out_what_is_gone() -> None:
    names = {entry.name for entry in needed_opt().catalogue.passes}
    changing = {"insert-gcov-profiling"}
    assert not set(spaces.GONE) & (names - changing)


def test_phases_of_llvmlite_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_LLVM_OPT", "llvmlite")
    chosen = alternatives(spaces.phases())
    assert {"llvm.instcombine", "llvm.sroa"} <= {*chosen}
    assert not {"llvm.licm", "llvm.refprune"} & {*chosen}


def test_random_points_run() -> None:
    random = Random(20)
    for make in (spaces.phases, spaces.flags, spaces.size):
        space = Space(make())
        for _ in some(range(24)):
            pipeline = space.passes_of(random_point(space, random))
            mod = Module.parse(TEXTS[random.choice(list(TEXTS))])
            with row(f"{make.__name__} {pipeline}"):
                ADAPTER.verify(apass.run(pipeline, mod))


def test_calls_that_must_be_inlined_count() -> None:
    text = """
target triple = "x86_64-pc-linux-gnu"
define internal i32 @must(i32 %x) alwaysinline {
  %y = mul i32 %x, %x
  ret i32 %y
}
define i32 @calls(i32 %x) {
  %y = call i32 @must(i32 %x)
  ret i32 %y
}
"""
    random = Random(7)
    for make in (spaces.phases, spaces.size):
        space = Space(make())
        for _ in some(range(8)):
            mod = apass.run(space.passes_of(random_point(space, random)), Module.parse(text))
            assert "@must" not in mod.text, make


def test_learned_sequences_are_in_the_space() -> None:
    found, space = spaces.sequences(), Space(spaces.size())
    assert len(found) == len(set(found)) == 45
    for text in found:
        point = space.point_of(text)
        assert point is not None, text
        assert space.text_of(point) == text


def test_space_of_another_ir_is_an_error() -> None:
    with pytest.raises(SearchError) as caught:
        search([Module.parse(TEXTS["sum"])], "onnx.tools", "nodes")
    assert str(caught.value).startswith("the space onnx.tools is for modules of onnx, got llvm; for these there are ")
