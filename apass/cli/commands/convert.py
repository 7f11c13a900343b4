"""`apass convert`: writes a model as a file of another format."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from apass.batch.formats import format_of
from apass.cli.command import Command
from apass.cli.errors import errors_as_lines, failure_text, warnings_as_lines
from apass.cli.exit_status import FAILED
from apass.cli.inputs import check_model_file
from apass.cli.output_files import cannot_write
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.core.ir_plugin import file_suffix
from apass.errors import InputError

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)

_EXAMPLES: Final = (
    "Examples:",
    "apass convert model.onnx model.relay",
    "apass convert model.onnx model.relax",
)
"""Shown above the options; one line for each."""


@app.command("convert", cls=Command, epilog="\n\n".join(_EXAMPLES))
def convert(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file to read.")],
    output: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write, whose suffix names the format of the result.")
    ],
    _load: LoadOption = None,
) -> None:
    """Write a model as a file of another format, without any pass.

    `apass opt --to FORMAT` converts many models, and optimizes them.

    Exit status: 0, 1 if the model cannot be converted, 2 if nothing was started.
    """
    with errors_as_lines(), warnings_as_lines():
        check_model_file(model)
        if output.is_dir() or not output.suffix:
            raise InputError(f"{output} names no format; write a file with a suffix, such as model.relay")
        model_format = format_of(model, file_suffix(output))
        try:
            mod = model_format.load(model)
            before = model_format.size(mod)
            model_format.save(mod, output)
        except InputError:
            raise
        except OSError as error:
            raise InputError(cannot_write("convert", output, error)) from None
        except Exception as error:  # a plug-in may raise anything
            Console(stderr=True, highlight=False).print(failure_text(str(model), error), soft_wrap=True)
            raise typer.Exit(FAILED) from None
        echo(f"{output}: {before} nodes")
