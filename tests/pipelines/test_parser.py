"""Pipelines as text: what `parse_pipeline` reads, and `str()` writes back."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass import Pass, PipelineSyntaxError, Sequential
from apass.combinators import If, Race, Repeat
from apass.pipelines.parser import parse_pipeline
from tests.helpers.pipeline_text import Mode, Module, Rescue, Tune, is_large, registered, size_of

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    with registered():
        yield


def fold() -> Pass[Module]:
    return apass.get_pass("FoldConstant")


# What a text means.


def test_the_text_of_the_readme() -> None:
    pipeline = parse_pipeline("FoldConstant,Repeat{times=3}(Tune,FoldConstant)")
    assert pipeline == Sequential([fold(), Repeat([apass.get_pass("Tune"), fold()], times=3)])
    assert str(pipeline) == "FoldConstant,Repeat{times=3}(Tune,FoldConstant)"


def test_a_pipeline_of_text_runs() -> None:
    assert apass.run(parse_pipeline("Tune,Repeat{times=3}(Tune),Tune"), {"f": 0}) == {"f": 5}


@pytest.mark.parametrize("text", ["", "  \n", "# nothing\n  # at all", ","[1:]])
def test_an_empty_text_is_an_empty_sequential(text: str) -> None:
    assert parse_pipeline(text) == Sequential([])
    assert str(parse_pipeline(text)) == ""


@pytest.mark.parametrize(
    ("text", "pipeline"),
    [
        ("Sequential", lambda: Sequential[Module]([])),
        ("Sequential()", lambda: Sequential[Module]([])),
        ("Sequential(FoldConstant)", lambda: Sequential[Module]([fold()])),
        ("Sequential{name=O2,opt_level=2}(FoldConstant)", lambda: Sequential[Module]([fold()], name="O2", opt_level=2)),
        ("Sequential(Sequential)", lambda: Sequential[Module]([Sequential[Module]([])])),
        ("Sequential,Sequential", lambda: Sequential[Module]([Sequential[Module]([]), Sequential[Module]([])])),
        ("Sequential(FoldConstant),FoldConstant", lambda: Sequential[Module]([Sequential[Module]([fold()]), fold()])),
        ("Sequential{required=[Tune]}", lambda: Sequential[Module]([], required=["Tune"])),
        ("FoldConstant()", lambda: Sequential[Module]([fold()])),
        (
            "none,3,demo.Fold-1",
            lambda: Sequential[Module]([apass.get_pass(name) for name in ("none", "3", "demo.Fold-1")]),
        ),
        ("Race(FoldConstant,Tune)", lambda: Sequential[Module]([Race([fold(), apass.get_pass("Tune")])])),
        (
            "Race{key=tests.helpers.pipeline_text:size_of}(FoldConstant)",
            lambda: Sequential[Module]([Race([fold()], key=size_of)]),
        ),
        (
            "If{predicate=tests.helpers.pipeline_text:is_large}(FoldConstant,FoldConstant)",
            lambda: Sequential[Module]([If(is_large, [fold(), fold()])]),
        ),
        (
            "If{predicate=tests.helpers.pipeline_text:is_large,otherwise=(FoldConstant,Sequential)}(FoldConstant)",
            lambda: Sequential[Module]([If(is_large, [fold()], [fold(), Sequential[Module]([])])]),
        ),
    ],
)
def test_a_text_means_a_pipeline_and_the_pipeline_is_written_in_that_way(text: str, pipeline: Any) -> None:
    meant: Sequential[Module] = pipeline()
    assert parse_pipeline(text) == meant
    assert parse_pipeline(str(meant)) == meant


@pytest.mark.parametrize(
    ("text", "given_"),
    [
        ("trials=3", {"trials": 3}),
        ("device=cuda:0", {"device": "cuda:0"}),
        ("device=3", {"device": "3"}),
        ("device=none", {"device": None}),
        ('device="none"', {"device": "none"}),
        ('device="a \\"b\\"\\n\\u00e9 #,(){}[]="', {"device": 'a "b"\n\u00e9 #,(){}[]='}),
        ("rate=1e-3", {"rate": 0.001}),
        ("rate=-inf", {"rate": float("-inf")}),
        ("rate=3", {"rate": 3.0}),
        ("mode=SMALL", {"mode": Mode.SMALL}),
        ("mode=2", {"mode": Mode.SMALL}),
        ("names=[]", {"names": []}),
        ('names=[a, 3, "b c",]', {"names": ["a", "3", "b c"]}),
        ("shape=[[1,2],[],[3]]", {"shape": [[1, 2], [], [3]]}),
        ("where=/tmp/a.b", {"where": Path("/tmp/a.b")}),
        ("layout=NHWC", {"layout": "NHWC"}),
        ("layout=4", {"layout": 4}),
        ("dry=true", {"dry": True}),
        ("anything=[1,a,2.5,[none]]", {"anything": [1, "a", 2.5, [None]]}),
        ("trials=3,\n  dry=True,  # both\n", {"trials": 3, "dry": True}),
        ("", {}),
    ],
)
def test_options_are_read_as_the_types_that_the_pass_declares(text: str, given_: dict[str, Any]) -> None:
    (made,) = parse_pipeline(f"Tune{{{text}}}").passes
    assert isinstance(made, Tune)
    assert (made.spec, made.given) == (("Tune", given_), Tune(**given_).given)


def test_passes_may_be_given_as_an_option() -> None:
    (made,) = parse_pipeline("Rescue{rescue=(FoldConstant,Repeat(Tune))}(Tune)").passes
    assert isinstance(made, Rescue)
    assert made.rescue == [fold(), Repeat([apass.get_pass("Tune")])]
    assert str(made) == "Rescue{rescue=(FoldConstant,Repeat(Tune))}(Tune)"


def test_blanks_comments_and_a_last_comma_make_no_difference() -> None:
    text = """
        # first what is cheap
        FoldConstant ,
        Repeat { times = 3 , } ( # again
            Tune { names = [ a , b , ] } ,
            FoldConstant ( ) ,
        ) ,
    """
    assert str(parse_pipeline(text)) == "FoldConstant,Repeat{times=3}(Tune{names=[a,b]},FoldConstant)"


def test_parsing_needs_no_library_of_parsers() -> None:
    code = (
        "import sys, apass, apass.combinators\n"
        "from apass.pipelines.parser import parse_pipeline\n"
        "parse_pipeline('Sequential')\n"
        "print({'lark', 'numpy'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# Laws.


def tune(options: dict[str, Any]) -> Pass[Module]:
    return apass.get_pass("Tune", **options)


def position_of_error(text: str) -> int | None:
    """Return where the text does not parse; None if it does."""
    try:
        parse_pipeline(text)
    except PipelineSyntaxError as error:
        return error.position
    return None


texts = st.text(min_size=1)
levels = st.integers(0, 3)
required = st.lists(st.sampled_from(["FoldConstant", "Tune", "none"]) | texts, max_size=2)
usual = {"opt_level": levels, "name": texts, "required": required}
leaves = st.one_of(
    st.builds(
        tune,
        st.fixed_dictionaries(
            {},
            optional={
                "trials": st.integers(),
                "device": st.none() | st.text(),
                "rate": st.floats(),
                "mode": st.sampled_from(Mode),
                "names": st.lists(st.text()),
                "shape": st.none() | st.lists(st.lists(st.integers())),
                "where": st.none() | st.text().map(Path),
                "layout": st.sampled_from(["NCHW", "NHWC", 4]),
                "dry": st.booleans(),
                "anything": st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=4),
            },
        ),
    ),
    st.sampled_from(["FoldConstant", "demo.Fold-1", "none", "3"]).map(apass.get_pass),
)


def combined(inner: st.SearchStrategy[Pass[Module]]) -> st.SearchStrategy[Pass[Module]]:
    """Return combinators over what `inner` gives."""
    some = st.lists(inner, min_size=1, max_size=3)
    times = st.none() | st.integers(1, 9)
    key = st.sampled_from([None, size_of, len])
    predicate = st.sampled_from([is_large, size_of])
    return st.one_of(
        sequentials(inner),
        st.builds(Repeat[Module], some, times=times, strict=st.booleans(), **usual),
        st.builds(Race[Module], some, key=key, **usual),
        st.builds(If[Module], predicate, some, otherwise=st.none() | st.lists(inner, max_size=2), **usual),
        st.builds(partial(apass.get_pass, "Rescue"), passes=some, rescue=some),
    )


def sequentials(inner: st.SearchStrategy[Pass[Module]]) -> st.SearchStrategy[Sequential[Module]]:
    """Return Sequentials, with options or without, over what `inner` gives."""
    passes = st.lists(inner, max_size=3)
    return st.builds(Sequential[Module], passes) | st.builds(Sequential[Module], passes, **usual)


pipelines = sequentials(st.recursive(leaves, combined, max_leaves=8))


@settings(deadline=None)
@given(pipelines)
def test_a_pipeline_comes_back_equal_from_its_text(pipeline: Sequential[Module]) -> None:
    text = str(pipeline)
    again = parse_pipeline(text)
    assert again == pipeline
    assert str(again) == text


@settings(deadline=None)
@given(pipelines, st.lists(st.sampled_from(["", " ", "\n", "\t ", "# a note (\n"]), min_size=1))
def test_blanks_and_comments_between_the_words_change_nothing(pipeline: Sequential[Module], blanks: list[str]) -> None:
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[\w.:/+-]+|.', str(pipeline), re.DOTALL)
    spaced = "".join(piece + blanks[place % len(blanks)] for place, piece in enumerate(pieces))
    assert parse_pipeline(spaced) == pipeline


@settings(deadline=None)
@given(st.text(alphabet='ReFoldConst(){}[],="#\\ \n3') | st.text())
def test_any_text_is_a_pipeline_or_a_syntax_error_within_it(text: str) -> None:
    position = position_of_error(text)
    if position is None:
        assert parse_pipeline(str(parse_pipeline(text))) == parse_pipeline(text)
    else:
        assert 0 <= position <= len(text)


@settings(deadline=None)
@given(pipelines, st.data())
def test_a_text_cut_short_is_a_shorter_pipeline_or_a_syntax_error(
    pipeline: Sequential[Module], data: st.DataObject
) -> None:
    text = str(pipeline)
    cut = text[: data.draw(st.integers(0, len(text)))]
    position = position_of_error(cut)
    if position is None:
        assert parse_pipeline(str(parse_pipeline(cut))) == parse_pipeline(cut)
    else:
        assert 0 <= position <= len(cut)


@settings(deadline=None)
@given(st.text())
def test_a_string_is_quoted_as_in_json(text: str) -> None:
    (made,) = parse_pipeline(f"Tune{{device={json.dumps(text)}}}").passes
    assert made.spec == ("Tune", {"device": text})
