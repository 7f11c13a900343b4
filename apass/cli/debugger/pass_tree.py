"""`PassTree`: the passes that have run, that run, and that are to come, as a tree."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal, cast

from apass.core.context import PassContext
from apass.core.instrument import pass_instrument
from apass.core.run import Run
from apass.instruments.support.events import Event, EventInstrument
from apass.instruments.support.outcomes import is_cancellation
from apass.passes.base import Pass, is_enabled
from apass.passes.sequential import Sequential

__all__ = ["MARKS", "PassNode", "PassState", "PassTree"]

PassState = Literal["to come", "running", "waiting", "paused", "unchanged", "changed", "failed", "cancelled", "not run"]
"""What is known of a pass."""

MARKS: Final[dict[PassState, str]] = {
    "to come": "·",
    "running": ">",
    "waiting": "~",
    "paused": "‖",
    "unchanged": "=",
    "changed": "✓",
    "failed": "✗",
    "cancelled": "-",
    "not run": "-",
}
"""A character for each state."""


class PassNode:
    """A module, or a pass that runs on it."""

    __slots__ = ("above", "children", "label", "pass_", "run", "state")

    def __init__(self, above: "PassNode | None", label: str, state: PassState, pass_: Pass[Any] | None = None) -> None:
        self.above: Final = above
        """The pass or module around it; None for a module."""
        self.label: str = label
        """The name of the module, or that of the pass, and of the function whose body called it."""
        self.state: PassState = state
        """The state, without waits and pauses."""
        self.pass_: Final = pass_
        """The pass to come."""
        self.run: Run | None = None
        """The run of the pass; None for a module, and for a pass to come."""
        self.children: Final[list[PassNode]] = []
        """The passes within it, in the order in which they begin."""


@pass_instrument
class PassTree(EventInstrument):
    """Records the passes of each module as a tree.

    The passes of a Sequential are in the tree when it begins.

    Parameters:
        modules: the names of the modules, which are the first nodes.
        on_change: called with each node that is new or has another state.

    """

    not_for_worker: Final = "it shows the passes of this process"

    def __init__(self, modules: Collection[str] = (), on_change: Callable[[PassNode], object] = lambda _node: None):
        super().__init__(kinds=("started", "finished", "failed"), body_kinds=())
        self.roots: Final = {name: PassNode(None, name, "to come") for name in modules}
        """The modules by name."""
        self.on_change = on_change
        self._nodes: dict[Run, PassNode] = {}

    def node(self, run: Run) -> PassNode | None:
        """Return the node of a pass that runs."""
        return self._nodes.get(run)

    def end(self, module: str, *, failed: bool) -> None:
        """Record the end of a module."""
        root = self.roots[module]
        has_changed = any(node.state == "changed" for node in root.children)
        root.state = "failed" if failed else "changed" if has_changed else "unchanged"
        self.on_change(root)

    def handle(self, event: Event, subject: Any) -> None:
        """Add a pass that begins, and record the end of one that ends."""
        if event.run is None:
            return
        if event.kind == "started":
            self._begin(event.run)
            return
        node = self._nodes.pop(event.run, None)
        if node is None:
            return
        if event.error is not None and is_cancellation(event.error):
            # The slower passes of a Race are no failures.
            node.state = "cancelled"
        else:
            node.state = "failed" if event.kind == "failed" else "changed" if event.changed else "unchanged"
        self.on_change(node)
        for child in node.children:
            if child.state == "to come":
                child.state = "not run"
                self.on_change(child)

    def _begin(self, run: Run) -> None:
        above = self._above(run)
        pass_ = cast("Pass[Any] | None", run.pass_)
        to_come: Sequence[Pass[Any]] = pass_.passes if isinstance(pass_, Sequential) else ()
        for node in above.children:
            if node.state == "to come" and node.pass_ is pass_:
                break
        else:
            function = None if run.parent is None else run.parent.function
            node = PassNode(above, run.info.name + ("" if function is None else f" @{function}"), "to come", pass_)
            later = (index for index, other in enumerate(above.children) if other.state == "to come")
            above.children.insert(next(later, len(above.children)), node)
        node.state, node.run = "running", run
        self._nodes[run] = node
        self.on_change(node)
        ctx = PassContext.current()
        for child in to_come:
            if is_enabled(child, ctx):
                node.children.append(PassNode(node, child.info.name, "to come", child))
                self.on_change(node.children[-1])

    def _above(self, run: Run) -> PassNode:
        """Return the node of the caller, or of the module."""
        if run.parent is not None:
            node = self._nodes.get(run.parent.body_of or run.parent)
            if node is not None:
                return node
        name = run.module or "module"
        root = self.roots.get(name)
        if root is None:
            root = self.roots[name] = PassNode(None, name, "running")
        if root.state != "running":
            root.state = "running"
        self.on_change(root)
        return root
