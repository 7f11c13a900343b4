"""`apass plan`: which passes of a pipeline would run."""

from typing import Annotated

import typer

from apass.cli.complaints import complaints
from apass.cli.settings import make_context
from apass.pipeline import parse_pipeline
from apass.plan import plan as make_plan

__all__ = ["plan"]


def plan(
    *,
    pipeline: Annotated[str, typer.Option("--pipeline", "-p", help="Passes, such as 'A,Repeat{times=3}(B,C)'.")],
    opt_level: Annotated[int, typer.Option("--opt-level", "-O", help="Run the passes of this level and below.")] = 2,
    disable: Annotated[list[str] | None, typer.Option("--disable", metavar="NAME", help="Leave this pass out.")] = None,
    require: Annotated[
        list[str] | None, typer.Option("--require", metavar="NAME", help="Run this pass whatever its level.")
    ] = None,
) -> None:
    """Print which passes would run, in which order, and for each that would not the reason.

    Lines begin with `run`, `skip`, or `maybe` for what is decided at run time.
    """
    with complaints():
        passes = parse_pipeline(pipeline)
        context = make_context(opt_level, disable or [], require or [], [], [], pipelines=[passes])
        typer.echo(str(make_plan(passes, context)))
