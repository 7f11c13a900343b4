"""`view` and `diff`: displays of objects, for notebooks and terminals."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from apass.batch.stream import Outcome
from apass.core.adapter import adapter_of_type
from apass.core.context import PassContext
from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Diagnostic
from apass.core.remarks import Remark
from apass.debugging.bisect import Bisected
from apass.display.blocks import Block, Code, Group, Span
from apass.display.highlight import plain_lines
from apass.display.html import render_html
from apass.display.modules import describe_diff, describe_module
from apass.display.pipelines import describe_context, describe_pass, describe_plan
from apass.display.results import (
    describe_bisected,
    describe_diagnostics,
    describe_functions,
    describe_memory,
    describe_outcome,
    describe_outcomes,
    describe_remarks,
    describe_report,
    describe_statistics,
    describe_timings,
)
from apass.display.text import render_text
from apass.instruments.memory import PassMemory, PassMemoryInstrument
from apass.instruments.remarks import RemarksInstrument
from apass.instruments.report.instrument import ReportInstrument
from apass.instruments.statistics import PassStatistic, StatisticsInstrument
from apass.instruments.timing.functions import FunctionTimingInstrument
from apass.instruments.timing.passes import PassTimingInstrument
from apass.instruments.timing.tables import FunctionTiming, PassTiming
from apass.passes.base import Pass
from apass.pipelines.plan import PlannedPass
from apass.util.displayed import Displayed
from apass.util.text import shorten

__all__ = ["View", "diff", "view"]


class View:
    """An object as a notebook, rich or `print` shows it.

    - A notebook shows the object as HTML. The HTML loads nothing, has no scripts outside of the frame of a report, and
      escapes every text.
    - `rich.print` shows it with colours (`pip install 'apass[cli]'`).
    - `str` and `print` give plain text.
    """

    def __init__(self, block: Block) -> None:
        self._block = block

    def __str__(self) -> str:
        return render_text(self._block)

    # The prompt of Python, and text outputs of notebooks, show the text, too.
    __repr__ = __str__

    def _repr_html_(self) -> str:
        return render_html(self._block)

    def __rich__(self) -> object:
        # Only rich calls this method, so it is installed.
        return import_module("apass.display.terminal").render_rich(self._block)


def view(obj: object) -> View:
    """Return a display of an object, for notebooks and terminals.

    These can be shown:

    - a pass or a pipeline, as a tree with levels, requirements and options; a plan; a `PassContext`;
    - a module of any IR that has an adapter, highlighted, with a fold for each function;
    - the outcomes of `optimize_all`, or one of them;
    - instruments that measure or record, and their results: timings, memory, statistics, remarks, a report;
    - diagnostics, and the result of `bisect`;
    - a list of these.

    In a notebook, all but plain modules and lists are shown in this way without `view`.

    Raises:
        TypeError: if the object is none of these.

    >>> import apass
    >>> print(view({"main": [1, 2], "helper": "text"}))
    dict  2 functions
      main: [1, 2]
      helper: text
    >>> same = apass.module_pass(lambda mod, ctx: mod, opt_level=1, name="Same", required=["PrintIR"])
    >>> print(view(apass.Sequential([same], name="main")))
    main  Sequential  level 0
      Same  ModulePass  level 1  requires PrintIR

    """
    return View(_describe(obj))


def diff(before: object, after: object, *, context: int = 3) -> View:
    """Return a display of the difference of two modules, by function.

    Parameters:
        before: a module of any IR that has an adapter.
        after: another one.
        context: the number of unchanged lines around each change.

    Raises:
        AdapterError: if a module has no adapter.

    >>> print(diff({"f": 8, "g": 1}, {"f": 4, "g": 1}))
    f  +1 -1
      @@ -1 +1 @@
      -f: 8
      +f: 4

    """
    return View(describe_diff(before, after, context))


def _describe(obj: object) -> Block:
    kind = type(obj)
    describe = next((_OBJECTS[base] for base in kind.__mro__ if base in _OBJECTS), None)
    if describe is not None:
        return describe(obj)
    items = _items(obj)
    item_kinds = set(map(type, items))
    describe_all = _LISTS.get(item_kinds.pop()) if len(item_kinds) == 1 else None
    if describe_all is not None:
        return describe_all(items)
    if adapter_of_type(kind) is not None:
        return describe_module(obj)
    if isinstance(obj, list | tuple):
        return Group([_describe(item) for item in items])
    if isinstance(obj, Displayed):
        return Code([(Span(line),) for line in plain_lines(str(obj))])
    advice = "if it is a module, register an adapter for its type with register_adapter"
    if kind.__name__ == "ModelProto":  # the class of the package onnx, which passes do not work on
        advice = "convert it with onnx_ir.from_proto(model)"
    raise TypeError(
        f"view shows passes, plans, contexts, modules, outcomes and results of instruments, not {shorten(repr(obj))}; "
        f"{advice}"
    )


def _items(obj: object) -> list[object]:
    """Return the items of a list or the values of a mapping."""
    if isinstance(obj, Mapping):
        return list(cast("Mapping[object, object]", obj).values())
    return list(cast("Sequence[object]", obj)) if isinstance(obj, list | tuple) else []


_OBJECTS: Final[dict[type, Callable[[Any], Block]]] = {
    Bisected: describe_bisected,
    Diagnostic: lambda diagnostic: describe_diagnostics([diagnostic]),
    DiagnosticContext: describe_diagnostics,
    FunctionTimingInstrument: lambda timing: describe_functions(timing.slowest()),
    Outcome: describe_outcome,
    Pass: describe_pass,
    PassContext: describe_context,
    PassMemoryInstrument: lambda memory: describe_memory(memory.profile()),
    PassTimingInstrument: lambda timing: describe_timings(timing.profile()),
    PlannedPass: describe_plan,
    RemarksInstrument: lambda remarks: describe_remarks(remarks.remarks, remarks.dropped),
    ReportInstrument: describe_report,
    StatisticsInstrument: lambda statistics: describe_statistics(statistics.totals()),
}
"""How objects are shown, by their type or its nearest base class."""

_LISTS: Final[dict[type, Callable[[Any], Block]]] = {
    Diagnostic: describe_diagnostics,
    FunctionTiming: describe_functions,
    Outcome: describe_outcomes,
    PassMemory: describe_memory,
    PassStatistic: describe_statistics,
    PassTiming: describe_timings,
    Remark: describe_remarks,
}
"""How lists of results, and mappings to results, are shown, by the type of their items."""
