"""`apass cache`: shows or deletes the results that earlier runs stored."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import anyio
import typer

from apass.cli.cache_location import DEFAULT, store_at
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.terminal import echo
from apass.core.store import Store

__all__ = ["app"]

app: Final = typer.Typer(
    name="cache",
    add_completion=False,
    help="Show or delete the results that `apass opt --cache` stores.",
    no_args_is_help=True,
)

_Location = Annotated[
    str, typer.Option("--cache", metavar="LOCATION", help="Use a file, redis://HOST:PORT, or 'default'.")
]


@app.command("info")
def info(location: _Location = DEFAULT) -> None:
    """Show the location, number and size of the stored results."""

    async def show(store: Store) -> str:
        contents = await store.info()
        return f"{contents.place}: {contents.entries} results, {_size(contents.size)}"

    _run(location, show)


@app.command("clear")
def clear(location: _Location = DEFAULT) -> None:
    """Delete all stored results."""

    async def delete(store: Store) -> str:
        contents = await store.info()
        await store.clear()
        return f"{contents.place}: {contents.entries} results deleted"

    _run(location, delete)


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
