"""`apass llvm-opt`: takes the command lines of LLVM's `opt`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from apass.adapters.programs import OPT
from apass.cli.tool_command import NativeArguments, NativeLine, ToolCommand, run_tool
from apass.errors import InputError

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)

_LEVEL: Final = re.compile(r"-O[0-3sz]")
_PRINTING: Final = ("S", "f", "disable-output", "preserve-ll-uselistorder", "module-hash", "module-summary")
"""The options of the run that prints the result."""


@app.command("llvm-opt", cls=ToolCommand)
def llvm_opt(*, arguments: NativeArguments = None) -> None:
    """Run the command line of LLVM's opt, and show what its passes do.

    Options of `apass opt` that opt does not have, such as `--timing` or `--report r.html`, let its passes run one by
    one. Without any, opt itself runs.
    """
    run_tool(OPT, arguments or (), _read, (".ll", ".bc"))


def _read(_program: Path, arguments: Sequence[str]) -> NativeLine:
    """Return what a command line of `opt` asks for."""
    line, pipeline, rest = NativeLine(), "", iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        plain = name.lstrip("-")
        if not argument.startswith("-") or argument == "-":
            line.inputs.append(argument)
        elif plain == "o":
            line.output = value if equals else next(rest, "-")
        elif plain in ("passes", "p") or _LEVEL.fullmatch(argument):
            if pipeline:
                raise InputError(f"the pipeline is given twice, by {argument} and before; leave one of them out")
            pipeline = f"default<{plain}>" if plain not in ("passes", "p") else value if equals else next(rest, "")
        elif plain in _PRINTING:
            line.print_flags.append(argument)
        else:
            line.run_flags.append(argument)
    printing = {flag.lstrip("-") for flag in line.print_flags}
    line.input_mark = "; ModuleID = '{}'" if "S" in printing and "disable-output" not in printing else ""
    line.print_flags.append("-passes=")
    line.pipeline = f"llvm:{pipeline}" if pipeline else ""
    return line
