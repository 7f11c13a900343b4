"""Commands that take the command lines of other compilers.

`apass mlir-opt` is one. Without an option of apass, the compiler itself runs, with the same arguments. With one, its
passes run as those of apass, as by `apass opt`, and the compiler prints the result.
"""

import inspect
import os
import re
import subprocess
import sys
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
from apass.cli.streams import reserved_output
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
    output: str | None = None
    """The file of the result; None if the command line names none."""
    run_flags: list[str] = field(default_factory=list[str])
    """The options of each run."""
    print_flags: list[str] = field(default_factory=list[str])
    """The options of the run that prints the result."""
    input_mark: str = ""
    """How the result names the file that the program reads, with `{}` for its path; empty if it does not."""
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
        if line.run_flags and any(option.partition("=")[0] == "--executor" for option in own):
            raise InputError(
                f"--executor cannot be used with {line.run_flags[0]}, which its workers do not receive; leave one of "
                f"them out, or set {tool.arguments}"
            )
        with TemporaryDirectory(prefix="apass-") as folder:
            # A file of several modules is a text.
            result = Path(folder, f"result{suffixes[not (line.is_split or line.keeps_text)]}")
            source = [*(line.inputs or ["-"])]
            source += ["--from", suffixes[0].removeprefix(".")] if "-" in source else []
            options = ["--split-input-file"] if line.is_split else []
            command = [*source, "-p", line.pipeline, *options, "-o", str(result), "--quiet", *own]
            # Standard output is for the result, which FileCheck may read.
            with RUN_FLAGS.set_to(tuple(line.run_flags)), reserved_output():
                status = load_command("opt").main(args=command, prog_name="apass opt", standalone_mode=False)
            raise typer.Exit(status or _print_result(program, line, result))


def _print_result(program: Path, line: NativeLine, result: Path) -> int:
    """Let the compiler print the result, and return its exit status."""
    if not line.input_mark:
        output = [] if line.output is None else ["-o", line.output]
        return _status(subprocess.run([program, *line.print_flags, result, *output], check=False).returncode)
    done = subprocess.run([program, *line.print_flags, result, "-o", "-"], stdout=subprocess.PIPE, check=False)
    if not done.returncode:
        _write(_with_input_name(done.stdout, line, result), line.output or "-")
    return _status(done.returncode)


def _with_input_name(data: bytes, line: NativeLine, result: Path) -> bytes:
    """Return the printed result with the path of the file that the command line names."""
    name = next((path for path in line.inputs if path != "-"), "<stdin>")
    # The passes read standard input, and the last run reads the file of the result.
    for other in ("<stdin>", str(result)):
        data = data.replace(os.fsencode(line.input_mark.format(other)), os.fsencode(line.input_mark.format(name)))
    return data


def _write(data: bytes, output: str) -> None:
    if output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}") from None


def _status(code: int) -> int:
    """Return the exit status of a process, as a shell shows it."""
    return 128 - code if code < 0 else code
