"""The widgets of the debugger: the tree of passes, the tasks, and a prompt."""

from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Input, Static, Tree
from textual.widgets.tree import TreeNode

from apass.cli.debugger.pass_tree import MARKS, PassNode, PassState, PassTree
from apass.core.run import Run
from apass.instruments.live_view import waiting_text
from apass.instruments.pause.pause import Pause
from apass.instruments.support.activity import ActiveRun
from apass.util.printable import printable

__all__ = ["Notice", "PassTreeView", "Prompt", "TaskTable"]

_STYLES: Final[dict[PassState, str]] = {
    "to come": "dim",
    "running": "",
    "waiting": "yellow",
    "paused": "bold reverse",
    "unchanged": "",
    "changed": "green",
    "failed": "red",
    "cancelled": "dim",
    "not run": "dim",
}


class PassTreeView(Tree[PassNode]):
    """The tree of passes of all modules, each with the mark of its state."""

    def __init__(self, tree: PassTree, *, id: str) -> None:  # noqa: A002  the name that Textual uses
        super().__init__("modules", id=id)
        self.show_root = False
        self.guide_depth = 2
        self._model: Final = tree
        self._shown: dict[PassNode, TreeNode[PassNode]] = {}
        self._marked: dict[PassNode, PassState] = {}
        """The nodes that wait or are paused."""
        self._changed: dict[PassNode, None] = {}
        """The nodes to draw, in order."""

    def on_mount(self) -> None:
        """Show the modules, and follow the changes."""
        self._model.on_change = self._note
        self._changed.update(dict.fromkeys(self._model.roots.values()))
        self._draw()

    def show(self, paused: Collection[Run], active: Iterable[ActiveRun]) -> None:
        """Draw what has changed, and mark the passes that wait or are paused."""
        marked: dict[PassNode, PassState] = {}
        for item in active:
            node = self._model.node(item.run.body_of or item.run)
            if node is not None and (item.waits_for or waiting_text(item) != "runs"):
                marked[node] = "waiting"
        for run in paused:
            if (node := self._model.node(run)) is not None:
                marked[node] = "paused"
        for node in {**self._marked, **marked}:
            if self._marked.get(node) != marked.get(node):
                self._changed[node] = None
        self._marked = marked
        self._draw()

    def select(self, run: Run) -> None:
        """Move the cursor to a pass that runs."""
        node = self._model.node(run)
        if node is not None:
            self._changed[node] = None
            self._draw()
            self.move_cursor(self._shown[node])

    def _note(self, node: PassNode) -> None:
        self._changed[node] = None

    def _draw(self) -> None:
        changed, self._changed = list(self._changed), {}
        for node in changed:
            self._shown_node(node).set_label(self._label(node))

    def _shown_node(self, node: PassNode) -> TreeNode[PassNode]:
        shown = self._shown.get(node)
        if shown is None:
            if node.above is None:
                shown = self.root.add(self._label(node), node, expand=True, allow_expand=False)
            else:
                above = self._shown_node(node.above)
                above.allow_expand = True
                # A pass may begin before others that are shown already.
                following = node.above.children[node.above.children.index(node) + 1 :]
                before = next((self._shown[other] for other in following if other in self._shown), None)
                shown = above.add(self._label(node), node, before=before, expand=True, allow_expand=False)
            self._shown[node] = shown
        return shown

    def _label(self, node: PassNode) -> Text:
        state = self._marked.get(node, node.state)
        return Text(f"{MARKS[state]} {printable(node.label)}", style=_STYLES[state])


class TaskTable(DataTable[Text]):
    """The passes and functions that run, and what they wait for."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  the name that Textual uses
        super().__init__(id=id, cursor_type="none", show_cursor=False)

    def on_mount(self) -> None:
        """Add the columns."""
        self.add_columns("module", "task", "now")

    def show(self, paused: Mapping[Run, Pause], active: Iterable[ActiveRun]) -> None:
        """Show the running passes and functions; the longest wait comes first."""
        self.clear()
        rows = list(active)
        self.display = bool(rows)
        for item in rows:
            run = item.run
            task = run.info.name + ("" if run.function is None else f"@{run.function}")
            self.add_row(Text(printable(run.module or "")), Text(printable(task)), _state(item, run in paused))


def _state(item: ActiveRun, is_paused: bool) -> Text:
    if is_paused:
        return Text("paused", style="bold")
    text = waiting_text(item)
    if text == "runs" and item.waits_for:
        text = f"waits for {printable(', then '.join(item.waits_for))}"
    return Text(text, style="green" if text == "runs" else "yellow")


class Prompt(ModalScreen[str | None]):
    """Asks for a line of text; the result is None after Escape."""

    CSS = """
    Prompt { align: center bottom; }
    Prompt > Vertical { height: auto; background: $surface; border-top: solid $primary; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "cancel")]

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question: Final = question
        self._value: Final = value

    def compose(self) -> ComposeResult:
        """Create the question and the line."""
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the line."""
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        """Return nothing."""
        self.dismiss(None)


class Notice(ModalScreen[None]):
    """Shows a text until Escape."""

    CSS = """
    Notice { align: center bottom; }
    Notice > Static { background: $surface; border-top: solid $primary; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "close")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text: Final = text

    def compose(self) -> ComposeResult:
        """Create the text."""
        yield Static(self._text, markup=False)
