"""Blocks of passes, pipelines, plans and contexts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from apass.core.context import PassContext
from apass.core.instrument import instrument_name
from apass.core.named_callables import value_text
from apass.display.blocks import Block, Fold, Group, Line, Row, Span, Style, Table, Tree
from apass.display.highlight import highlight_diagnostics
from apass.passes.base import Pass
from apass.passes.combinator import Combinator
from apass.passes.conditional import If
from apass.passes.sequential import Sequential
from apass.pipelines.plan import Decision, PlannedPass
from apass.util.text import count_of, shorten

__all__ = ["describe_context", "describe_pass", "describe_plan"]

_DECISIONS: Final[dict[Decision, Style]] = {Decision.RUN: "good", Decision.MAYBE: "warning", Decision.SKIP: "muted"}

_INFO_OPTIONS: Final = frozenset({"opt_level", "name", "required", "otherwise"})
"""Options of combinators that a tree shows in another way."""


def describe_pass(pass_: Pass[Any]) -> Tree:
    """Return a tree of a pass and of the passes that it contains."""
    inner = pass_.passes if isinstance(pass_, If) else pass_.children()
    children = [describe_pass(child) for child in inner]
    if isinstance(pass_, If) and pass_.otherwise:
        children.append(Tree((Span("otherwise", "muted"),), [describe_pass(child) for child in pass_.otherwise]))
    return Tree(tuple(_label(pass_)), children)


def _label(pass_: Pass[Any]) -> Iterator[Span]:
    info = pass_.info
    yield Span(info.name, "name")
    kind = type(pass_).__name__
    if kind.lower() != info.name.lower():
        yield Span(f"  {kind}", "muted")
    yield Span(f"  level {info.opt_level}", "number")
    if info.required:
        yield Span("  requires ", "muted")
        yield Span(", ".join(info.required), "variable")
    is_combinator = isinstance(pass_, Sequential | Combinator)
    options = () if pass_.spec is None else pass_.spec[1].items()
    for key, value in options:
        if key not in _INFO_OPTIONS or not is_combinator:
            yield Span(f"  {key}=", "muted")
            yield Span(shorten(_value(value), 80))
    # The docstring of a combinator describes all of them, not this one.
    summary = "" if is_combinator else (pass_.__doc__ or "").strip().partition("\n")[0]
    if summary:
        yield Span(f"  {shorten(summary, 100)}", "comment")


def _value(value: object) -> str:
    try:
        return value_text(value)
    except TypeError:
        return getattr(value, "__qualname__", None) or repr(value)


def describe_plan(planned: PlannedPass) -> Tree:
    """Return a tree of what would run, and why."""
    name: Style = "muted" if planned.decision is Decision.SKIP else "name"
    label: Line = (
        Span(f"{planned.decision.value:<5} ", _DECISIONS[planned.decision]),
        Span(planned.info.name, name),
        Span(f"  level {planned.info.opt_level}", "number"),
    )
    reason = (Span(f"  {planned.reason}", "muted"),) if planned.reason else ()
    return Tree(label + reason, [describe_plan(child) for child in planned.children])


def describe_context(ctx: PassContext) -> Block:
    """Return a table of what is set in a context, and the pending diagnostics."""
    instruments = [instrument_name(instrument) for instrument in ctx.instruments]
    settings: Mapping[str, object] = {
        "opt_level": ctx.opt_level,
        "required_pass": ", ".join(sorted(ctx.required_pass)),
        "disabled_pass": ", ".join(sorted(ctx.disabled_pass)),
        "instruments": ", ".join(instruments),
        **{f"config[{key!r}]": repr(value) for key, value in ctx.config.items()},
        "max_concurrency": ctx.max_concurrency,
        "executor": ctx.executor,
        "deadline": None if ctx.deadline is None else f"{ctx.deadline:g} s",
        "store": ctx.store,
        "strict": ctx.strict or "",
    }
    rows = [
        Row([(Span(key, "name"),), (Span(shorten(str(value), 200)),)])
        for key, value in settings.items()
        if value not in (None, "")
    ]
    table = Fold((Span("PassContext", "name"),), Table(["setting", "value"], rows))
    if not ctx.diag_ctx.diagnostics:
        return table
    title = (Span(count_of(len(ctx.diag_ctx.diagnostics), "pending diagnostic"), "warning"),)
    return Group([table, Fold(title, highlight_diagnostics(ctx.diag_ctx))])
