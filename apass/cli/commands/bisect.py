"""`apass bisect`: which pass, and which function, makes a check fail."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from apass.cli.check_command import Checker, read_command
from apass.cli.errors import complaints, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.formats import ModelFormat, format_of
from apass.cli.inputs import InputError
from apass.cli.settings import ConfigOption, ContextOptions, DisableOption, LevelOption, RequireOption, make_context
from apass.core.run import enter_module
from apass.debugging.bisect import Bisected
from apass.debugging.bisect import bisect as find_culprit
from apass.pipelines.parser import parse_pipeline

__all__ = ["bisect"]


def bisect(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model, which the check must find good.")],
    check: Annotated[
        str,
        typer.Option(
            metavar="CMD", help="Ends with status 0 if the model in the file {}, or its last argument, is good."
        ),
    ],
    check_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.01, help="End a check that takes longer; it counts as bad."),
    ] = None,
    pipeline: Annotated[str | None, typer.Option("--pipeline", "-p", help="Passes; one of them is to blame.")] = None,
    opt_level: LevelOption = 2,
    disable: DisableOption = None,
    require: RequireOption = None,
    config: ConfigOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write the models before and after there.")
    ] = None,
    backend: Annotated[str, typer.Option("--backend", help="Event loop: asyncio or trio.")] = "asyncio",
) -> None:
    """Find the first pass, and for a function pass the function, whose effect makes a check of the model fail.

    Exit status: 0 if it was found, 2 if not: the untouched model is bad, or the optimized one good, or a pass fails.
    """
    with complaints():
        check_backend(backend)
        if not model.is_file():
            raise InputError(f"no such file: {str(model)!r}")
        kind = format_of(model)
        passes = parse_pipeline(kind.DEFAULT_PIPELINE if pipeline is None else pipeline)
        options = ContextOptions(opt_level=opt_level, disable=disable, require=require, config=config)
        context = make_context(options, [passes])
        command = read_command(check)
        found: list[Bisected[Any]] = []

        async def work() -> None:
            enter_module(model.name)
            checker = Checker(command, kind, folder / model.name, timeout=check_timeout, report=typer.echo)
            async with context:
                found.append(await find_culprit(kind.load(model), passes, checker.is_good, report=typer.echo))

        with ExitStack() as closing:
            folder = Path(closing.enter_context(TemporaryDirectory(prefix="apass-bisect-")))
            closing.enter_context(warnings_as_lines())
            run_until_interrupted(work, backend)
        _show(found[0], kind, model, output)


def _show(found: Bisected[Any], kind: ModelFormat, model: Path, output: Path | None) -> None:
    typer.echo(str(found))
    typer.echo(found.diff or "(the text of the model is the same)")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        for word, mod in (("before", found.before), ("after", found.after)):
            place = output / f"{model.stem}.{word}{model.suffix}"
            kind.save(mod, place)
            typer.echo(f"{word} it: {place}")
    typer.echo(f"to stop after it: apass opt --opt-bisect-limit {found.number} ...")
