"""`apass cache`: shows, explains or deletes the results that earlier runs stored."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer
from rich.console import Console

from apass.batch.formats import format_of
from apass.cli.cache_location import DEFAULT, default_path, store_at
from apass.cli.command import Command, Group
from apass.cli.errors import errors_as_lines, failure_text, warnings_as_lines
from apass.cli.event_loop import BackendOption, check_backend, run_until_interrupted
from apass.cli.exit_status import FAILED
from apass.cli.inputs import check_model_file
from apass.cli.options import with_options
from apass.cli.planning import default_pipeline, pipeline_text, read_pipeline
from apass.cli.settings import ConfigOptions, PipelineOption, make_context
from apass.cli.terminal import FormatOption, OutputFormat, echo, print_error, print_json
from apass.cli.user_modules import LoadOption
from apass.core.ir_plugin import file_suffix
from apass.core.run import enter_module
from apass.core.store import Store
from apass.errors import InputError
from apass.pipelines.cache_explanation import CacheExplanation, explain_cache

__all__ = ["app"]

app: Final = typer.Typer(
    name="cache",
    cls=Group,
    add_completion=False,
    help="Show, explain or delete the results that `apass opt --cache` stores.",
    no_args_is_help=True,
)

_Location = Annotated[
    str, typer.Option("--cache", metavar="LOCATION", help="Use a file, redis://HOST:PORT, or 'default'.")
]


@app.command("info", cls=Command)
def info(location: _Location = DEFAULT) -> None:
    """Show the location, number and size of the stored results."""

    async def show(store: Store) -> str:
        contents = await store.info()
        return f"{contents.place}: {contents.entries} results, {_size(contents.size)}"

    _run(location, show)


@app.command("clear", cls=Command)
def clear(location: _Location = DEFAULT) -> None:
    """Delete all stored results."""

    async def delete(store: Store) -> str:
        contents = await store.info()
        await store.clear()
        return f"{contents.place}: {contents.entries} results deleted"

    _run(location, delete)


_EXAMPLES: Final = (
    "Examples:",
    "apass cache explain model.onnx -p 'onnx.Inline,onnx.Simplify' --cache results.db",
    "apass cache explain model.onnx --output-format json | jq .reason",
)
"""Shown above the options; one line for each."""


@app.command("explain", cls=Command, epilog="\n\n".join(_EXAMPLES))
@with_options(ConfigOptions)
def explain(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Explain the results for this model.")],
    pipeline: PipelineOption = None,
    location: _Location = DEFAULT,
    options: tuple[ConfigOptions],
    backend: BackendOption = "asyncio",
    output_format: FormatOption = OutputFormat.TEXT,
    _load: LoadOption = None,
) -> None:
    """Explain which results of passes are stored, and why others are not.

    The passes run on the model, with the stored results. Their own results are not stored; a damaged cache file is
    renamed, as by `opt`. Lines begin with `stored`, `missing`, or with `never` if the results of a pass are not stored.
    Passes that are skipped have no line.

    Exit status: 0; 1 if a pass failed.
    """
    with errors_as_lines(), warnings_as_lines():
        check_backend(backend)
        check_model_file(model)
        text = None if pipeline is None else pipeline_text(pipeline, [file_suffix(model)])
        model_format = format_of(model, None, text)
        passes = read_pipeline(default_pipeline(model_format, model.suffix) if text is None else text)
        # Without this check, the command would create the file.
        if "://" not in location and not (path := Path(default_path() if location == DEFAULT else location)).exists():
            raise InputError(f"no cache at {str(path)!r}; `apass opt --cache {location}` creates it")

        async def work() -> None:
            enter_module(model.name)
            async with store_at(location) as store:
                context = make_context(options[0], [passes], store=store)
                module = model_format.load(model)
                try:
                    explained = await explain_cache(passes, module, context)
                except Exception as error:  # the pass of a user may raise anything
                    Console(stderr=True, highlight=False).print(failure_text(model.name, error), soft_wrap=True)
                    raise typer.Exit(FAILED) from None
            if not explained:
                print_error(f"no pass runs; `apass plan {model} -p ...` says why")
            width = min(_WIDEST, max((len(item.text) for item in explained), default=0))
            for item in explained:
                if output_format is OutputFormat.JSON:
                    print_json(_as_json(item))
                else:
                    echo(f"{item.state.value:<7}  {item.text:<{width}}  {item.details}".rstrip())

        run_until_interrupted(work, backend)


_WIDEST: Final = 48
"""Width up to which the texts of passes are padded."""


def _as_json(item: CacheExplanation) -> dict[str, object]:
    return {
        "pass": item.text,
        "path": list(item.path),
        "state": item.state.value,
        "reason": item.reason,
        "functions": item.functions,
        "stored_functions": item.stored_functions,
    }


def _run(location: str, work: Callable[[Store], Awaitable[str]]) -> None:
    async def main() -> str:
        async with store_at(location) as store:
            return await work(store)

    with errors_as_lines(), warnings_as_lines():
        echo(anyio.run(main))


def _size(count: int) -> str:
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        del units[0]
    return f"{amount:.0f} bytes" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"
