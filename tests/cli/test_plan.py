"""`apass plan`: what it prints, and its complaints."""

from tests.cli.models import apass


def test_the_plan_of_a_pipeline_is_printed() -> None:
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


def test_passes_can_be_disabled_and_required() -> None:
    result = apass("plan", "-p", "FoldConstant,FastMath", "--disable", "FoldConstant", "--require", "FastMath")
    assert result.stdout.splitlines() == [
        "run    sequential",
        "skip     FoldConstant  disabled",
        "run      InferType     required by FastMath",
        "run      FastMath      required by the context",
    ]


def test_a_name_that_is_no_pass_is_told() -> None:
    result = apass("plan", "-p", "FoldConstant", "--disable", "FoldConstat")
    complaint = "apass: --disable names 'FoldConstat', which is no pass; did you mean 'FoldConstant'?\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", complaint)
