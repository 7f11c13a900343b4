"""`apass convert`: writes a model as a file of another format."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from apass.batch.formats import conversion_format
from apass.cli.command import Command
from apass.cli.errors import errors_as_lines, failure_text, warnings_as_lines
from apass.cli.event_loop import BackendOption, check_backend, run_until_interrupted
from apass.cli.exit_status import FAILED
from apass.cli.inputs import check_model_file
from apass.cli.output_files import cannot_write
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.core.context import PassContext
from apass.core.run import enter_module
from apass.errors import InputError
from apass.passes.sequential import Sequential
from apass.runner.error_policy import errors_of_passes

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)

_EXAMPLES: Final = (
    "Examples:",
    "apass convert model.onnx model.relay",
    "apass convert kernel.mlir kernel.ll",
    "apass convert kernel.mlirbc kernel.mlir --to xdsl",
)
"""Shown above the options; one line for each."""


@app.command("convert", cls=Command, epilog="\n\n".join(_EXAMPLES))
def convert(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file to read.")],
    output: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write, whose suffix names the format of the result.")
    ],
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="IR", help="Read the model as this IR, if several have its suffix: xdsl, mlir."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="IR", help="Write this IR, if several have the suffix of FILE: xdsl, mlir."),
    ] = None,
    backend: BackendOption = "asyncio",
    _load: LoadOption = None,
) -> None:
    """Write a model as a file of another format, by the passes that convert it.

    `apass opt --to FORMAT` converts many models, and optimizes them.

    Exit status: 0, 1 if the model cannot be converted, 2 if nothing was started.
    """
    with errors_as_lines(), warnings_as_lines():
        check_backend(backend)
        check_model_file(model)
        if output.is_dir() or not output.suffix:
            raise InputError(f"{output} names no format; write a file with a suffix, such as model.relay")
        model_format = conversion_format(model, output, source, to)
        passes = model_format.with_conversions(Sequential())

        async def work() -> None:
            enter_module(model.name)
            async with PassContext():
                mod: Any = model_format.load(model)
                before = model_format.size(mod)
                with errors_of_passes():
                    result = await passes(mod)
                model_format.save(result, output)
            echo(f"{output}: {before} nodes")

        try:
            run_until_interrupted(work, backend)
        except InputError:
            raise
        except OSError as error:
            raise InputError(cannot_write("convert", output, error)) from None
        except Exception as error:  # a plug-in may raise anything
            Console(stderr=True, highlight=False).print(failure_text(str(model), error), soft_wrap=True)
            raise typer.Exit(FAILED) from None
