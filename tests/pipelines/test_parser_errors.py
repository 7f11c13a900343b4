"""Pipelines as text: what does not parse, and where the error points."""

from collections.abc import Iterator
from typing import Any

import pytest

import apass
from apass import PassDefinitionError, PipelineSyntaxError
from apass.combinators import If, Race, Repeat
from apass.pipelines.parser import parse_pipeline
from tests.helpers.pipeline_text import Module, is_large, registered


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    with registered():
        yield


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
    assert refusal("If{predicate=tests.helpers.pipeline_text:is_lrage}(Tune)") == (
        "option 'predicate' of pass 'If': wanted something callable as 'package.module:name', "
        "got 'tests.helpers.pipeline_text:is_lrage' (module 'tests.helpers.pipeline_text' has no attribute 'is_lrage') "
        "(at character 13)\n"
        "    If{predicate=tests.helpers.pipeline_text:is_lrage}(Tune)\n"
        "                 ^"
    )


def test_passes_for_a_pass_that_takes_none() -> None:
    assert refusal("Tune {trials=3} (FoldConstant)") == (
        "pass 'Tune' is not made of passes, and takes none (at character 16)\n"
        "    Tune {trials=3} (FoldConstant)\n"
        "                    ^"
    )


@pytest.mark.parametrize("name", ["Repeat", "Race", "If{predicate=tests.helpers.pipeline_text:is_large}"])
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
    assert refusal("If{predicate=tests.helpers.pipeline_text:is_large,otherwise=(Tone)}(Tune)") == (
        "no pass is registered under the name 'Tone'; did you mean 'Tune'? (at character 61)\n"
        "    If{predicate=tests.helpers.pipeline_text:is_large,otherwise=(Tone)}(Tune)\n"
            "                                                                 ^"
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
