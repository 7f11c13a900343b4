"""`apass plan`: prints which passes of a pipeline would run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from apass.batch.formats import check_format
from apass.cli.command import Command
from apass.cli.completion import complete_format, completes
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.options import with_options
from apass.cli.planning import default_pipelines, pipeline_text, read_pipeline
from apass.cli.settings import PipelineOption, SelectionOptions, make_context
from apass.cli.streams import suffix_of_format
from apass.cli.terminal import FormatOption, OutputFormat, echo, print_json
from apass.cli.user_modules import LoadOption
from apass.core.ir_plugin import file_suffix
from apass.errors import InputError, MissingExtraError
from apass.pipelines.languages import native_text
from apass.pipelines.plan import plan as make_plan

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


_EXAMPLES: Final = (
    "Examples:",
    "apass plan model.onnx -O 3",
    "apass plan -p 'onnx.Inline,Repeat{times=3}(onnx.Simplify)' --disable onnx.Simplify",
)
"""Shown above the options; one line for each."""


@app.command("plan", cls=Command, epilog="\n\n".join(_EXAMPLES))
@with_options(SelectionOptions)
def plan(
    *,
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Plan the default pipeline of this model's format.")
    ] = None,
    pipeline: PipelineOption = None,
    source_format: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="Plan the default pipeline of this format, such as onnx or mlir.",
            autocompletion=complete_format,
        ),
    ] = None,
    options: tuple[SelectionOptions],
    language: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="LANGUAGE",
            help="Print the pipeline in the language of a compiler instead: llvm, mlir or xdsl.",
            autocompletion=completes("llvm", "mlir", "xdsl"),
        ),
    ] = None,
    output_format: FormatOption = OutputFormat.TEXT,
    _load: LoadOption = None,
) -> None:
    """Print the passes that would run, in order, and the reason for each skipped pass.

    Without a pipeline, print the default pipeline of the model, or those of all formats. Lines begin with `run`,
    `skip`, or with `maybe` if it is decided at run time.
    """
    with errors_as_lines(), warnings_as_lines():
        for index, (name, text) in enumerate(_pipelines(model, source_format, pipeline)):
            if output_format is OutputFormat.TEXT and name is not None and language is None:
                echo(("\n" if index else "") + f"{name}: {text}")
            if isinstance(text, MissingExtraError):
                if output_format is OutputFormat.JSON:
                    print_json({"format": name, "pipeline": None, "plan": None, "error": str(text)})
                continue
            passes = read_pipeline(text)
            if language is not None:
                echo(native_text(passes, language))
                continue
            planned = make_plan(passes, make_context(options[0], [passes]))
            if output_format is OutputFormat.JSON:
                print_json({"format": name, "pipeline": str(passes), "plan": planned.as_json(), "error": None})
            else:
                echo(str(planned))


def _pipelines(
    model: Path | None, source_format: str | None, pipeline: str | None
) -> Iterator[tuple[str | None, str | MissingExtraError]]:
    """Iterate over formats and the texts of pipelines.

    The format is None for a pipeline of the command line.
    """
    if model is not None and source_format is not None:
        raise InputError(f"{model} and --from {source_format} both name a format; leave one of them out")
    suffix = None if source_format is None else suffix_of_format(source_format)
    if model is not None:
        check_format(model)  # an unknown suffix is an error that lists the others
        suffix = file_suffix(model)
    if pipeline is None:
        yield from default_pipelines(suffix)
    else:
        yield None, pipeline_text(pipeline, [] if suffix is None else [suffix])
