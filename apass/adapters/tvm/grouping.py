"""Passes of TVM on groups of functions, and several in one call of a thread.

If nothing looks at single functions or passes, this gives the same module with fewer calls: a call in a thread, a
module of one function, and a comparison of modules each take about as long as a small pass.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import anyio
from anyio.from_thread import check_cancelled

from apass.adapters.tvm.adapter import ADAPTER
from apass.adapters.tvm.execution import call, call_in_thread, free_cores, mirrored
from apass.adapters.tvm.library import BaseFunc, IRModule, tvm
from apass.core.adapter import FunctionKind
from apass.core.context import PassContext, is_yield_due, yield_if_due

__all__ = ["Step", "part_of", "run_steps"]

GROUPS: Final = 4
"""How many groups of functions there are for each free core.

Functions differ in size, so with one group for each core, one core would often wait for the others.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A pass of TVM that is safe in several threads at once."""

    target: Any
    """The pass."""
    kind: FunctionKind | None = None
    """The kind of functions that it runs on; None if it runs on the whole module."""


async def run_steps(steps: Sequence[Step], mod: IRModule, ctx: PassContext) -> IRModule:
    """Return the module after some passes, or `mod` if it is equal.

    Passes on a small module run in the event loop. Other consecutive passes on functions run in several threads, each
    with a part of the functions. A cancelled call waits for the passes that run, and starts no others.

    Raises:
        Exception: if a pass fails. The caller runs the passes one by one to find out where.

    """
    result, rest = mod, deque(steps)
    # A small module takes less time than a call in a thread. Passes may enlarge it.
    while rest and ADAPTER.is_small(result):
        result = _run_slice(rest, result, ctx)
        if not rest:
            return mod if ADAPTER.equal(result, mod) else result
        await yield_if_due()
    for kind, group in groupby(rest, key=attrgetter("kind")):
        targets = [step.target for step in group]
        if kind is None:
            result = await call_in_thread(partial(_run_all, targets, result), ctx, exclusive=False)
        else:
            result = await _run_on_functions(targets, kind, result, ctx)
    # To compare after each pass would take as long as a small pass, if nothing changed.
    is_equal = partial(ADAPTER.equal, result, mod)
    return mod if result is mod or await call_in_thread(is_equal, ctx, exclusive=False) else result


def part_of(mod: IRModule, names: Sequence[str], kind: FunctionKind) -> IRModule:
    """Return a module with some functions of one kind, and what a pass over them sees.

    A pass over Relax functions sees all TIR functions as well.
    """
    parts: dict[Any, BaseFunc] = {}
    if kind == "function":
        parts = {var: func for var, func in mod.functions_items() if isinstance(func, tvm.tirx.PrimFunc)}
    for name in names:
        var = mod.get_global_var(name)
        parts[var] = mod[var]
    part = tvm.IRModule(parts, global_infos=mod.global_infos)
    return part.with_attrs(mod.attrs) if mod.attrs else part


def _run_slice(rest: deque[Step], mod: IRModule, ctx: PassContext) -> IRModule:
    """Return the module after the first passes of `rest`, which it removes.

    They are as many as start before the time slice expires, and at least one.
    """
    # One look at the attributes takes as long as a tenth of a small pass, and no pass adds the mark.
    may_skip = any(ADAPTER.skips(func) for _, func in ADAPTER.functions(mod))
    with mirrored(ctx, []):
        while rest:
            mod = call(rest.popleft().target, mod, may_skip=may_skip)
            # TVM's context belongs to the thread: it must be left before other tasks run.
            if is_yield_due():
                break
    return mod


async def _run_on_functions(targets: Sequence[Any], kind: FunctionKind, mod: IRModule, ctx: PassContext) -> IRModule:
    """Return the module after passes on its functions, or `mod` if none changed."""
    functions = ADAPTER.functions(mod)
    names = [name for name, func in functions if ADAPTER.kind(func) == kind and not ADAPTER.skips(func)]
    if not names:
        return mod
    updates: dict[str, BaseFunc] = {}

    async def run(group: Sequence[str]) -> None:
        updates.update(await call_in_thread(partial(_changed, targets, mod, group, kind), ctx, exclusive=False))

    async with anyio.create_task_group() as tasks:
        for group in _groups(names):
            tasks.start_soon(run, group)
    return ADAPTER.replace(mod, updates) if updates else mod


def _groups(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Iterate over groups of names, one if there is only one free core."""
    cores = free_cores()
    count = min(len(names), GROUPS * cores if cores > 1 else 1)
    # Neighbours are often alike. Each group gets some of them.
    return (names[start::count] for start in range(count))


def _run_all(targets: Sequence[Any], mod: IRModule) -> IRModule:
    for target in targets:
        check_cancelled()
        mod = call(target, mod)
    return mod


def _changed(targets: Sequence[Any], mod: IRModule, names: Sequence[str], kind: FunctionKind) -> dict[str, BaseFunc]:
    """Return the functions that passes change, by name; called in a thread."""
    result = _run_all(targets, part_of(mod, names, kind))
    pairs = ((name, ADAPTER.get(result, name)) for name in names)
    return {name: func for name, func in pairs if not ADAPTER.equal(func, mod[name])}
