"""`view` and `diff`: displays of objects, for notebooks and terminals.

An object describes itself as blocks (`apass.display.blocks`) by a method `__block__`. A class whose lists are shown as
a whole, such as the rows of a table, has a class method `__block_of__`, which gets the items. Modules of an IR need
neither: they are described here, by their adapter.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from apass.core.adapter import adapter_for, adapter_of_type, text_parts
from apass.core.module_diff import ModuleDiff
from apass.display.blocks import Block, Code, Fold, Group, Span
from apass.display.highlight import MAX_LINES, highlight_diff, highlight_ir, plain_lines
from apass.display.view import View, not_shown
from apass.util.text import count_of
from apass.util.text_diff import diff_texts, limit_lines

__all__ = ["diff", "diff_block", "module_block", "module_or_text", "view"]

MAX_FUNCTIONS: Final = 100
"""The number of functions that are shown of a module."""
_ALL_LINES: Final = 5_000
"""The number of lines that are shown of a module."""
_FEW_LINES: Final = 60
"""A module with up to this many lines is shown unfolded."""


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
    return View(_block_of(obj))


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
    return View(diff_block(before, after, context))


def _block_of(obj: object) -> Block:
    described: Any = obj
    if hasattr(type(obj), "__block__"):
        return cast("Block", described.__block__())
    items = _items(obj)
    # Before adapters: a dict of outcomes is shown as outcomes, although a dict can be a module.
    kinds = set(map(type, items))
    kind: Any = kinds.pop() if len(kinds) == 1 else None
    if hasattr(kind, "__block_of__"):
        return cast("Block", kind.__block_of__(items))
    if adapter_of_type(type(obj)) is not None:
        return module_block(obj)
    if isinstance(obj, list | tuple):
        return Group([_block_of(item) for item in items])
    raise not_shown(obj)


def _items(obj: object) -> list[object]:
    """Return the items of a list or the values of a mapping."""
    if isinstance(obj, Mapping):
        return list(cast("Mapping[object, object]", obj).values())
    return list(cast("Sequence[object]", obj)) if isinstance(obj, list | tuple) else []


def module_or_text(obj: object) -> Block:
    """Return the functions of a module; for an object without an adapter, its `str`."""
    if adapter_of_type(type(obj)) is not None:
        return module_block(obj)
    return Code([(Span(line),) for line in plain_lines(str(obj))])


def module_block(mod: Any) -> Block:
    """Return the text of a module: a heading, and a fold for each function."""
    adapter = adapter_for(mod)
    names = [name for name, _ in adapter.functions(mod)]
    outside, texts = text_parts(adapter, mod, names[:MAX_FUNCTIONS])
    parts = {"": outside.strip("\n"), **{name: texts[name].strip("\n") for name in names[:MAX_FUNCTIONS]}}
    lines = {name: text.count("\n") + 1 for name, text in parts.items() if text}
    limit = _line_limit(lines.values())
    blocks: list[Block] = []
    short: list[str] = []
    for name, count in lines.items():
        text = limit_lines(parts[name], limit)
        # Functions of one line each, such as declarations, are shown without folds.
        if count == 1:
            short.append(text)
            continue
        blocks += _unfolded(short)
        short.clear()
        title = (Span(name, "name"), Span(f"  {count_of(count, 'line')}", "muted"))
        blocks.append(
            Fold(title, highlight_ir(text), sum(lines.values()) <= _FEW_LINES) if name else highlight_ir(text)
        )
    blocks += _unfolded(short)
    if len(names) > MAX_FUNCTIONS:
        blocks.append((Span(f"... and {count_of(len(names) - MAX_FUNCTIONS, 'more function')}", "muted"),))
    return Fold(
        (Span(type(mod).__name__, "name"), Span(f"  {count_of(len(names), 'function')}", "muted")), Group(blocks)
    )


def _unfolded(texts: Iterable[str]) -> list[Code]:
    """Return the texts of functions that have one line each as one block, or none."""
    text = "\n".join(texts)
    return [highlight_ir(text)] if text else []


def _line_limit(counts: Collection[int]) -> int:
    """Return how many lines are shown of each part, given the lines of all parts."""
    return MAX_LINES if sum(counts) <= _ALL_LINES else min(MAX_LINES, _ALL_LINES // len(counts))


def diff_block(before: Any, after: Any, context: int) -> Block:
    """Return the difference of two modules: a fold for each function that changed."""
    pairs = ModuleDiff.of(before, after).pairs
    diffs = {name: diff_texts(*pair, context=context) for name, pair in pairs.items()}
    changed = {name: diff for name, diff in diffs.items() if diff}
    if not changed:
        return (Span("the texts of the modules are equal", "muted"),)
    limit = _line_limit([diff.count("\n") + 1 for diff in islice(changed.values(), MAX_FUNCTIONS)])
    folds: list[Block] = []
    for name, diff in islice(changed.items(), MAX_FUNCTIONS):
        signs = [line[:1] for line in diff.splitlines()]
        title = (
            Span("outside of functions" if name is None else name, "name"),
            Span(f"  +{signs.count('+')}", "good"),
            Span(f" -{signs.count('-')}", "bad"),
        )
        folds.append(Fold(title, highlight_diff(limit_lines(diff, limit))))
    if len(changed) > MAX_FUNCTIONS:
        folds.append((Span(f"... and {count_of(len(changed) - MAX_FUNCTIONS, 'more function')}", "muted"),))
    return Group(folds)
