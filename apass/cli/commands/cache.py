"""`apass cache`: what is kept of earlier runs, and forgetting it."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import anyio
import typer

from apass.cli.cache_location import DEFAULT, store_at
from apass.cli.errors import complaints, warnings_as_lines
from apass.core.store import Store

__all__ = ["cache"]

cache = typer.Typer(help="Show or forget the results that `apass opt --cache` keeps.", no_args_is_help=True)

_Place = Annotated[str, typer.Option("--cache", metavar="PLACE", help="A file, redis://HOST:PORT, or default.")]


@cache.command("info")
def info(place: _Place = DEFAULT) -> None:
    """Show where results are kept, how many, and how large they are."""

    async def show(store: Store) -> str:
        found = await store.info()
        return f"{found.place}: {found.entries} results, {_size(found.size)}"

    _run(place, show)


@cache.command("clear")
def clear(place: _Place = DEFAULT) -> None:
    """Forget all results."""

    async def forget(store: Store) -> str:
        found = await store.info()
        await store.clear()
        return f"{found.place}: {found.entries} results forgotten"

    _run(place, forget)


def _run(place: str, work: Callable[[Store], Awaitable[str]]) -> None:
    async def main() -> str:
        async with store_at(place) as store:
            return await work(store)

    with complaints(), warnings_as_lines():
        typer.echo(anyio.run(main))


def _size(count: int) -> str:
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        del units[0]
    return f"{amount:.0f} bytes" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"
