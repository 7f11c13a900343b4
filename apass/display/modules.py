"""Blocks of modules and of their differences."""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any, Final

from apass.core.adapter import adapter_for, text_parts
from apass.display.blocks import Block, Code, Fold, Group, Span
from apass.display.highlight import MAX_LINES, highlight_diff, highlight_ir
from apass.instruments.support.module_diff import ModuleDiff
from apass.util.text import count_of
from apass.util.text_diff import diff_texts, limit_lines

__all__ = ["describe_diff", "describe_module"]

MAX_FUNCTIONS: Final = 100
"""The number of functions that are shown of a module."""
_ALL_LINES: Final = 5_000
"""The number of lines that are shown of a module."""
_FEW_LINES: Final = 60
"""A module with up to this many lines is shown unfolded."""


def describe_module(mod: Any) -> Block:
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


def describe_diff(before: Any, after: Any, context: int) -> Block:
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
