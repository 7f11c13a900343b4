"""Pipelines as text: what `parse_pipeline` reads, and `str()` writes back."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass import Pass, Sequential
from apass.errors import PipelineSyntaxError
from apass.passes.conditional import If
from apass.passes.first import First
from apass.passes.minimum_point import MinimumPoint
from apass.passes.race import Race
from apass.passes.repeat import Repeat
from apass.passes.while_ import While
from apass.pipelines.parser import parse_pipeline
from tests.helpers.command_line import apass as invoke
from tests.helpers.pipeline_text import Mode, Module, Rescue, Tune, is_large, registered, size_of
from tests.helpers.repository import ROOT


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


def test_parsed_pipeline_runs() -> None:
    assert apass.run(parse_pipeline("Tune,Repeat{times=3}(Tune),Tune"), {"f": 0}) == {"f": 5}


@pytest.mark.parametrize("text", ["", "  \n", "# nothing\n  # at all", ","[1:]])
def test_empty_text_is_an_empty_sequential(text: str) -> None:
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
            "Race{key=size_of}(FoldConstant)",
            lambda: Sequential[Module]([Race([fold()], key=size_of)]),
        ),
        (
            "If{predicate=is_large}(FoldConstant,FoldConstant)",
            lambda: Sequential[Module]([If(is_large, [fold(), fold()])]),
        ),
        (
            "If{predicate=is_large,otherwise=(FoldConstant,Sequential)}(FoldConstant)",
            lambda: Sequential[Module]([If(is_large, [fold()], [fold(), Sequential[Module]([])])]),
        ),
    ],
)
def test_text_and_pipeline_convert_both_ways(text: str, pipeline: Any) -> None:
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
        ('names=[a, 3, "b c"]', {"names": ["a", "3", "b c"]}),
        ("shape=[[1,2],[],[3]]", {"shape": [[1, 2], [], [3]]}),
        ("where=/tmp/a.b", {"where": Path("/tmp/a.b")}),
        ("layout=NHWC", {"layout": "NHWC"}),
        ("layout=4", {"layout": 4}),
        ("dry=true", {"dry": True}),
        ("anything=[1,a,2.5,[none]]", {"anything": [1, "a", 2.5, [None]]}),
        ("trials=3,\n  dry=True  # both\n", {"trials": 3, "dry": True}),
        ("", {}),
    ],
)
def test_options_are_read_as_declared_types(text: str, given_: dict[str, Any]) -> None:
    (made,) = parse_pipeline(f"Tune{{{text}}}").passes
    assert isinstance(made, Tune)
    assert (made.spec, made.given) == (("Tune", given_), Tune(**given_).given)


def test_passes_can_be_an_option() -> None:
    (made,) = parse_pipeline("Rescue{rescue=(FoldConstant,Repeat(Tune))}(Tune)").passes
    assert isinstance(made, Rescue)
    assert made.rescue == [fold(), Repeat([apass.get_pass("Tune")])]
    assert str(made) == "Rescue{rescue=(FoldConstant,Repeat(Tune))}(Tune)"


def test_white_space_and_comments_are_ignored() -> None:
    text = """
        # first what is cheap
        FoldConstant ,
        Repeat { times = 3 } ( # again
            Tune { names = [ a , b ] } ,
            FoldConstant ( )
        )  # and done
    """
    assert str(parse_pipeline(text)) == "FoldConstant,Repeat{times=3}(Tune{names=[a,b]},FoldConstant)"


@pytest.mark.process
def test_parser_imports_no_parser_library() -> None:
    code = (
        "import sys, apass, apass.passes.race\n"
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
    seconds = st.none() | st.floats(0.5, 9)
    key = st.sampled_from([None, size_of, len])
    predicate = st.sampled_from([is_large, size_of])
    return st.one_of(
        sequentials(inner),
        st.builds(Repeat[Module], some, times=times, strict=st.booleans(), budget=seconds, **usual),
        st.builds(Race[Module], some, key=key, **usual),
        st.builds(First[Module], some, timeout=seconds, **usual),
        st.builds(While[Module], predicate, some, times=times, budget=seconds, **usual),
        st.builds(MinimumPoint[Module], some, predicate, st.integers(1, 9), times=times, budget=seconds, **usual),
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
def test_text_restores_an_equal_pipeline(pipeline: Sequential[Module]) -> None:
    text = str(pipeline)
    again = parse_pipeline(text)
    assert again == pipeline
    assert str(again) == text


@settings(deadline=None)
@given(pipelines, st.lists(st.sampled_from(["", " ", "\n", "\t ", "# a note (\n"]), min_size=1))
def test_white_space_and_comments_change_nothing(pipeline: Sequential[Module], blanks: list[str]) -> None:
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[\w.:/+-]+|.', str(pipeline), re.DOTALL)
    spaced = "".join(piece + blanks[place % len(blanks)] for place, piece in enumerate(pieces))
    assert parse_pipeline(spaced) == pipeline


@settings(deadline=None)
@given(st.text(alphabet='ReFoldConst(){}[],="#\\ \n3') | st.text())
def test_any_text_parses_or_raises_syntax_error(text: str) -> None:
    position = position_of_error(text)
    if position is None:
        assert parse_pipeline(str(parse_pipeline(text))) == parse_pipeline(text)
    else:
        assert 0 <= position <= len(text)


@pytest.mark.slow
@settings(deadline=None)
@given(pipelines, st.data())
def test_truncated_text_parses_or_raises_syntax_error(pipeline: Sequential[Module], data: st.DataObject) -> None:
    text = str(pipeline)
    cut = text[: data.draw(st.integers(0, len(text)))]
    position = position_of_error(cut)
    if position is None:
        assert parse_pipeline(str(parse_pipeline(cut))) == parse_pipeline(cut)
    else:
        assert 0 <= position <= len(cut)


@settings(deadline=None)
@given(st.text())
def test_string_is_quoted_as_in_json(text: str) -> None:
    (made,) = parse_pipeline(f"Tune{{device={json.dumps(text)}}}").passes
    assert made.spec == ("Tune", {"device": text})


def weigh(weights: dict[str, int], extra: Mapping[int, list[float]] | None = None) -> apass.Pass[Any]:
    if "none" in weights:
        error = apass.errors.PassDefinitionError("a weight of nothing")
        error.option = "weights"
        raise error
    if extra == {}:
        raise apass.errors.PassDefinitionError("nothing extra")
    return apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Weigh")


@pytest.fixture(autouse=True)
def weigh_registered() -> Iterator[None]:
    apass.register_pass("Weigh", weigh)
    yield
    apass.unregister_pass("Weigh")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Weigh{weights={}}", "Weigh{weights={}}"),
        ("Weigh{weights={a=1,\n b = 2 # c\n}}", "Weigh{weights={a=1,b=2}}"),
        ('Weigh{weights={"a b"=1,"c"=2,3=4}}', 'Weigh{weights={"a b"=1,c=2,"3"=4}}'),
        ("Weigh{weights={a=1},extra={1=[2,3.5],-4=[]}}", "Weigh{weights={a=1},extra={1=[2.0,3.5],-4=[]}}"),
        ("Weigh{weights={a=1},extra=none}", "Weigh{weights={a=1},extra=none}"),
        (
            "ConvertLayout{desired_layouts={nn.conv2d=[NHWC,default],nn.max_pool2d=[NHWC]}}",
            "ConvertLayout{desired_layouts={nn.conv2d=[NHWC,default],nn.max_pool2d=[NHWC]}}",
        ),
    ],
)
def test_mapping_is_read_and_written(text: str, written: str) -> None:
    pipeline = parse_pipeline(text)
    assert str(pipeline) == written
    assert parse_pipeline(written) == pipeline


def test_text_of_a_pipeline_created_in_python() -> None:
    made = apass.Sequential([apass.get_pass("ConvertLayout", desired_layouts={"nn.conv2d": ["NCHW4c", "default"]})])
    assert str(made) == "ConvertLayout{desired_layouts={nn.conv2d=[NCHW4c,default]}}"
    assert parse_pipeline(str(made)) == made


@pytest.mark.parametrize(
    ("text", "message", "rest"),
    [
        ("Weigh{weights={a=1,a=2}}", "key 'a' is given twice", "a=2}}"),
        ('Weigh{weights={a=1,"a"=2}}', "expected each key once, got 'a' twice", '{a=1,"a"=2}}'),
        ("Weigh{weights={a:1}}", "expected '=' after the key 'a:1', got '}'", "}}"),
        ("Weigh{weights={[a]=1}}", "expected a key, got '['", "[a]=1}}"),
        ("Weigh{weights={a=}}", "expected a value, got '}'", "}}"),
        ("Weigh{weights={a=1 b=2}}", "expected ',' or '}' to close the '{' at character 14, got 'b'", "b=2}}"),
        ("Weigh{weights={a=1", "to close the '{' at character 14, got the end of the text", ""),
        ("Weigh{weights={a=x}}", "expected int, got 'x' (str)", "a=x}}"),
        ("Weigh{weights={a=1,b=2,c=x,d=y}}", "expected int, got 'x' (str)", "c=x,d=y}}"),
        ("Weigh{weights={a=1},extra={1=[2],2=[x]}}", "got {'1': ['2'], '2': ['x']} (dict)", "2=[x]}}"),
        ("Weigh{weights=[a]}", "expected dict[str, int], got ['a'] (list)", "[a]}"),
        ("Weigh{weights=3}", "expected dict[str, int], got 3 (int)", "3}"),
        ("Weigh{weights={a=1},extra={a=[]}}", "got {'a': []} (dict)", "a=[]}}"),
        ("Weigh{weights={none=1}}", "a weight of nothing", "{none=1}}"),
        ("FoldConstant,Weigh{weights={a=1},extra={}}", "nothing extra", "Weigh{weights={a=1},extra={}}"),
        (
            "InferType,ConvertLayout{desired_layouts={nn.konv2d=[NHWC]}}",
            "no operator is named 'nn.konv2d'; did you mean 'nn.conv2d'?",
            "{nn.konv2d=[NHWC]}}",
        ),
        ("ConvertLayout{desired_layouts={nn.conv2d=NHWC}}", "expected list[str], got 'NHWC' (str)", "nn.conv2d=NHWC}}"),
    ],
)
def test_mapping_error_position_is_shown(text: str, message: str, rest: str) -> None:
    with pytest.raises(apass.errors.PipelineSyntaxError) as caught:
        parse_pipeline(text)
    assert message in str(caught.value)
    assert text[caught.value.position :] == rest


MODEL = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 2, 4, 4), float32], %w: Tensor[(2, 2, 1, 1), float32]) {
  nn.conv2d(%x, %w, padding=[0, 0, 0, 0], channels=2, kernel_size=[1, 1])
}
"""


def test_command_line_accepts_a_pipeline_text(tmp_path: Path) -> None:
    model, out = tmp_path / "model.relay", tmp_path / "out"
    model.write_text(MODEL)
    pipeline = "ConvertLayout{desired_layouts={nn.conv2d=[NHWC,default]}}"
    done = invoke("opt", model, "-p", pipeline, "-O", "3", "-o", out, "--verify-outputs")
    assert (done.exit_code, done.stderr) == (0, "")
    assert 'data_layout="NHWC"' in (out / model.name).read_text()
