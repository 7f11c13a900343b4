"""`Remark`: what a pass has to say of one place in a module: done, left undone and why, or found out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Self

from apass.core.diagnostics import Span
from apass.core.run import Run

__all__ = ["Remark", "RemarkKind"]


class RemarkKind(Enum):
    """What a remark is about, in LLVM's words."""

    PASSED = "passed"
    """The pass did it."""
    MISSED = "missed"
    """The pass would have done it, but something stood in the way."""
    ANALYSIS = "analysis"
    """What the pass found out."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One remark. Source: LLVM's optimization remarks.

    >>> Remark.missed("TooBig", "not inlined: 120 nodes, at most 100", size=120).kind
    <RemarkKind.MISSED: 'missed'>
    """

    kind: RemarkKind
    """Whether something was done, was not, or was found out."""
    name: str
    """What kind of thing, in CamelCase, the same each time: "Inlined", "TooBig"."""
    message: str
    """What there is to say, in a line."""
    span: Span | None = None
    """The place in the source that it is about, if there is one."""
    args: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """The values in it, for those who count: strings, numbers, booleans."""
    pass_name: str | None = None
    """The name of the pass; `ctx.remark` fills it in."""
    function: str | None = None
    """The name of the function at work; `ctx.remark` fills it in."""
    module: str | None = None
    """The name of the module at work; `ctx.remark` fills it in."""

    @classmethod
    def passed(cls, name: str, message: str, span: Span | None = None, **args: object) -> Self:
        """Return a remark on what the pass did."""
        return cls(RemarkKind.PASSED, name, message, span, MappingProxyType(args))

    @classmethod
    def missed(cls, name: str, message: str, span: Span | None = None, **args: object) -> Self:
        """Return a remark on what the pass would have done."""
        return cls(RemarkKind.MISSED, name, message, span, MappingProxyType(args))

    @classmethod
    def analysis(cls, name: str, message: str, span: Span | None = None, **args: object) -> Self:
        """Return a remark on what the pass found out."""
        return cls(RemarkKind.ANALYSIS, name, message, span, MappingProxyType(args))

    def made_by(self, run: Run | None) -> "Remark":
        """Return the remark with the origin that it does not name filled in from `run`."""
        if run is None:
            return self
        return replace(
            self,
            pass_name=self.pass_name or run.info.name,
            function=self.function or run.function,
            module=self.module or run.module,
        )
