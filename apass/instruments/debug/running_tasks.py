"""The tasks of the user that run in a copy of some contextvars."""

import gc
from collections.abc import Iterator
from contextvars import Context, ContextVar
from typing import Any

import anyio

from apass.core.places import Place
from apass.instruments.debug.places import place_of_coroutine

__all__ = ["tasks_with"]


def tasks_with(variable: ContextVar[Any], value: object) -> Iterator[tuple[str, Place]]:
    """Iterate over the running tasks whose contextvars have a value.

    Each task is the name of its function, and the place where the user started it. Tasks of apass are left out.
    """
    coroutines: dict[int, tuple[Any, str, Place]] = {}
    for info in anyio.get_running_tasks():
        place = place_of_coroutine(info.coro)
        if place is not None:
            coroutines[id(info.coro)] = (info.coro, _function_name(info), place)
    if not coroutines:
        return
    found: set[int] = set()
    # No API of both event loops returns the context of a task, but the garbage collector knows what a task refers to.
    for task in gc.get_referrers(*(coroutine for coroutine, _, _ in coroutines.values())):
        if type(task).__name__ == "Task":
            parts = gc.get_referents(task)
            if any(isinstance(part, Context) and part.get(variable) is value for part in parts):
                found.update(map(id, parts))
    for key, (_, name, place) in coroutines.items():
        if key in found:
            yield name, place


def _function_name(info: anyio.TaskInfo) -> str:
    # The tasks of a task group run a coroutine of anyio, and are named after the function with its module.
    coroutine: Any = info.coro
    module = "" if coroutine.cr_frame is None else coroutine.cr_frame.f_globals.get("__name__", "")
    name = info.name if module.startswith("anyio.") else coroutine.__qualname__
    return str(name).rpartition(".")[2]
