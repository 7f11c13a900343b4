"""`apass mlir-opt`: takes the command lines of `mlir-opt`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import typer

from apass.adapters.mlir.catalogue import catalogue_of
from apass.adapters.programs import MLIR_OPT
from apass.cli.tool_command import NativeArguments, NativeLine, ToolCommand, run_tool
from apass.errors import InputError

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)

_PRINTING: Final = (
    "mlir-print-op-generic",
    "mlir-print-debuginfo",
    "mlir-print-local-scope",
    "mlir-print-assume-verified",
    "mlir-print-unique-ssa-ids",
    "mlir-print-value-users",
    "mlir-print-skip-regions",
    "mlir-use-nameloc-as-prefix",
    "mlir-pretty-debuginfo",
    "mlir-elide",
    "emit-bytecode",
    "allow-unregistered-dialect",
    "load-dialect-plugin",
    "irdl-file",
)
"""The first letters of the options that concern how a module is read or printed."""


@app.command("mlir-opt", cls=ToolCommand)
def mlir_opt(*, arguments: NativeArguments = None) -> None:
    """Run the command line of mlir-opt, and show what its passes do.

    Options of `apass opt` that mlir-opt does not have, such as `--timing` or `--report r.html`, let its passes run one
    by one. Without any, mlir-opt itself runs.
    """
    run_tool(MLIR_OPT, arguments or (), _read, (".mlir", ".mlirbc"))


def _read(program: Path, arguments: Sequence[str]) -> NativeLine:
    """Return what a command line of `mlir-opt` asks for."""
    line, names = NativeLine(), {entry.name for entry in catalogue_of(program).passes}
    passes: list[str] = []
    pipeline, rest = "", iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        plain = name.lstrip("-")
        if not argument.startswith("-") or argument == "-":
            line.inputs.append(argument)
        elif plain == "o":
            line.output = value if equals else next(rest, "-")
        elif plain == "pass-pipeline":
            pipeline = value if equals else next(rest, "")
        elif plain in names:
            passes.append(plain + (f"{{{value}}}" if value else ""))
        elif plain == "split-input-file" and not equals:
            line.is_split = True
            line.print_flags.append(argument)
        elif plain in ("verify-diagnostics", "split-input-file"):
            raise InputError(f"{argument} cannot be used with options of apass; leave one of them out")
        else:
            line.run_flags.append(argument)
            # Bytecode has no name of a file in its locations.
            line.keeps_text = line.keeps_text or "debuginfo" in plain
            line.print_flags += _printing(argument, plain)
    printing = {flag.lstrip("-") for flag in line.print_flags}
    line.input_mark = '"{}":' if "mlir-print-debuginfo" in printing and "emit-bytecode" not in printing else ""
    if passes and pipeline:
        raise InputError("passes and --pass-pipeline cannot be used together")
    line.pipeline = f"mlir:{pipeline or ','.join(passes)}" if passes or pipeline else ""
    return line


def _printing(argument: str, plain: str) -> Iterator[str]:
    if plain.startswith(_PRINTING):
        yield argument
