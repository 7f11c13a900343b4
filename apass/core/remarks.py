"""`Remark`: a report of a pass about one location in a module."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Self

from apass.core.diagnostics import Span

# A second name: `__block_of__` imports the `Span` of a display.
from apass.core.diagnostics import Span as SourceSpan
from apass.core.run import Run
from apass.util.text import shorten

__all__ = ["Remark", "RemarkKind"]


class RemarkKind(Enum):
    """The kind of a remark, with LLVM's names."""

    PASSED = "passed"
    """The pass applied an optimization."""
    MISSED = "missed"
    """The pass could not apply an optimization."""
    ANALYSIS = "analysis"
    """The pass reports a fact about the module."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark of a pass. Source: LLVM's optimization remarks.

    >>> Remark.missed("TooBig", "not inlined: 120 nodes, at most 100", size=120).kind
    <RemarkKind.MISSED: 'missed'>
    """

    kind: RemarkKind
    """Passed, missed or analysis."""
    name: str
    """A constant identifier in CamelCase, such as "Inlined" or "TooBig"."""
    message: str
    """The text, in one line."""
    span: Span | None = None
    """The location in the source, if known."""
    args: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """The values in the message, for programs: strings, numbers, booleans."""
    pass_name: str | None = None
    """The name of the pass; `ctx.remark` fills it in."""
    function: str | None = None
    """The name of the current function; `ctx.remark` fills it in."""
    module: str | None = None
    """The name of the current module; `ctx.remark` fills it in."""

    @classmethod
    def __block_of__(cls, items: Sequence["Remark"]) -> object:
        # The blocks take long to import, and most programs show none.
        from apass.display.blocks import Line, Row, Span, Style, Table, limited

        styles: dict[RemarkKind, Style] = {
            RemarkKind.PASSED: "good",
            RemarkKind.MISSED: "warning",
            RemarkKind.ANALYSIS: "note",
        }

        def location(span: SourceSpan | None) -> Line:
            return () if span is None else (Span(f"  {span.source_name}:{span.line}:{span.column}", "muted"),)

        if not items:
            return (Span("no pass made a remark", "muted"),)
        rows = [
            Row(
                [
                    (Span(remark.kind.value, styles[remark.kind]),),
                    (Span(remark.name, "name"),),
                    (Span(remark.pass_name or ""),),
                    (Span(":".join(filter(None, (remark.module, remark.function)))),),
                    (Span(shorten(remark.message)), *location(remark.span)),
                ]
            )
            for remark in items
        ]
        return limited(Table(["kind", "remark", "pass", "function", "message"], rows))

    @classmethod
    def passed(cls, name: str, message: str, span: Span | None = None, **args: object) -> Self:
        """Return a remark about an optimization that was applied."""
        return cls(RemarkKind.PASSED, name, message, span, MappingProxyType(args))

    @classmethod
    def missed(cls, name: str, message: str, span: Span | None = None, **args: object) -> Self:
        """Return a remark about an optimization that was not possible."""
        return cls(RemarkKind.MISSED, name, message, span, MappingProxyType(args))

    @classmethod
    def analysis(cls, name: str, message: str, span: Span | None = None, **args: object) -> Self:
        """Return a remark about a fact."""
        return cls(RemarkKind.ANALYSIS, name, message, span, MappingProxyType(args))

    def made_by(self, run: Run | None) -> "Remark":
        """Return the remark with its missing names of pass, function and module."""
        if run is None:
            return self
        # Names that the pass has set stay: a remark of an inner compiler may be about a pass of its own.
        return replace(
            self,
            pass_name=self.pass_name or run.info.name,
            function=self.function or run.function,
            module=self.module or run.module,
        )
