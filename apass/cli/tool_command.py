"""Commands that take the command lines of other compilers.

`apass mlir-opt` is one. Without an option of apass, the compiler itself runs, with the same arguments. With one, its
passes run as those of apass, as by `apass opt`, and the compiler prints the result.
"""

import inspect
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from apass.adapters.programs import RUN_FLAGS, Tool
from apass.cli.app import load_command
from apass.cli.errors import errors_as_lines
from apass.cli.options import FlagValue
from apass.cli.usage import flags_of
from apass.errors import InputError

__all__ = ["NativeArguments", "NativeLine", "ToolCommand", "run_tool", "split_arguments"]

_LISTED: Final = re.compile(r"^\s+--?([\w.-]+)", re.MULTILINE)
"""An option in the help of a compiler."""


NativeArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENT", help="The command line of the compiler, and long options of `apass opt`."),
]


class ToolCommand(TyperCommand):
    """A command whose arguments are those of another program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep all arguments for the program, unless they ask for help alone."""
        if args in (["--help"], ["-h"]):
            typer.echo(ctx.get_help())
            ctx.exit()
        ctx.params["arguments"] = list(args)
        return []

    def invoke(self, ctx: Any) -> Any:
        """Call the function of the command with the arguments."""
        assert self.callback is not None
        return self.callback(arguments=ctx.params["arguments"])


@dataclass(slots=True)
class NativeLine:
    """What the command line of a compiler asks for."""

    pipeline: str = ""
    """The passes, with the prefix of their language; empty if there are none."""
    inputs: list[str] = field(default_factory=list[str])
    """The files; none is standard input."""
    output: str = "-"
    """The file of the result."""
    run_flags: list[str] = field(default_factory=list[str])
    """The options of each run."""
    print_flags: list[str] = field(default_factory=list[str])
    """The options of the run that prints the result."""
    is_split: bool = False
    """Whether a file contains several modules."""
    keeps_text: bool = False
    """Whether modules are handed over as text."""


def split_arguments(arguments: Sequence[str], listed: Callable[[], str]) -> tuple[list[str], list[str]]:
    """Return the arguments of a compiler, and the options of apass among them.

    An option of apass is a long option of `apass opt` that the compiler does not have.

    Parameters:
        arguments: the arguments.
        listed: returns the help of the compiler, in which its options are listed.

    """
    flags, native, own = _own_flags(), list[str](), list[str]()
    known: set[str] | None = None
    rest = iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if name not in flags:
            native.append(argument)
            continue
        if known is None:
            known = set(_LISTED.findall(listed()))
        if name.removeprefix("--") in known:
            native.append(argument)
            continue
        own.append(argument)
        if not equals and flags[name]:
            value = next(rest, None)
            if value is None:
                raise InputError(f"{name} needs a value")
            own.append(value)
    return native, own


def _own_flags() -> dict[str, bool]:
    """Return the long options of `apass opt`, and whether a value may follow each."""
    command = load_command("opt")
    implied = {mark.flag for mark in _implied(command)}
    options = flags_of(command, typer.Context(command))
    return {
        flag: not option.is_flag and flag not in implied for flag, option in options.items() if flag.startswith("--")
    }


def _implied(command: Any) -> Iterator[FlagValue]:
    for parameter in inspect.signature(command.callback, eval_str=True).parameters.values():
        yield from (mark for mark in getattr(parameter.annotation, "__metadata__", ()) if isinstance(mark, FlagValue))


def run_tool(
    tool: Tool, arguments: Sequence[str], read: Callable[[Path, Sequence[str]], NativeLine], suffixes: tuple[str, str]
) -> None:
    """Run the command line of a compiler, and exit with its status.

    Parameters:
        tool: the compiler.
        arguments: the command line.
        read: returns what it asks for, given the path of the program.
        suffixes: the suffix of files of text, and that of files that keep everything.

    """
    with errors_as_lines():
        program = tool.find()
        native, own = split_arguments(arguments, lambda: tool.output_of(program, ["--help-hidden"])[1])
        line = read(program, native) if own else NativeLine()
        if not line.pipeline:
            done = subprocess.run([program, *tool.extra_arguments(), *native], check=False)
            raise typer.Exit(_status(done.returncode))
        with TemporaryDirectory(prefix="apass-") as folder:
            # A file of several modules is a text.
            result = Path(folder, f"result{suffixes[not (line.is_split or line.keeps_text)]}")
            source = line.inputs or ["-", "--from", suffixes[0].removeprefix(".")]
            options = ["--split-input-file"] if line.is_split else []
            command = [*source, "-p", line.pipeline, *options, "-o", str(result), "--quiet", *own]
            with RUN_FLAGS.set_to(tuple(line.run_flags)):
                status = load_command("opt").main(args=command, prog_name="apass opt", standalone_mode=False)
            if status:
                raise typer.Exit(status)
            done = subprocess.run([program, *line.print_flags, result, "-o", line.output], check=False)
        raise typer.Exit(_status(done.returncode))


def _status(code: int) -> int:
    """Return the exit status of a process, as a shell shows it."""
    return 128 - code if code < 0 else code
