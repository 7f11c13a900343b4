"""Passes that rewrite the nodes of a model by rules for their operators."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.editing import Editor, WouldChangeError
from apass.adapters.onnx.rewrites.facts import Facts, subgraphs
from apass.adapters.onnx.rewrites.growth import Growth
from apass.adapters.onnx.validation import quoted
from apass.errors import AdapterError, ApassError
from apass.util.text import short_reason

__all__ = ["ANY", "MAX_BYTES", "Context", "RewritePass", "Rule", "Rules"]

ANY: Final = "*"
"""The key of rules for every operator."""

MAX_BYTES: Final = 2**20
"""Default maximum size in bytes of one constant that is read or computed."""

MAX_TOTAL: Final = 16
"""All computed constants of a model have at most this many times the maximum size of one."""

MAX_ROUNDS: Final = 4
"""Maximum number of times that the rules are applied to one node."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule works with."""

    facts: Facts
    editor: Editor
    growth: Growth
    sizes: dict[object, ir.Value] = field(default_factory=dict[object, ir.Value])
    """Values that are computed from shapes, by what is known of them."""


Rule = Callable[[ir.Node, Context], bool]
"""Rewrites a node if it can; returns whether it did."""

Rules = Mapping[str, tuple[Rule, ...]]
"""Rules by the operator of the node, or under `ANY`."""


class RewritePass(ir.passes.InPlacePass):
    """Applies rules to all nodes of the main graph, its subgraphs and the functions.

    When a rule sees a node, the nodes before it are already rewritten. One pass over the model is usually enough. The
    nodes are sorted first if a node comes before one that it uses.

    Parameters:
        max_bytes: maximum size of one constant that is read or computed.

    """

    rules: ClassVar[Rules] = {}
    """Rules for each node."""
    first: ClassVar[Rules] = {}
    """Rules that apply before the subgraphs of a node are rewritten."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules in place.

        Raises:
            AdapterError: if a rule fails, as for a node without a required attribute.

        """
        modified = False
        for graph, is_main in _graphs(model):
            if not is_sorted(graph):
                graph.sort()
                modified = True
            facts = Facts(graph, self.max_bytes, self.max_bytes * MAX_TOTAL, is_main=is_main)
            editor = Editor(graph, facts, model.ir_version, is_main=is_main)
            if facts.version:
                self._sweep(graph, Context(facts, editor, Growth(facts)))
            modified |= editor.modified
            if editor.modified:
                editor.remove_unused_constants()
        return ir.passes.PassResult(model, modified)

    def may_change(self, model: ir.Model) -> bool:
        """Return whether `call` may change the model, without changing it.

        The rules are tried until one applies. It is false only if no rule applies, whatever the maximum size is.
        """
        for graph, is_main in _graphs(model):
            if not is_sorted(graph):
                return True
            facts = Facts(graph, self.max_bytes, self.max_bytes * MAX_TOTAL, is_main=is_main)
            editor = Editor(graph, facts, model.ir_version, is_main=is_main, dry=True)
            try:
                if facts.version:
                    self._sweep(graph, Context(facts, editor, Growth(facts)))
            except (WouldChangeError, AdapterError):  # `call` raises the error
                return True
            if facts.limited:
                return True
        return False

    def _sweep(self, graph: ir.Graph, context: Context) -> None:
        for node in graph:
            try:
                self._visit(node, context)
                while context.editor.added:
                    self._visit(context.editor.added.pop(0), context)
            except (WouldChangeError, ApassError):
                raise
            except Exception as error:
                # Rules read attributes and inputs that the operator requires, and a damaged model lacks.
                name = node.name or next((value.name for value in node.outputs if value.name), "without name")
                raise AdapterError(
                    f"node {quoted(name)} of the operator {quoted(node.op_type)} cannot be rewritten: "
                    f"{short_reason(error)}; check the model with onnx.Checker"
                ) from error

    def _visit(self, node: ir.Node, context: Context) -> None:
        context.facts.record(node)
        # A branch that is never taken is not worth rewriting.
        first = self.first.get(node.op_type, ()) if context.facts.knows(node) else ()
        if any(rule(node, context) for rule in first):
            return
        bodies = subgraphs(node)
        if bodies:
            context.facts.enter_bodies(node)
            for body in bodies:
                self._sweep(body, context)
            context.facts.leave_bodies(node)
        self._apply(node, context)

    def _apply(self, node: ir.Node, context: Context) -> None:
        if node.graph is None or not context.facts.knows(node):
            return
        for _ in range(MAX_ROUNDS):
            rules = (*self.rules.get(node.op_type, ()), *self.rules.get(ANY, ()))
            if node.graph is None or not any(rule(node, context) for rule in rules):
                return


def is_sorted(graph: ir.Graph) -> bool:
    """Return whether each node follows those that it uses, also in subgraphs.

    ONNX requires this order, but onnxruntime does not.
    """
    seen: set[ir.Node] = set()
    return all(_are_seen(item, seen) for item in [graph, *graph.subgraphs()])


def _are_seen(graph: ir.Graph, seen: set[ir.Node]) -> bool:
    for node in graph:
        for value in node.inputs:
            before = None if value is None else value.producer()
            if before is not None and before not in seen and before.graph is graph:
                return False
        seen.add(node)
    return True


def _graphs(model: ir.Model) -> Iterator[tuple[ir.Graph, bool]]:
    """Iterate over the main graph (True) and the graphs of functions (False)."""
    yield model.graph, True
    for function in model.functions.values():
        yield function.graph, False
