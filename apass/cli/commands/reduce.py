"""`apass reduce`: finds a smaller model and pipeline that fail."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Self

import anyio
import typer
from rich.console import Console

from apass.batch.formats import ModelFormat, format_of
from apass.cli.check_command import CheckCommand, CheckTimeoutOption, read_command
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.inputs import check_model_file
from apass.cli.options import with_options
from apass.cli.output_files import OutputError, cannot_write
from apass.cli.planning import default_pipeline, pipeline_text, read_pipeline
from apass.cli.settings import PipelineOption, ReplayOptions, make_context
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.concurrency.limits import usable_cores
from apass.core.run import enter_module
from apass.core.user_modules import load_options
from apass.debugging.reduce import reduce as reduce_folder
from apass.debugging.reduce import reduce_module
from apass.debugging.reduction import Reduced, Size
from apass.errors import InputError
from apass.instruments.reproducer.folder import read_reproducer

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


class _Kept(StrEnum):
    """What a reduction leaves as it is."""

    MODULE = "module"
    PIPELINE = "pipeline"


@app.command("reduce", epilog="Example:\n\napass reduce m.onnx -p onnx.Default --check 'python same.py {before} {}'")
@with_options(ReplayOptions)
def reduce(
    *,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Model file, or folder written by `apass opt --reproducer`.")
    ],
    check: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Run this command on each result, as {} or last argument; status 0 means good. {before} is the model "
            "before the passes.",
        ),
    ] = None,
    check_timeout: CheckTimeoutOption = None,
    pipeline: PipelineOption = None,
    keep: Annotated[_Kept | None, typer.Option("--keep", help="Leave the module, or the pipeline, as it is.")] = None,
    options: tuple[ReplayOptions],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help=r"Write the result to this directory \[SOURCE/reduced, or MODEL.reduced].",
        ),
    ] = None,
    message: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Match the message of the failure against this pattern.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Stop after this time, with the smallest model so far."),
    ] = None,
    isolate: Annotated[bool, typer.Option("--isolate", help="Run each attempt in a worker process.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, help=r"Run this many attempts at once \[the CPUs, with --check or --isolate; or 1]."
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option("--backend", help=r"Set the event loop: asyncio or trio \[the recorded one, or asyncio]."),
    ] = None,
    _load: LoadOption = None,
) -> None:
    """Write a smaller model and pipeline that fail, or that a check rejects.

    An interrupted search goes on when the same command is run again.

    Exit status: 0, 2 if there is nothing to reduce, or 4 if the result cannot be written.
    """
    with errors_as_lines():
        is_model = not source.is_dir()
        if is_model:
            check_model_file(source)
        reproducer = None if is_model else read_reproducer(source)
        folder = output or (source.with_name(f"{source.name}.reduced") if is_model else source / "reduced")
        loop = backend or ("asyncio" if reproducer is None else reproducer.backend)
        check_backend(loop)
        text = None if pipeline is None else pipeline_text(pipeline)
        name = source.name if reproducer is None else reproducer.module_file or ""
        model_format = format_of(Path(name), None, text) if is_model or check is not None else None
        command = None
        if check is not None and model_format is not None:
            command = CheckCommand(read_command(check), model_format, name, check_timeout)
        # Filled by `work`: `run_until_interrupted` returns no value.
        results: list[Reduced] = []
        parameters: dict[str, Any] = {
            "check": command,
            "keep": None if keep is None else keep.value,
            "message": message,
            "timeout": timeout,
            "isolate": isolate,
            "jobs": jobs or (usable_cores() if isolate or check is not None else 1),
            "tried": folder.parent / f"{folder.name}.tried",
        }

        async def work() -> None:
            parameters.update(report=line.report, on_try=line.update)
            try:
                if model_format is not None and is_model:
                    results.append(await _reduce_model(source, model_format, text, options[0], folder, parameters))
                else:
                    parameters["unknown_answers"] = options[0].unknown_answers.value
                    results.append(await reduce_folder(source, text, output=folder, **parameters))
            except InputError:  # an OSError too
                raise
            except anyio.get_cancelled_exc_class():
                echo("run the same command again to continue")
                raise
            except OSError as error:
                raise OutputError(cannot_write("reduce", folder, error)) from None

        with warnings_as_lines(), _StatusLine() as line:
            run_until_interrupted(work, loop)
        _show(results[0], check)


async def _reduce_model(
    path: Path, model_format: ModelFormat, text: str | None, options: ReplayOptions, folder: Path, parameters: Any
) -> Reduced:
    """Reduce a model file."""
    passes = read_pipeline(default_pipeline(model_format, path.suffix) if text is None else text)
    enter_module(path.name)
    async with make_context(options, [passes]):
        return await reduce_module(model_format.load(path), passes, folder, **parameters)


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
