"""The nodes of a module, with the passes that touched them so far."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apass.adapters.nodes import Node, nodes_of
from apass.core.adapter import adapter_for, exact_fingerprint
from apass.core.position import Position
from apass.instruments.provenance.history import FunctionHistory, NodeHistory, Provenance, Touch
from apass.instruments.provenance.matching import Matching, match_nodes
from apass.util.text import shorten

__all__ = ["Snapshot"]

_LONGEST: Final = 200
"""Maximum number of characters of a node's text in a history."""

Touches = tuple[Touch, ...]


@dataclass(frozen=True, slots=True)
class _Function:
    """One function of a snapshot."""

    nodes: tuple[Node, ...]
    """Its nodes."""
    chains: tuple[Touches, ...]
    """The touches of each node."""
    touches: Touches
    """The touches of the function."""
    removed: tuple[NodeHistory, ...] = ()
    """Its nodes that were removed."""
    is_removed: bool = False
    """Whether the function itself was removed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The nodes of a module at one point of its pipeline.

    It does not refer to the module or its functions: an operation of xDSL keeps its whole module alive.
    """

    key: str
    """The name of the module in results."""
    functions: Mapping[str, _Function]
    """The functions, and those that were removed."""

    @classmethod
    def of(cls, key: str, mod: Any) -> "Snapshot":
        """Return the snapshot of a module that no pass has touched."""
        adapter = adapter_for(mod)
        functions: dict[str, _Function] = {}
        for name, func in adapter.functions(mod):
            nodes = nodes_of(adapter, func)
            functions[name] = _Function(nodes, ((),) * len(nodes), ())
        return cls(key, functions)

    def after(self, before: Any, mod: Any, position: Position) -> "Snapshot":
        """Return the snapshot of the module that a pass made of this one.

        Parameters:
            before: the module of this snapshot.
            mod: the result of the pass.
            position: the position of the pass.

        """
        adapter, old_adapter = adapter_for(mod), adapter_for(before)
        old_funcs = dict(old_adapter.functions(before))
        functions: dict[str, _Function] = {}
        for name, func in adapter.functions(mod):
            old = self.functions.get(name)
            # Nodes of different IRs are never the same.
            if old is None or old.is_removed or adapter is not old_adapter:
                nodes = nodes_of(adapter, func)
                chains = tuple((Touch(position=position, kind="made", text=_line(node)),) for node in nodes)
                new = _Function(nodes, chains, (Touch(position=position, kind="made"),))
                functions[name] = new if old is None else _with_past(new, _removed(name, old, position))
            elif old_funcs[name] is func:
                functions[name] = old
            else:
                functions[name] = _changed(adapter, name, old, old_funcs[name], func, position)
        for name, old in self.functions.items():
            if name not in functions:
                functions[name] = _removed(name, old, position)
        return Snapshot(self.key, functions)

    def provenance(self) -> Provenance:
        """Return the histories, without the nodes themselves."""
        return Provenance(
            self.key,
            tuple(
                FunctionHistory(name=name, touches=part.touches, nodes=tuple(_histories(name, part)))
                for name, part in sorted(self.functions.items(), key=lambda item: item[1].is_removed)
            ),
        )


def _removed(name: str, old: _Function, position: Position) -> _Function:
    """Return a function without its nodes."""
    if old.is_removed:
        return old
    removed = tuple(_past(name, node, chain, position) for node, chain in zip(old.nodes, old.chains, strict=True))
    touches = (*old.touches, Touch(position=position, kind="removed"))
    return _Function((), (), touches, (*old.removed, *removed), is_removed=True)


def _with_past(new: _Function, old: _Function) -> _Function:
    """Return a function that replaces a removed one of the same name."""
    return _Function(new.nodes, new.chains, (*old.touches, *new.touches), old.removed)


def _changed(adapter: Any, name: str, old: _Function, old_func: Any, func: Any, position: Position) -> _Function:
    nodes = nodes_of(adapter, func)
    matching = match_nodes(old.nodes, nodes)
    chains = tuple(_chain(old, node, index, matching, position) for index, node in enumerate(nodes))
    kept = {other for other, _ in matching.pairs.values()}
    removed = tuple(
        _past(name, node, old.chains[index], position) for index, node in enumerate(old.nodes) if index not in kept
    )
    # Most changes of a function are changes of nodes. Fingerprints of functions take longer.
    is_touched = (
        bool(removed or matching.changed)
        or len(matching.pairs) < len(nodes)
        or exact_fingerprint(adapter, old_func) != exact_fingerprint(adapter, func)
    )
    touches = (*old.touches, Touch(position=position, kind="changed")) if is_touched else old.touches
    return _Function(nodes, chains, touches, (*old.removed, *removed))


def _chain(old: _Function, node: Node, index: int, matching: Matching, position: Position) -> Touches:
    """Return the touches of a node after a pass."""
    if index not in matching.pairs:
        return (Touch(position=position, kind="made", text=_line(node)),)
    other, evidence = matching.pairs[index]
    past = old.chains[other]
    if index not in matching.changed:
        return past
    before = old.nodes[other]
    former = before.name if before.is_named and before.name != node.name else ""
    return (*past, Touch(position=position, kind="changed", text=_line(node), evidence=evidence, former=former))


def _past(function: str, node: Node, chain: Touches, position: Position) -> NodeHistory:
    """Return the history of a node that a pass removed."""
    text = _line(node)
    touch = Touch(position=position, kind="removed", text=text)
    return NodeHistory(function=function, name=node.name, results=node.results, text=text, touches=(*chain, touch))


def _histories(name: str, part: _Function) -> Iterator[NodeHistory]:
    for node, chain in zip(part.nodes, part.chains, strict=True):
        yield NodeHistory(function=name, name=node.name, results=node.results, text=_line(node), touches=chain)
    yield from part.removed


def _line(node: Node) -> str:
    return shorten(str(node), _LONGEST)
