"""`apass bisect`: finds the pass, and the function, that makes a check fail."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from apass.batch.formats import ModelFormat, format_of
from apass.cli.check_command import TIMEOUT, CheckCommand, CheckTimeoutOption, read_command
from apass.cli.command import Command
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import BackendOption, check_backend, run_until_interrupted
from apass.cli.inputs import check_model_file
from apass.cli.options import with_options
from apass.cli.output_files import OutputError, cannot_write
from apass.cli.planning import default_pipeline, pipeline_text, read_pipeline
from apass.cli.settings import PipelineOption, ReplayOptions, make_context
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.core.ir_plugin import file_suffix
from apass.core.run import enter_module
from apass.debugging.bisect import Bisected
from apass.debugging.bisect import bisect as find_culprit
from apass.instruments.reproducer.folder import Failure

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


@app.command("bisect", cls=Command, epilog="Example:\n\napass bisect model.onnx --check 'python check.py {}'")
@with_options(ReplayOptions)
def bisect(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file; the check must accept it.")],
    check: Annotated[
        str,
        typer.Option(
            metavar="CMD", help="Run this command on each model, as {} or last argument; status 0 means good."
        ),
    ],
    check_timeout: CheckTimeoutOption = None,
    pipeline: PipelineOption = None,
    options: tuple[ReplayOptions],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write the models before and after the pass to this directory."
        ),
    ] = None,
    backend: BackendOption = "asyncio",
    _load: LoadOption = None,
) -> None:
    """Find the first pass, and its function, that makes a check of the model fail.

    Exit status: 0 if it was found; 2 if the original model is bad, the optimized model is good, or a pass fails;
    4 if it was found, but --output cannot be written.
    """
    with errors_as_lines():
        check_backend(backend)
        check_model_file(model)
        text = None if pipeline is None else pipeline_text(pipeline, [file_suffix(model)])
        model_format = format_of(model, None, text)
        passes = read_pipeline(default_pipeline(model_format, model.suffix) if text is None else text)
        context = make_context(options[0], [passes])
        command = CheckCommand(read_command(check), model_format, model.name, check_timeout)
        # Filled by `work`: `run_until_interrupted` returns no value.
        results: list[Bisected[Any]] = []

        async def work() -> None:
            enter_module(model.name)
            async with context:
                original = model_format.load(model)

                async def is_good(mod: Any) -> bool:
                    verdict = await command(original, mod)
                    if isinstance(verdict, Failure) and verdict.type == TIMEOUT:
                        echo(f"{verdict.message}; the model counts as bad")
                    return verdict is True

                results.append(await find_culprit(original, passes, is_good, report=echo))

        with warnings_as_lines():
            run_until_interrupted(work, backend)
        _show(results[0], model_format, model, output)


def _show(result: Bisected[Any], model_format: ModelFormat, model: Path, output: Path | None) -> None:
    echo(str(result))
    echo(result.diff or "(the text of the model is unchanged)")
    if output is not None:
        for word, mod in (("before", result.before), ("after", result.after)):
            path = model_format.path_of(mod, output / f"{model.stem}.{word}{model.suffix}")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                model_format.save(mod, path)
            except OSError as error:
                raise OutputError(cannot_write("--output", path, error)) from None
            echo(f"model {word} this pass: {path}")
    echo(f"to stop after this pass: apass opt --opt-bisect-limit {result.number} ...")
