"""`apass reduce`: finds a smaller model and pipeline that fail."""

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Self

import anyio
import typer
from rich.console import Console

from apass.batch.formats import format_of
from apass.cli.check_command import CheckCommand, CheckTimeoutOption, read_command
from apass.cli.command import Command
from apass.cli.completion import complete_backend
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.inputs import check_model_file
from apass.cli.options import options_in_use, with_options
from apass.cli.output_files import OutputError, cannot_write
from apass.cli.planning import default_pipeline, pipeline_text, read_pipeline
from apass.cli.settings import AllowOption, PipelineOption, ReplayOptions, make_context
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.concurrency.limits import usable_cores
from apass.core.ir_plugin import file_suffix
from apass.core.run import enter_module
from apass.debugging.reduce import reduce as reduce_folder
from apass.debugging.reduce import reduce_module
from apass.debugging.reduction import Reduced, Size
from apass.errors import InputError
from apass.instruments.reproducer.folder import read_reproducer
from apass.loading.user_modules import load_options

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


class _Kept(StrEnum):
    """What a reduction leaves as it is."""

    MODULE = "module"
    PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The options of the search; a dataclass for `with_options`."""

    check: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Run this command on each result, as {} or last argument; status 0 means good. {before} is the model "
            "before the passes.",
        ),
    ] = None
    check_timeout: CheckTimeoutOption = None
    """Seconds that the command may take."""
    keep: Annotated[_Kept | None, typer.Option("--keep", help="Leave the module, or the pipeline, as it is.")] = None
    message: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Match the message of the failure against this pattern.")
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Stop after this time, with the smallest model so far."),
    ] = None
    isolate: Annotated[bool, typer.Option("--isolate", help="Run each attempt in a worker process.")] = False
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, help=r"Run this many attempts at once \[the CPUs, with --check or --isolate; or 1]."
        ),
    ] = None
    allow: AllowOption = None
    """What of a reproducer may reach outside of the module."""

    def arguments(self, path: Path, pipeline: str | None) -> dict[str, Any]:
        """Return the arguments of `reduce` and `reduce_module`.

        Parameters:
            path: the model file, which need not exist, for its name and format.
            pipeline: the text of the pipeline, if one is given.

        """
        command = None
        if self.check is not None:
            model_format = format_of(path, None, pipeline)
            command = CheckCommand(read_command(self.check), model_format, path.name, self.check_timeout)
        return {
            "check": command,
            "keep": None if self.keep is None else self.keep.value,
            "message": self.message,
            "timeout": self.timeout,
            "isolate": self.isolate,
            "jobs": self.jobs or (usable_cores() if self.isolate or command is not None else 1),
        }


@app.command(
    "reduce", cls=Command, epilog="Example:\n\napass reduce m.onnx -p onnx.Default --check 'python same.py {before} {}'"
)
@with_options(SearchOptions, ReplayOptions)
def reduce(
    *,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Model file, or folder written by `apass opt --reproducer`.")
    ],
    pipeline: PipelineOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help=r"Write the result to this directory \[SOURCE/reduced, or MODEL.reduced].",
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            autocompletion=complete_backend,
            help=r"Set the event loop: asyncio or trio \[the recorded one, or asyncio].",
        ),
    ] = None,
    options: tuple[SearchOptions, ReplayOptions],
    _load: LoadOption = None,
) -> None:
    """Write a smaller model and pipeline that fail, or that a check rejects.

    An interrupted search goes on when the same command is run again.

    Exit status: 0, 2 if there is nothing to reduce, or 4 if the result cannot be written.
    """
    search, settings = options
    with errors_as_lines():
        known = [] if source.is_dir() else [file_suffix(source)]
        text = None if pipeline is None else pipeline_text(pipeline, known)
        if source.is_dir():
            folder, recorded_backend, run = _reduction_of_folder(source, text, output, search, settings)
        else:
            folder, recorded_backend, run = _reduction_of_model(source, text, output, search, settings)
        loop = backend or recorded_backend
        check_backend(loop)
        # Filled by `work`: `run_until_interrupted` returns no value.
        results: list[Reduced] = []

        async def work() -> None:
            tried = folder.parent / f"{folder.name}.tried"
            try:
                results.append(await run(tried=tried, report=line.report, on_try=line.update))
            except InputError:  # an OSError too
                raise
            except anyio.get_cancelled_exc_class():
                echo("run the same command again to continue")
                raise
            except OSError as error:
                raise OutputError(cannot_write("reduce", folder, error)) from None

        with warnings_as_lines(), _StatusLine() as line:
            run_until_interrupted(work, loop)
        _show(results[0], search.check)


_Reduction = tuple[Path, str, Callable[..., Awaitable[Reduced]]]
"""The output folder, the event loop, and what starts the search."""


def _reduction_of_folder(
    source: Path, pipeline: str | None, output: Path | None, search: SearchOptions, settings: ReplayOptions
) -> _Reduction:
    """Return the reduction of a reproducer, which runs in the recorded context."""
    reproducer = read_reproducer(source)
    unused = [name for name in options_in_use(settings) if name != "--unknown-answers"]
    if unused:
        raise InputError(f"{' and '.join(unused)} cannot be set for a reproducer, which has recorded its context")
    folder = output or source / "reduced"
    arguments = search.arguments(Path(reproducer.module_file or ""), pipeline)
    arguments |= {"unknown_answers": settings.unknown_answers.value, "allow": search.allow or ()}
    return folder, reproducer.backend, partial(reduce_folder, source, pipeline, output=folder, **arguments)


def _reduction_of_model(
    source: Path, pipeline: str | None, output: Path | None, search: SearchOptions, settings: ReplayOptions
) -> _Reduction:
    """Return the reduction of a model file, which runs in the context of the options."""
    check_model_file(source)
    folder = output or source.with_name(f"{source.name}.reduced")
    arguments = search.arguments(source, pipeline)
    model_format = format_of(source, None, pipeline)
    passes = read_pipeline(default_pipeline(model_format, source.suffix) if pipeline is None else pipeline)
    context = make_context(settings, [passes])

    async def run(**more: Any) -> Reduced:
        enter_module(source.name)
        async with context:
            return await reduce_module(model_format.load(source), passes, folder, **arguments, **more)

    return folder, "asyncio", run


class _StatusLine:
    """The status line of the search on a terminal; nothing in a pipe or a file."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._status = console.status("reading the module") if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, tries: int, size: Size) -> None:
        """Show the progress of the search."""
        if self._status is not None:
            self._status.update(f"{tries:,} tried, now {size}")

    def report(self, text: str) -> None:
        """Print a line above the status line."""
        self.__exit__()
        echo(text)
        self.__enter__()


def _show(result: Reduced, check: str | None) -> None:
    echo(f"before: {result.before}")
    echo(f"after:  {result.after}")
    if result.pipeline is not None:
        echo(f"passes: {result.pipeline}")
    note = "" if result.complete else "; stopped by --timeout, so a smaller model may exist"
    echo(f"{result.tries} attempts{note}")
    words = ["apass", *load_options(), "replay", str(result.folder), *([] if check is None else ["--check", check])]
    echo(f"to reproduce: {shlex.join(words)}")
