"""`apass plan`: its output and its error messages."""

from tests.helpers.command_line import apass


def test_plan_prints_the_passes_of_a_pipeline() -> None:
    result = apass("plan", "-p", "FoldConstant,If{predicate=builtins:bool}(SimplifyExpr,FastMath)", "-O", 2)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "run    sequential\n"
        "run      FoldConstant\n"
        "run      If              decided at run time by its predicate\n"
        "maybe      InferType     required by SimplifyExpr; if its predicate holds\n"
        "maybe      SimplifyExpr  if its predicate holds\n"
        "skip       FastMath      level 4 is above 2\n"
    )


def test_plan_respects_disabled_and_required_passes() -> None:
    result = apass("plan", "-p", "FoldConstant,FastMath", "--disable", "FoldConstant", "--require", "FastMath")
    assert result.stdout.splitlines() == [
        "run    sequential",
        "skip     FoldConstant  disabled",
        "run      InferType     required by FastMath",
        "run      FastMath      required by the context",
    ]


def test_plan_rejects_unknown_pass_names() -> None:
    result = apass("plan", "-p", "FoldConstant", "--disable", "FoldConstat")
    message = "apass: --disable: no pass is named 'FoldConstat'; did you mean 'FoldConstant'?\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)
