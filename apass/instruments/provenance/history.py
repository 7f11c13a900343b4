"""`Provenance`: the passes that touched each function and node of a module."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from apass.core.displayed import Displayed
from apass.core.position import Position
from apass.errors import UnknownNodeError, did_you_mean
from apass.instruments.provenance.matching import Evidence
from apass.util.printable import printable

__all__ = ["FunctionHistory", "NodeHistory", "Provenance", "Touch"]

_FROM_INPUT: Final = "from the input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """What one pass did to a node or to a function."""

    position: Position
    """The position of the pass."""
    kind: Literal["made", "changed", "removed"]
    """What it did."""
    text: str = ""
    """The node afterwards, or before it was removed; empty for a function."""
    evidence: Evidence | None = None
    """Why a changed node is taken for the same one; None otherwise, and for a function."""
    former: str = ""
    """The name before, if the pass changed it."""

    @property
    def pass_name(self) -> str:
        """The name of the pass."""
        return self.position.steps[-1][1]

    def as_json(self) -> dict[str, Any]:
        """Return the touch as JSON values."""
        values: dict[str, Any] = {"kind": self.kind, "pass": self.pass_name, "path": self.position.text}
        if self.text:
            values["text"] = self.text
        if self.evidence:
            values["matched_by"] = self.evidence
        if self.former:
            values["former_name"] = self.former
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHistory:
    """The passes that touched one node."""

    function: str
    """The name of its function."""
    name: str
    """Its name, which is the last one that it had."""
    results: tuple[str, ...]
    """The names of the values that it makes."""
    text: str
    """The node as one line, such as `y = Conv(x, w)`."""
    touches: tuple[Touch, ...]
    """What passes did to it, in order; empty if no pass touched it."""

    @property
    def is_removed(self) -> bool:
        """Whether a pass removed it."""
        return bool(self.touches) and self.touches[-1].kind == "removed"

    @property
    def is_original(self) -> bool:
        """Whether it was in the input of the first pass."""
        return not self.touches or self.touches[0].kind != "made"

    @property
    def last(self) -> Touch | None:
        """The last touch, or None if no pass touched it."""
        return self.touches[-1] if self.touches else None

    @property
    def summary(self) -> str:
        """The passes that touched it, such as `made by Fold; changed by Fuse`."""
        return _summary(self.touches)

    def as_json(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        return {
            "function": self.function,
            "name": self.name,
            "text": self.text,
            "original": self.is_original,
            "removed": self.is_removed,
            "touches": [touch.as_json() for touch in self.touches],
        }

    def render(self) -> str:
        """Return the node and its touches, one in each line."""
        first = f"{printable(self.name)}  in {printable(self.function)}"
        return "\n".join([first, f"  {printable(self.text)}", *_lines(self.touches)])


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionHistory:
    """The passes that touched one function, and its nodes."""

    name: str
    """Its name."""
    touches: tuple[Touch, ...]
    """What passes did to it, in order; empty if no pass touched it."""
    nodes: tuple[NodeHistory, ...]
    """Its nodes in order, then those that were removed. There are none if the adapter of the IR does not list nodes."""

    @property
    def is_removed(self) -> bool:
        """Whether a pass removed it."""
        return bool(self.touches) and self.touches[-1].kind == "removed"

    def as_json(self) -> dict[str, Any]:
        """Return the history of the function and of its nodes as JSON values."""
        return {
            "name": self.name,
            "removed": self.is_removed,
            "touches": [touch.as_json() for touch in self.touches],
            "nodes": [node.as_json() for node in self.nodes],
        }


@dataclass(frozen=True, slots=True)
class Provenance(Displayed):
    """For each function and each node of a module, the passes that touched it.

    A position identifies the pass: `0:sequential/2:Fold` is the third pass of a Sequential.
    """

    module: str
    """The name of the module."""
    functions: tuple[FunctionHistory, ...]
    """The functions in order, then those that were removed."""

    def nodes(self, function: str | None = None, *, removed: bool = True) -> Iterator[NodeHistory]:
        """Iterate over the nodes of all functions, or of one.

        Parameters:
            function: the name of the function; None for all.
            removed: whether to include removed nodes.

        """
        for history in self.functions:
            if function is None or history.name == function:
                yield from (node for node in history.nodes if removed or not node.is_removed)

    def function(self, name: str) -> FunctionHistory:
        """Return the history of a function.

        Raises:
            UnknownNodeError: if no module of the run had such a function.

        """
        for history in self.functions:
            if history.name == name:
                return history
        names = [history.name for history in self.functions]
        hint = did_you_mean(name, names, listing="its functions: ")
        raise UnknownNodeError(f"module {self.module!r} has no function {name!r}{hint}")

    def find(self, name: str, function: str | None = None) -> Sequence[NodeHistory]:
        """Return the nodes of a name, or that make a value of this name.

        Several functions may have a node of one name. Removed nodes come last. If no node has the name, those that had
        it before a pass renamed them are returned.

        Raises:
            UnknownNodeError: if there is none; the message suggests near names.

        """
        if function is not None:
            self.function(function)
        nodes = list(self.nodes(function))
        found = [node for node in nodes if name == node.name or name in node.results]
        if not found:
            found = [node for node in nodes if any(touch.former == name for touch in node.touches)]
        if found:
            return sorted(found, key=lambda node: node.is_removed)
        names = dict.fromkeys(known for node in nodes for known in (node.name, *node.results))
        where = f"module {self.module!r}" if function is None else f"function {function!r}"
        if not names:
            raise UnknownNodeError(f"{where} has no nodes: it is empty, or its adapter lists functions only")
        raise UnknownNodeError(f"{where} has no node {name!r}{did_you_mean(name, names, listing='its nodes: ')}")

    def as_json(self) -> dict[str, Any]:
        """Return the histories as JSON values."""
        return {"version": 1, "module": self.module, "functions": [func.as_json() for func in self.functions]}

    def render(self, *, function: str | None = None, removed: bool = False) -> str:
        """Return a line for each function and node, with the passes that touched it.

        Parameters:
            function: the name of the function; None for all.
            removed: whether to include removed functions and nodes.

        """
        chosen = self.functions if function is None else (self.function(function),)
        lines: list[str] = []
        for history in chosen:
            if history.is_removed and not removed:
                continue
            lines.append(f"{printable(history.name)}: {_summary(history.touches)}")
            # A line break in a name could forge a line.
            nodes = [(printable(node.name), node) for node in history.nodes if removed or not node.is_removed]
            width = max((len(name) for name, _ in nodes), default=0)
            lines += (f"  {name:<{width}}  {_summary(node.touches)}" for name, node in nodes)
        return "\n".join(lines)


def _summary(touches: Sequence[Touch]) -> str:
    """Return which pass made something, and which changed or removed it."""
    # A function may be made in place of a removed one of its name, as by a conversion to another IR.
    start = max((index for index, touch in enumerate(touches) if touch.kind == "made"), default=0)
    touches = touches[start:]
    parts: list[str] = []
    for kind in ("made", "changed", "removed"):
        passes = dict.fromkeys(touch.pass_name for touch in touches if touch.kind == kind)
        if passes:
            parts.append(f"{kind} by {', '.join(passes)}")
        elif kind == "made":
            parts.append(_FROM_INPUT)
    return "; ".join(parts)


def _lines(touches: Sequence[Touch]) -> Iterator[str]:
    """Iterate over the lines of a detailed history."""
    if not touches or touches[0].kind != "made":
        yield f"  {_FROM_INPUT}"
    width = max((len(touch.position.text) for touch in touches), default=0)
    for touch in touches:
        former = f", was {printable(touch.former)}" if touch.former else ""
        evidence = f"  (matched by {touch.evidence}{former})" if touch.evidence else ""
        yield f"  {touch.kind:<7} by {touch.position.text:<{width}}  {printable(touch.text)}{evidence}"
