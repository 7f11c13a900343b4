"""`apass stress`: searches for an interleaving of bodies that changes the result."""

import shlex
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from apass.batch.formats import format_of
from apass.cli.command import Command
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import BackendOption, check_backend, run_until_interrupted
from apass.cli.exit_status import FAILED
from apass.cli.inputs import check_model_file
from apass.cli.options import with_options
from apass.cli.planning import default_pipeline, pipeline_text, read_pipeline
from apass.cli.settings import PipelineOption, ReplayOptions, make_context, schedule_text
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.core.ir_plugin import file_suffix
from apass.core.run import enter_module
from apass.debugging.stress import Stressed
from apass.debugging.stress import stress as find_race
from apass.loading.user_modules import load_options

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


@app.command("stress", cls=Command, epilog="Example:\n\napass stress model.relay -p my.Tune --seeds 200")
@with_options(ReplayOptions)
def stress(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    pipeline: PipelineOption = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Try this many interleavings.")] = 200,
    options: tuple[ReplayOptions],
    backend: BackendOption = "asyncio",
    _load: LoadOption = None,
) -> None:
    """Search for an order of the steps of concurrent bodies that changes the result.

    Exit status: 0 if all results are equal, 1 if one differs, 2 if nothing was started.
    """
    with errors_as_lines():
        check_backend(backend)
        check_model_file(model)
        text = None if pipeline is None else pipeline_text(pipeline, [file_suffix(model)])
        model_format = format_of(model, None, text)
        text = default_pipeline(model_format, model.suffix) if text is None else text
        passes = read_pipeline(text)
        context = make_context(options[0], [passes])
        # Filled by `work`: `run_until_interrupted` returns no value.
        results: list[Stressed[Any] | None] = []
        console = Console(stderr=True)
        status = console.status("reading the module") if console.is_terminal else None

        def report(tries: int) -> None:
            if status is not None:
                status.update(f"{tries:,} interleavings")

        async def work() -> None:
            enter_module(model.name)
            async with context:
                results.append(await find_race(model_format.load(model), passes, seeds=seeds, report=report))

        if status is not None:
            status.start()
        try:
            with warnings_as_lines():
                run_until_interrupted(work, backend)
        finally:
            if status is not None:
                status.stop()
        found = results[0]
        if found is None:
            echo(f"the results of {seeds:,} interleavings are equal")
            return
        echo(str(found))
        echo(found.diff or "(the text of the model is unchanged)")
        if found.is_deterministic:
            schedule = schedule_text(found.schedule)
            command = ["apass", *load_options(), "opt", str(model), "-p", text, "--schedule", schedule]
            echo(f"to repeat it: {shlex.join(command)}")
        raise typer.Exit(FAILED)
