"""`apass blame`: prints which pass made and which passes changed each node."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from apass import instruments
from apass.adapters.nodes import has_locations, with_locations, with_names
from apass.batch.formats import format_of
from apass.cli.command import Command
from apass.cli.errors import errors_as_lines, failure_text, warnings_as_lines
from apass.cli.event_loop import BackendOption, check_backend, run_until_interrupted
from apass.cli.exit_status import FAILED
from apass.cli.inputs import check_model_file
from apass.cli.options import with_options
from apass.cli.planning import default_pipeline, pipeline_text, read_pipeline
from apass.cli.settings import PipelineOption, ReplayOptions, make_context
from apass.cli.terminal import FormatOption, OutputFormat, echo, print_json
from apass.cli.user_modules import LoadOption
from apass.core.adapter import adapter_for
from apass.core.ir_plugin import file_suffix
from apass.core.run import enter_module
from apass.errors import InputError
from apass.runner.error_policy import errors_of_passes

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


@app.command("blame", cls=Command, epilog="Example:\n\napass blame model.onnx -p onnx.Default --node conv_1")
@with_options(ReplayOptions)
def blame(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    pipeline: PipelineOption = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="NAME", help="Show the whole history of the node, or of the node that makes this value."
        ),
    ] = None,
    function: Annotated[
        str | None, typer.Option("--function", metavar="NAME", help="Show the nodes of this function only.")
    ] = None,
    removed: Annotated[bool, typer.Option("--removed", help="List removed nodes and functions too.")] = False,
    check_locations: Annotated[
        bool,
        typer.Option(
            "--check-locations",
            help="Give each node a source location, and list the passes that lose or invent locations.",
        ),
    ] = False,
    options: tuple[ReplayOptions],
    output_format: FormatOption = OutputFormat.TEXT,
    backend: BackendOption = "asyncio",
    _load: LoadOption = None,
) -> None:
    """Print which pass made each node of the result, and which passes changed it.

    If a pass fails, the nodes are those of its input.

    Exit status: 0; 1 if a pass fails, or loses or invents locations with --check-locations; 2 if there is no such node.
    """
    with errors_as_lines():
        check_backend(backend)
        check_model_file(model)
        if check_locations and (nodes or removed):
            option = "--node" if nodes else "--removed"
            raise InputError(f"{option} shows histories, and --check-locations shows none; give one of them")
        text = None if pipeline is None else pipeline_text(pipeline, [file_suffix(model)])
        model_format = format_of(model, None, text)
        passes = read_pipeline(default_pipeline(model_format, model.suffix) if text is None else text)
        provenance, locations = instruments.ProvenanceInstrument(), instruments.LocationCheckInstrument()
        # The names of functions come from the histories.
        needs_histories = not check_locations or function is not None
        watched = [*([provenance] if needs_histories else []), *([locations] if check_locations else [])]
        context = make_context(options[0], [passes], watched)

        # Filled by `work`: `run_until_interrupted` returns no value.
        failures: list[Exception] = []

        async def work() -> None:
            enter_module(model.name)
            async with context:
                mod: Any = with_names(model_format.load(model))
                # Without artificial locations, those of the file are checked.
                mod = with_locations(mod) if check_locations and has_locations(adapter_for(mod)) else mod
                try:
                    with errors_of_passes():
                        await passes(mod)
                except Exception as error:
                    failures.append(error)

        with warnings_as_lines():
            run_until_interrupted(work, backend)
        if function is not None:
            provenance.provenance(model.name).function(function)
        if check_locations:
            is_failed = _show_locations(locations, function, output_format)
        else:
            is_failed = False
            _show(provenance.provenance(model.name), nodes or (), function, output_format, removed=removed)
        for error in failures:
            Console(stderr=True, highlight=False, soft_wrap=True).print(failure_text(model.name, error))
        if failures or is_failed:
            raise typer.Exit(FAILED)


def _show(
    found: instruments.Provenance,
    nodes: Sequence[str],
    function: str | None,
    output_format: OutputFormat,
    *,
    removed: bool,
) -> None:
    """Print the histories of some nodes, or of all."""
    histories = [history for name in nodes for history in found.find(name, function)]
    if nodes and output_format is OutputFormat.JSON:
        for history in histories:
            print_json(history.as_json())
    elif nodes:
        for history in histories:
            echo(history.render())
    elif output_format is OutputFormat.JSON:
        for part in found.functions if function is None else (found.function(function),):
            if removed or not part.is_removed:
                kept = tuple(node for node in part.nodes if removed or not node.is_removed)
                print_json(replace(part, nodes=kept).as_json())
    else:
        echo(found.render(function=function, removed=removed))


def _show_locations(
    check: instruments.LocationCheckInstrument, function: str | None, output_format: OutputFormat
) -> bool:
    """Print what passes did to locations, and return whether there is anything."""
    results = [item for item in check.results if function in (None, item.function)]
    for item in results:
        if output_format is OutputFormat.JSON:
            print_json(item.as_json())
        else:
            echo(str(item))
    if not results and output_format is OutputFormat.TEXT:
        echo("no pass lost or invented a location")
    return bool(results)
