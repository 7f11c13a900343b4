"""Pipelines as text: what `parse_pipeline` reads, `str()` writes back, and errors point at."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass import ModulePass, Pass, PassContext, PassDefinitionError, PassInfo, PipelineSyntaxError, Sequential
from apass.combinators import If, Race, Repeat
from apass.pipeline import parse_pipeline

ROOT = Path(__file__).parent.parent

Module = dict[str, int]


class Mode(Enum):
    FAST = 1
    SMALL = 2


class Tune(ModulePass[Module]):
    """A leaf with an option of every kind."""

    info = PassInfo(opt_level=1, name="Tune")

    def __init__(
        self,
        trials: int = 8,
        device: str | None = None,
        rate: float = 1.0,
        mode: Mode = Mode.FAST,
        names: Sequence[str] = (),
        shape: list[list[int]] | None = None,
        where: Path | None = None,
        layout: Literal["NCHW", "NHWC", 4] = "NCHW",
        dry: bool = False,
        anything: Any = None,
    ) -> None:
        self.given = (trials, device, rate, mode, names, shape, where, layout, dry, anything)

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {name: func + 1 for name, func in mod.items()}


@apass.module_pass(opt_level=0)
def FoldConstant(mod: Module, ctx: PassContext) -> Module:
    return mod


class Rescue(Pass[Module]):
    """A combinator from outside, with passes as an option too."""

    def __init__(self, passes: Sequence[Pass[Module]], rescue: Sequence[Pass[Module]] = ()) -> None:
        self.info = PassInfo(0, "Rescue")
        self.passes = list(passes)
        self.rescue = list(rescue)

    def children(self) -> Sequence[Pass[Module]]:
        return self.passes

    def transform(self, mod: Module, ctx: PassContext) -> Module:
        return mod


def Broken(depth: int = 1) -> Pass[Module]:
    raise ZeroDivisionError(f"depth {depth}")


def Nested(text: str = "FoldConstnat") -> Pass[Module]:
    return parse_pipeline(text)


def is_large(mod: Module) -> bool:
    return len(mod) > 1


async def size_of(mod: Module) -> int:
    return len(mod)


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    """Register the passes above, some by names that words of other kinds could be."""
    names = ("FoldConstant", "demo.Fold-1", "none", "3")
    for factory in (Tune, Broken, Nested, Rescue):
        apass.register_pass(factory.__name__, factory)
    for name in names:
        apass.register_pass(name, FoldConstant)
    yield
    for name in ("Tune", "Broken", "Nested", "Rescue", *names):
        apass.unregister_pass(name)


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
            "Race{key=tests.test_pipeline:size_of}(FoldConstant)",
            lambda: Sequential[Module]([Race([fold()], key=size_of)]),
        ),
        (
            "If{predicate=tests.test_pipeline:is_large}(FoldConstant,FoldConstant)",
            lambda: Sequential[Module]([If(is_large, [fold(), fold()])]),
        ),
        (
            "If{predicate=tests.test_pipeline:is_large,otherwise=(FoldConstant,Sequential)}(FoldConstant)",
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
        "from apass.pipeline import parse_pipeline\n"
        "parse_pipeline('Sequential')\n"
        "print({'lark', 'numpy'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# Texts that do not parse: the whole message, with the line and the caret.


def refusal(text: str, error: type[PipelineSyntaxError] = PipelineSyntaxError) -> str:
    """Return the message for a text that does not parse; the caret stands where `position` says."""
    with pytest.raises(error) as caught:
        parse_pipeline(text)
    before = text[: caught.value.position]
    assert caught.value.text == text
    assert str(caught.value).endswith(f"\n    {' ' * len(before.rpartition(chr(10))[2])}^")
    return str(caught.value)


def test_a_character_that_means_nothing() -> None:
    assert refusal("FoldConstant;Tune") == (
        "unexpected ';' (at character 12)\n"
        "    FoldConstant;Tune\n"
        "                ^"
    )  # fmt: skip


def test_a_parenthesis_that_is_not_closed() -> None:
    assert refusal("Tune,\nRepeat{times=3}(Tune, Race(Tune)  # and so on\n\n") == (
        "expected ',' or ')' to close the '(' at character 21, not the end of the text (at character 38)\n"
        "    Repeat{times=3}(Tune, Race(Tune)  # and so on\n"
        "                                    ^"
    )


def test_a_parenthesis_that_is_not_open() -> None:
    assert refusal("Repeat(Tune)),Tune") == (
        "expected ',' or the end of the text, not ')' (at character 12)\n"
        "    Repeat(Tune)),Tune\n"
        "                ^"
    )  # fmt: skip


def test_brackets_that_do_not_match() -> None:
    assert refusal("Tune{names=[a,b}") == (
        "expected ',' or ']' to close the '[' at character 11, not '}' (at character 15)\n"
        "    Tune{names=[a,b}\n"
        "                   ^"
    )


def test_a_missing_comma() -> None:
    assert refusal("FoldConstant Tune") == (
        "expected ',' or the end of the text, not 'Tune' (at character 13)\n    FoldConstant Tune\n                 ^"
    )


def test_a_missing_pass() -> None:
    assert refusal("Tune,,Tune") == (
        "expected the name of a pass, not ',' (at character 5)\n"
        "    Tune,,Tune\n"
        "         ^"
    )  # fmt: skip


def test_a_string_in_the_place_of_a_pass() -> None:
    assert refusal('"Tune"') == (
        'expected the name of a pass, not "Tune" (at character 0)\n'
        '    "Tune"\n'
        "    ^"
    )  # fmt: skip


def test_a_pass_that_is_not_registered() -> None:
    assert refusal("Tune,\n  Repeat(FoldConstnat)") == (
        "no pass is registered under the name 'FoldConstnat'; did you mean 'FoldConstant'? (at character 15)\n"
        "      Repeat(FoldConstnat)\n"
        "             ^"
    )


def test_an_unknown_pass_is_both_a_syntax_error_and_an_unknown_pass() -> None:
    for error in (apass.UnknownPassError, PipelineSyntaxError, LookupError, ValueError):
        with pytest.raises(error):
            parse_pipeline("FoldConstnat")


def test_an_unknown_option() -> None:
    assert refusal("Tune{trials=3,devise=a}") == (
        "pass 'Tune' has no option 'devise'; did you mean 'device'? (at character 14)\n"
        "    Tune{trials=3,devise=a}\n"
        "                  ^"
    )


def test_an_option_for_a_pass_without_options() -> None:
    assert refusal("FoldConstant{trials=3}") == (
        "pass 'FoldConstant' has no option 'trials'; it takes none (at character 13)\n"
        "    FoldConstant{trials=3}\n"
        "                 ^"
    )


def test_an_option_of_the_wrong_type() -> None:
    assert refusal("Tune{trials=many}") == (
        "option 'trials' of pass 'Tune': wanted int, got 'many' (str) (at character 12)\n"
        "    Tune{trials=many}\n"
        "                ^"
    )


def test_an_option_given_twice() -> None:
    assert refusal("Tune{trials=3, trials=4}") == (
        "option 'trials' is given twice (at character 15)\n    Tune{trials=3, trials=4}\n                   ^"
    )


def test_an_option_without_a_value() -> None:
    assert refusal("Tune{dry}") == (
        "expected '=' after the option 'dry', not '}' (at character 8)\n"
        "    Tune{dry}\n"
        "            ^"
    )  # fmt: skip
    assert refusal("Tune{dry=,}") == (
        "expected a value, not ',' (at character 9)\n"
        "    Tune{dry=,}\n"
        "             ^"
    )  # fmt: skip


def test_an_option_that_is_missing() -> None:
    assert refusal("Tune,If(Tune)") == (
        "pass 'If' needs the option 'predicate' (at character 5)\n"
        "    Tune,If(Tune)\n"
        "         ^"
    )  # fmt: skip


def test_a_function_that_cannot_be_found() -> None:
    assert refusal("If{predicate=tests.test_pipeline:is_lrage}(Tune)") == (
        "option 'predicate' of pass 'If': wanted something callable as 'package.module:name', "
        "got 'tests.test_pipeline:is_lrage' (module 'tests.test_pipeline' has no attribute 'is_lrage') "
        "(at character 13)\n"
        "    If{predicate=tests.test_pipeline:is_lrage}(Tune)\n"
        "                 ^"
    )


def test_passes_for_a_pass_that_takes_none() -> None:
    assert refusal("Tune {trials=3} (FoldConstant)") == (
        "pass 'Tune' is not made of passes, and takes none (at character 16)\n"
        "    Tune {trials=3} (FoldConstant)\n"
        "                    ^"
    )


@pytest.mark.parametrize("name", ["Repeat", "Race", "If{predicate=tests.test_pipeline:is_large}"])
def test_no_passes_for_a_pass_that_needs_some(name: str) -> None:
    short = name.partition("{")[0]
    for text in (name, f"{name},Tune", f"{name}()"):
        assert refusal(text) == (
            f"pass {short!r} is made of passes; write {short}(...) (at character {len(name)})\n"
            f"    {text}\n"
            f"    {' ' * len(name)}^"
        )


def test_an_option_that_the_pass_itself_refuses() -> None:
    assert refusal("Tune,Repeat{times=0}(Tune)") == (
        "times must be an int of at least 1, or None for until it settles; not 0 (at character 5)\n"
        "    Tune,Repeat{times=0}(Tune)\n"
        "         ^"
    )


def test_a_string_without_an_end() -> None:
    assert refusal('Tune{device="cuda}\nTune') == (
        'this string has no closing quote (at character 12)\n    Tune{device="cuda}\n                ^'
    )


def test_a_string_that_json_does_not_know() -> None:
    assert refusal(r'Tune{device="a\q"}') == (
        "this string is not as in JSON: Invalid \\escape (at character 14)\n"
        '    Tune{device="a\\q"}\n'
        "                  ^"
    )


def test_passes_for_an_option_that_is_none() -> None:
    assert refusal("Repeat{times=(FoldConstant)}(Tune)") == (
        "option 'times' of pass 'Repeat': wanted int | None, got [<ModulePass FoldConstant opt_level=0>] (list) "
        "(at character 13)\n"
        "    Repeat{times=(FoldConstant)}(Tune)\n"
        "                 ^"
    )


def test_an_unknown_pass_within_an_option() -> None:
    assert refusal("If{predicate=tests.test_pipeline:is_large,otherwise=(Tone)}(Tune)") == (
        "no pass is registered under the name 'Tone'; did you mean 'Tune'? (at character 53)\n"
        "    If{predicate=tests.test_pipeline:is_large,otherwise=(Tone)}(Tune)\n"
        "                                                         ^"
    )


@pytest.mark.parametrize("opening", ["Repeat(", "Tune{anything=["])
def test_what_is_nested_too_deep_is_refused_however_deep(opening: str) -> None:
    text = opening + "[" * 100_000 if opening.endswith("[") else opening * 100_000
    with pytest.raises(PipelineSyntaxError, match=r"^nested more than 100 deep \(at character \d+\)"):
        parse_pipeline(text)


def test_what_is_nested_as_deep_as_it_may_be_comes_back() -> None:
    for text in ("Repeat(" * 100 + "Tune" + ")" * 100, ",".join(["Tune{names=[a]},Repeat(Tune)"] * 200)):
        assert str(parse_pipeline(text)) == text


def test_the_first_error_is_told_before_any_pass_is_made() -> None:
    with pytest.raises(PipelineSyntaxError, match=r"^expected ',' or the end of the text"):
        parse_pipeline("Broken Tune")


def test_what_a_factory_raises_says_where_in_the_pipeline() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        parse_pipeline("Tune,Broken{depth=3}")
    assert str(caught.value) == "depth 3"
    assert caught.value.__notes__ == ["in the pipeline 'Tune,Broken{depth=3}', at character 5"]


def test_an_error_in_the_text_of_a_factory_shows_that_text() -> None:
    with pytest.raises(PipelineSyntaxError) as caught:
        parse_pipeline("Tune,Nested")
    assert (caught.value.text, caught.value.position) == ("FoldConstnat", 0)


def test_a_text_is_needed() -> None:
    not_text: Any = ["FoldConstant"]
    with pytest.raises(TypeError, match=r"^parse_pipeline takes text, not \['FoldConstant'\]$"):
        parse_pipeline(not_text)


def test_a_pass_made_of_none_is_refused_in_python_too() -> None:
    for make in (lambda: Repeat[Module]([]), lambda: Race[Module]([]), lambda: If[Module](is_large, [])):
        with pytest.raises(PassDefinitionError, match=r"^(Repeat|Race|If) takes at least one pass$"):
            make()


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
