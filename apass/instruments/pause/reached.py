"""Which breakpoint a pass reaches, before and after its work."""

from collections.abc import Iterable, Sequence
from typing import Any

from apass.core.adapter import adapter_for, select_functions
from apass.core.module_diff import ModuleDiff
from apass.core.run import Run
from apass.instruments.pause.breakpoints import (
    Breakpoint,
    ChangedBreakpoint,
    FunctionBreakpoint,
    ModuleBreakpoint,
    PassBreakpoint,
    TextBreakpoint,
)
from apass.passes.function_pass import FunctionPass

__all__ = ["reached_after", "reached_before"]


def reached_before(breakpoints: Iterable[Breakpoint], run: Run, mod: Any) -> Breakpoint | None:
    """Return the first breakpoint that a pass reaches before its work, or None."""
    names = (run.info.name,) if run.pass_ is None else run.pass_.all_names
    functions: Sequence[str] | None = None
    for item in breakpoints:
        if isinstance(item, PassBreakpoint):
            is_reached = any(map(item.matches, names))
        elif isinstance(item, ModuleBreakpoint):
            is_reached = run.parent is None and item.matches(run.module or "")
        elif isinstance(item, FunctionBreakpoint):
            functions = _functions(run, mod) if functions is None else functions
            is_reached = any(map(item.matches, functions))
        else:
            is_reached = False
        if is_reached:
            return item
    return None


def reached_after(breakpoints: Iterable[Breakpoint], run: Run, changes: Iterable[tuple[Any, Any]]) -> Breakpoint | None:
    """Return the first breakpoint that the changes made by a pass reach, or None.

    Each of `changes` consists of the modules before and after some work of the pass itself.
    """
    pass_: Any = run.pass_
    # A combinator returns what one of its passes returned, not always the last one: see Race.
    if pass_ is not None and any(pass_.branches()):
        return None
    wanted = [item for item in breakpoints if isinstance(item, ChangedBreakpoint | TextBreakpoint)]
    if not wanted:
        return None
    texts = [text for change in changes for text in ModuleDiff.of(*change).pairs.items()]
    for item in wanted:
        for name, (old, new) in texts:
            if isinstance(item, TextBreakpoint):
                is_reached = item.text in new and item.text not in old
            else:
                is_reached = name is not None and old != new and item.matches(name)
            if is_reached:
                return item
    return None


def _functions(run: Run, mod: Any) -> Sequence[str]:
    """Return the names of the functions that a function pass transforms."""
    pass_: Any = run.pass_
    return select_functions(adapter_for(mod), mod, pass_.kind)[0] if isinstance(pass_, FunctionPass) else ()
