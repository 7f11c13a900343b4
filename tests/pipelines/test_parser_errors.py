"""Pipelines as text: what does not parse, and where the error points."""

from collections.abc import Iterator
from typing import Any

import pytest

import apass
from apass import get_pass, parse_pipeline
from apass.errors import PassDefinitionError, PipelineSyntaxError, UnknownPassError
from apass.passes.conditional import If
from apass.passes.race import Race
from apass.passes.repeat import Repeat
from tests.helpers.pipeline_text import Module, is_large, registered


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    with registered():
        yield


# Texts that do not parse: the whole message, with the line and the caret.


def refusal(text: str, error: type[PipelineSyntaxError] = PipelineSyntaxError) -> str:
    """Return the message for an invalid text; check the position of its caret."""
    with pytest.raises(error) as caught:
        parse_pipeline(text)
    before = text[: caught.value.position]
    assert caught.value.text == text
    assert str(caught.value).endswith(f"\n    {' ' * len(before.rpartition(chr(10))[2])}^")
    return str(caught.value)


def test_error_at_an_invalid_character() -> None:
    assert refusal("FoldConstant;Tune") == (
        "unexpected ';' (at character 12)\n"
        "    FoldConstant;Tune\n"
        "                ^"
    )  # fmt: skip


def test_unclosed_parenthesis_raises() -> None:
    assert refusal("Tune,\nRepeat{times=3}(Tune, Race(Tune)  # and so on\n\n") == (
        "expected ',' or ')' to close the '(' at character 21, got the end of the text (at character 38)\n"
        "    Repeat{times=3}(Tune, Race(Tune)  # and so on\n"
        "                                    ^"
    )


def test_unopened_parenthesis_raises() -> None:
    assert refusal("Repeat(Tune)),Tune") == (
        "expected ',' or the end of the text, got ')' (at character 12)\n"
        "    Repeat(Tune)),Tune\n"
        "                ^"
    )  # fmt: skip


def test_brackets_that_do_not_match() -> None:
    assert refusal("Tune{names=[a,b}") == (
        "expected ',' or ']' to close the '[' at character 11, got '}' (at character 15)\n"
        "    Tune{names=[a,b}\n"
        "                   ^"
    )


def test_missing_comma_raises() -> None:
    assert refusal("FoldConstant Tune") == (
        "expected ',' or the end of the text, got 'Tune' (at character 13)\n    FoldConstant Tune\n                 ^"
    )


def test_missing_pass_raises() -> None:
    assert refusal("Tune,,Tune") == (
        "expected the name of a pass, got ',' (at character 5)\n"
        "    Tune,,Tune\n"
        "         ^"
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Tune,",
        "Tune , # more\n",
        "Repeat(Tune,)",
        "Repeat{times=3,}(Tune)",
        "Tune{names=[a,]}",
        "Tune{anything={a=1,}}",
    ],
)
def test_trailing_comma_raises(text: str) -> None:
    with pytest.raises(PipelineSyntaxError, match=r"^nothing follows this comma; remove it") as caught:
        parse_pipeline(text)
    assert caught.value.position == text.rindex(",")


def test_string_instead_of_pass_raises() -> None:
    assert refusal('"Tune"') == (
        'expected the name of a pass, got "Tune" (at character 0)\n'
        '    "Tune"\n'
        "    ^"
    )  # fmt: skip


def test_unregistered_pass_raises() -> None:
    assert refusal("Tune,\n  Repeat(FoldConstnat)") == (
        "no pass is registered under the name 'FoldConstnat'; did you mean 'FoldConstant'? (at character 15)\n"
        "      Repeat(FoldConstnat)\n"
        "             ^"
    )


def test_unknown_pass_error_has_two_types() -> None:
    for error in (apass.errors.UnknownPassError, PipelineSyntaxError, LookupError, ValueError):
        with pytest.raises(error):
            parse_pipeline("FoldConstnat")


def test_unknown_option_raises() -> None:
    assert refusal("Tune{trials=3,devise=a}") == (
        "pass 'Tune' has no option 'devise'; did you mean 'device'? (at character 14)\n"
        "    Tune{trials=3,devise=a}\n"
        "                  ^"
    )


def test_option_of_pass_without_options_raises() -> None:
    assert refusal("FoldConstant{trials=3}") == (
        "pass 'FoldConstant' has no option 'trials'; it takes none (at character 13)\n"
        "    FoldConstant{trials=3}\n"
        "                 ^"
    )


def test_option_of_wrong_type_raises() -> None:
    assert refusal("Tune{trials=many}") == (
        "option 'trials' of pass 'Tune': expected int, got 'many' (str) (at character 12)\n"
        "    Tune{trials=many}\n"
        "                ^"
    )


def test_repeated_option_raises() -> None:
    assert refusal("Tune{trials=3, trials=4}") == (
        "option 'trials' is given twice (at character 15)\n    Tune{trials=3, trials=4}\n                   ^"
    )


def test_option_without_value_raises() -> None:
    assert refusal("Tune{dry=,}") == (
        "expected a value, got ',' (at character 9)\n"
        "    Tune{dry=,}\n"
        "             ^"
    )  # fmt: skip


def test_missing_option_raises() -> None:
    assert refusal("Tune,If(Tune)") == (
        "pass 'If' needs the option 'predicate' (at character 5)\n"
        "    Tune,If(Tune)\n"
        "         ^"
    )  # fmt: skip


def test_unknown_function_raises() -> None:
    assert refusal("If{predicate=is_lrage}(Tune)") == (
        "option 'predicate' of pass 'If': no callable is registered under the name 'is_lrage'; "
        "did you mean 'is_large'? (at character 13)\n"
        "    If{predicate=is_lrage}(Tune)\n"
        "                 ^"
    )


def test_passes_for_a_pass_that_takes_none() -> None:
    assert refusal("Tune {trials=3} (FoldConstant)") == (
        "pass 'Tune' does not contain passes; write it without parentheses (at character 16)\n"
        "    Tune {trials=3} (FoldConstant)\n"
        "                    ^"
    )


@pytest.mark.parametrize("name", ["Repeat", "Race", "If{predicate=is_large}"])
def test_no_passes_for_a_pass_that_needs_some(name: str) -> None:
    short = name.partition("{")[0]
    for text in (name, f"{name},Tune", f"{name}()"):
        assert refusal(text) == (
            f"pass {short!r} contains passes; write {short}(...) (at character {len(name)})\n"
            f"    {text}\n"
            f"    {' ' * len(name)}^"
        )


def test_option_rejected_by_the_pass_raises() -> None:
    assert refusal("Tune,Repeat{times=0}(Tune)") == (
        "times must be an int of at least 1, or None for up to 100 rounds, got 0 (at character 5)\n"
        "    Tune,Repeat{times=0}(Tune)\n"
        "         ^"
    )


def test_unterminated_string_raises() -> None:
    assert refusal('Tune{device="cuda}\nTune') == (
        'this string has no closing quote (at character 12)\n    Tune{device="cuda}\n                ^'
    )


def test_error_at_an_invalid_json_string() -> None:
    assert refusal(r'Tune{device="a\q"}') == (
        "this is not a valid JSON string: Invalid \\escape (at character 14)\n"
        '    Tune{device="a\\q"}\n'
        "                  ^"
    )


def test_passes_for_an_option_that_is_none() -> None:
    assert refusal("Repeat{times=(FoldConstant)}(Tune)") == (
        "option 'times' of pass 'Repeat': expected int | None, got [<ModulePass FoldConstant opt_level=0>] (list) "
        "(at character 13)\n"
        "    Repeat{times=(FoldConstant)}(Tune)\n"
        "                 ^"
    )


def test_unknown_pass_within_option_raises() -> None:
    assert refusal("If{predicate=is_large,otherwise=(Tone)}(Tune)") == (
        "no pass is registered under the name 'Tone'; did you mean 'Tune'? (at character 33)\n"
        "    If{predicate=is_large,otherwise=(Tone)}(Tune)\n"
        "                                     ^"
    )


@pytest.mark.parametrize("opening", ["Repeat(", "Tune{anything=["])
def test_too_deep_nesting_raises(opening: str) -> None:
    text = opening + "[" * 100_000 if opening.endswith("[") else opening * 100_000
    with pytest.raises(PipelineSyntaxError, match=r"^nested more than 100 levels deep \(at character \d+\)"):
        parse_pipeline(text)


def test_maximum_nesting_is_accepted() -> None:
    for text in ("Repeat(" * 100 + "Tune" + ")" * 100, ",".join(["Tune{names=[a]},Repeat(Tune)"] * 200)):
        assert str(parse_pipeline(text)) == text


def test_syntax_error_is_raised_before_passes_are_created() -> None:
    with pytest.raises(PipelineSyntaxError, match=r"^expected ',' or the end of the text"):
        parse_pipeline("Broken Tune")


def test_factory_error_has_a_position_note() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        parse_pipeline("Tune,Broken{depth=3}")
    assert str(caught.value) == "depth 3"
    assert caught.value.__notes__ == ["in the pipeline 'Tune,Broken{depth=3}', at character 5"]


def test_error_in_a_nested_text_shows_that_text() -> None:
    with pytest.raises(PipelineSyntaxError) as caught:
        parse_pipeline("Tune,Nested")
    assert (caught.value.text, caught.value.position) == ("FoldConstnat", 0)


def test_parse_pipeline_rejects_other_types() -> None:
    not_text: Any = ["FoldConstant"]
    with pytest.raises(TypeError, match=r"^parse_pipeline takes text, got \['FoldConstant'\]$"):
        parse_pipeline(not_text)


def test_combinator_without_passes_raises_in_python() -> None:
    for make in (lambda: Repeat[Module]([]), lambda: Race[Module]([]), lambda: If[Module](is_large, [])):
        with pytest.raises(PassDefinitionError, match=r"^(Repeat|Race|If) takes at least one pass$"):
            make()


LONG = ",".join(["Sequential"] * 100)


def shown(text: str) -> list[str]:
    with pytest.raises(PipelineSyntaxError) as caught:
        parse_pipeline(text)
    return str(caught.value).splitlines()[1:]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Sequential;", ["    Sequential;", "              ^"]),
        ("\tSequential\t;", ["    \tSequential\t;", "    \t          \t^"]),
        ("Sequential, # 日本\n日本語 ;", ["    日本語 ;", "           ^"]),
        ('Sequential{name="e\u0301" ;', ['    Sequential{name="e\u0301" ;', f"{' ' * 24}^"]),
        ("Sequential,\r\n;\r\nSequential", ["    ;", "    ^"]),
    ],
)
def test_caret_is_under_the_error(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [(f"{LONG};", True, False), (f";{LONG}", False, True), (f"{LONG};{LONG}", True, True)],
)
def test_long_line_is_cut_around_the_error(text: str, before: bool, after: bool) -> None:
    line, caret = shown(text)
    assert (line.startswith("    ..."), line.endswith("..."), len(line) < 175) == (before, after, True)
    assert line[len(caret) - 1] == ";"


def test_pickled_error_has_the_same_text() -> None:
    with pytest.raises(PipelineSyntaxError) as caught:
        parse_pipeline(f"{LONG};")
    kind, arguments = caught.value.__reduce__()
    assert str(kind(*arguments)) == str(caught.value)


@pytest.mark.parametrize("name", [3, None, ["Repeat"], PipelineSyntaxError])
def test_pass_is_looked_up_by_name(name: Any) -> None:
    with pytest.raises(UnknownPassError, match=r"the name of a pass must be a"):
        get_pass(name)


@pytest.mark.parametrize("text", ["Late,Tune", "Repeat(Late,Tune)"])
def test_forbidden_order_is_an_order_error(text: str) -> None:
    @apass.register_pass
    @apass.module_pass(opt_level=0, runs_after=["Tune"])
    def Late(mod: Module, ctx: apass.PassContext) -> Module:
        return mod

    try:
        with pytest.raises(apass.errors.PassOrderError, match="pass 'Late' must run after 'Tune'"):
            parse_pipeline(text)
    finally:
        apass.unregister_pass(Late.info.name)
