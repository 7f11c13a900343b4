"""`pipeline_shrinkings`: what can be removed from a pipeline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.debugging.smaller_pipelines import pipeline_shrinkings


def smaller(text: str, what: str, *removed: int) -> str:
    """Return the text of a pipeline without some of its parts."""
    parts = {part.what: part for part in pipeline_shrinkings(apass.parse_pipeline(text), apass.PassContext())}
    return str(parts[what].without(frozenset(removed)))


def counts(text: str) -> list[int]:
    """Return the number of passes, of passes that contain others, and of options."""
    return [part.count for part in pipeline_shrinkings(apass.parse_pipeline(text), apass.PassContext())]


NESTED = "SimplifyInference,Repeat{times=3}(FoldConstant,Sequential{name=s}(FastMath)),DeadCodeElimination"


def test_parts_of_nested_pipeline() -> None:
    assert counts(NESTED) == [6, 2, 2]
    assert counts("SimplifyInference") == [1, 0, 0]
    assert counts("") == [0, 0, 0]


@pytest.mark.parametrize(
    ("removed", "left"),
    [
        ((0,), "Repeat{times=3}(FoldConstant,Sequential{name=s}(FastMath)),DeadCodeElimination"),
        ((1,), "SimplifyInference,DeadCodeElimination"),
        ((1, 2, 3, 4), "SimplifyInference,DeadCodeElimination"),
        ((0, 3, 5), "Repeat{times=3}(FoldConstant)"),
        ((0, 1, 2, 3, 4), "DeadCodeElimination"),
        ((0, 1, 2, 3, 4, 5), ""),
    ],
)
def test_passes_are_removed_with_their_inner_ones(removed: tuple[int, ...], left: str) -> None:
    assert smaller(NESTED, "passes", *removed) == left


def test_containers_are_replaced_by_inner_passes() -> None:
    assert smaller(NESTED, "passes that contain others", 0) == (
        "SimplifyInference,FoldConstant,Sequential{name=s}(FastMath),DeadCodeElimination"
    )
    assert smaller(NESTED, "passes that contain others", 0, 1) == (
        "SimplifyInference,FoldConstant,FastMath,DeadCodeElimination"
    )


def test_options_get_their_defaults() -> None:
    assert smaller(NESTED, "options of passes", 0, 1) == (
        "SimplifyInference,Repeat(FoldConstant,Sequential(FastMath)),DeadCodeElimination"
    )


def test_registered_pipeline_is_opened() -> None:
    whole, inner = counts("relay.Default")[0], len(apass.get_pass("relay.Default").branches()[0])
    assert whole > inner > 2
    assert smaller("relay.Default", "passes", 0) == ""
    left = smaller("relay.Default", "passes", *range(2, whole))
    assert left == str(apass.get_pass("relay.Default").branches()[0][0])


@given(st.sets(st.integers(0, 5)))
def test_removal_is_independent_of_grouping(removed: set[int]) -> None:
    shrinking = next(iter(pipeline_shrinkings(apass.parse_pipeline(NESTED), apass.PassContext())))
    kept = [name for number, name in ((0, "SimplifyInference"), (5, "DeadCodeElimination")) if number not in removed]
    try:
        text = str(shrinking.without(frozenset(removed)))
    except apass.errors.PassDefinitionError:
        # A Repeat without passes.
        assert {2, 3} <= removed
        assert 1 not in removed
        return
    assert [name for name in ("SimplifyInference", "DeadCodeElimination") if name in text] == kept
    assert str(apass.parse_pipeline(text)) == text


def test_pass_of_higher_level_stays_in_a_row() -> None:
    ctx = apass.PassContext(opt_level=2)
    passes = next(iter(pipeline_shrinkings(apass.parse_pipeline("SimplifyInference,FastMath"), ctx)))
    assert apass.get_pass("FastMath").info.opt_level == 4
    alone = passes.without(frozenset({0}))
    assert (alone.text(), passes.without(frozenset({1})).text()) == ("Sequential(FastMath)", "SimplifyInference")
