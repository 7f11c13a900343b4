"""`apass plan`: prints which passes of a pipeline would run."""

from typing import Annotated, Final

import typer

from apass.cli.errors import errors_as_lines
from apass.cli.planning import pipeline_text, read_pipeline
from apass.cli.settings import ContextOptions, DisableOption, LevelOption, RequireOption, make_context
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.pipelines.plan import plan as make_plan

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


@app.command("plan")
def plan(
    *,
    pipeline: Annotated[
        str, typer.Option("--pipeline", "-p", help="Plan these passes, such as 'A,Repeat{times=3}(B,C)'.")
    ],
    opt_level: LevelOption = 2,
    disable: DisableOption = None,
    require: RequireOption = None,
    _load: LoadOption = None,
) -> None:
    """Print the passes that would run, in order, and the reason for each skipped pass.

    Lines begin with `run`, `skip`, or with `maybe` if it is decided at run time.
    """
    with errors_as_lines():
        passes = read_pipeline(pipeline_text(pipeline))
        context = make_context(ContextOptions(opt_level=opt_level, disable=disable, require=require), [passes])
        echo(str(make_plan(passes, context)))
