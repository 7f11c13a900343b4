"""`DebuggerApp`: the screen of `apass debug`, and its keys."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

from anyio import create_task_group

from apass.cli.debugger.editing import Edited, edit_module, editor_command, run_editor
from apass.cli.debugger.session import DebugSession
from apass.core.adapter import adapter_for, run_in_thread_if_safe
from apass.core.view import diff_block, module_block
from apass.display.blocks import Block
from apass.errors import ApassError, MissingExtraError
from apass.instruments.pause.pause import Pause
from apass.util.printable import printable
from apass.util.text import count_of, text_of_error

try:
    from rich.console import RenderableType
    from rich.text import Text
    from textual import events
    from textual.app import App, ComposeResult, SuspendNotSupported
    from textual.binding import Binding, BindingType
    from textual.containers import Horizontal, ScrollableContainer
    from textual.widgets import Footer, RichLog, Static, TabbedContent, TabPane

    from apass.cli.debugger.widgets import Notice, PassTreeView, Prompt, TaskTable
    from apass.display.terminal import render_rich
except ModuleNotFoundError as _error:
    raise MissingExtraError(f"the debugger needs textual ({_error}): pip install 'apass[debug]'") from _error

__all__ = ["DebuggerApp"]

_REFRESH: Final = 0.25
"""Seconds between two updates of the waits."""
_CONTEXT: Final = 3
"""Unchanged lines around a change in the diff."""

_WHERE: Final[Mapping[str, str]] = MappingProxyType(
    {"before": "before", "after": "after", "failed": "after the error of", "waiting": "during the wait of"}
)
"""Where a module is paused, by the stage."""


class DebuggerApp(App[None]):
    """Shows a `DebugSession`, and gives its pauses the commands of the user.

    Textual runs on asyncio, and so do the passes. The session runs in a task of its own, so that a pass can neither
    block the keys by waiting, nor end with the screen.

    Parameters:
        session: the run.
        scratch: a folder for edited modules, which must exist as long as the run.

    """

    CSS = """
    #where { height: 2; padding: 0 1; background: $boost; }
    #passes { width: 40%; }
    #tasks { height: auto; min-height: 3; max-height: 8; border-top: solid $primary; }
    #message { height: auto; max-height: 6; padding: 0 1; }
    .body { padding: 0 1; width: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "resume('step')", "step", tooltip="step to the next pass that begins or ends"),
        Binding("n", "resume('next')", "next", tooltip="run past the pass; after it, to the next one of its level"),
        Binding("f", "resume('finish')", "finish", tooltip="run to the end of the pass around it"),
        Binding("c", "resume('continue_')", "continue", tooltip="run to the next breakpoint"),
        Binding("k", "skip", "skip", tooltip="skip the pass: its input becomes its result"),
        Binding("e", "edit", "edit", tooltip="edit the input of the pass, or after it its result, in $EDITOR"),
        Binding("r", "rerun", "rerun", tooltip="run the pass again, with other options if you like"),
        Binding("w", "write", "write", tooltip="write the input, the pass and its context as a reproducer"),
        Binding("b", "breakpoint", "break", tooltip="add a breakpoint, or remove it"),
        Binding("p", "interrupt", "pause", tooltip="pause at the next pass that begins or ends"),
        Binding("d", "diff", "diff", tooltip="show the diff, or the module again"),
        Binding("m", "other_module", "module", tooltip="show the next of several paused modules", show=False),
        Binding("o", "others", "others", tooltip="let other modules run during a pause, or stop them", show=False),
        Binding("q", "quit", "quit", tooltip="cancel what runs, and quit"),
        Binding("question_mark", "keys", "keys", tooltip="list the keys", key_display="?"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, session: DebugSession, scratch: Path) -> None:
        super().__init__()
        self.title = "apass debug"
        self.session: Final = session
        """The run."""
        self.pause: Pause | None = None
        """The pause that is shown and gets the commands."""
        self._scratch = scratch
        self._rendered: Pause | None = None
        self._edited: tuple[Pause, bytes] | None = None
        """The text of the last edit that was no module."""
        self._is_busy = False
        """Whether a module is edited or written."""
        # A query would search the screen on top, which may be a prompt.
        self._where = Static(id="where", markup=False)
        self._passes = PassTreeView(session.tree, id="passes")
        self._tasks = TaskTable(id="tasks")
        self._tabs = TabbedContent(initial="module", id="tabs")
        self._module = Static(id="module-text", classes="body", markup=False)
        self._diff = Static(id="diff-text", classes="body", markup=False)
        self._breakpoints = Static(id="breakpoints-text", classes="body", markup=False)
        self._output = RichLog(id="output-text", wrap=True)
        self._message = Static(id="message", markup=False)

    @property
    def is_settled(self) -> bool:
        """Whether a pause or the end of the run is shown completely; for tests."""
        if self._is_busy:
            return False
        if self.pause is not None:
            return self.pause.is_open and self._rendered is self.pause
        return self.session.is_over

    def compose(self) -> ComposeResult:
        """Arrange the widgets."""
        yield self._where
        with Horizontal():
            yield self._passes
            with self._tabs:
                for title, text in (("Module", self._module), ("Diff", self._diff), ("Breakpoints", self._breakpoints)):
                    with TabPane(title, id=title.lower()), ScrollableContainer():
                        yield text
                with TabPane("Output", id="output"):
                    yield self._output
        yield self._tasks
        yield self._message
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to follow the run."""
        self.begin_capture_print(self)
        self._passes.focus()
        self._show_breakpoints()
        self._show_where()
        self.set_interval(_REFRESH, self._refresh)
        self.run_worker(self._follow(), exit_on_error=True)

    def on_print(self, event: events.Print) -> None:
        """Show what a pass prints."""
        text = printable(event.text.rstrip("\n"), "\n\t")
        if text:
            self._output.write(Text(text))

    async def _follow(self) -> None:
        """Show each pause, and the end of models."""

        async def follow_pauses() -> None:
            # The iteration takes the pauses in order, but the user may prefer another of the open ones.
            async for _ in self.session.pauses:
                await self._show_next()

        async def follow_session() -> None:
            while not self.session.is_over:
                await self.session.news.wait()
                self._refresh()
            await self._show_next()

        async with create_task_group() as tasks:
            tasks.start_soon(follow_pauses)
            tasks.start_soon(follow_session)

    async def _show_next(self) -> None:
        """Show the first open pause, unless one is shown."""
        if self.pause is None or not self.pause.is_open:
            self.pause = next(iter(self.session.pauses.open_pauses), None)
            await self._show_pause()
        self._refresh()

    async def _show_pause(self) -> None:
        """Show the modules of the pause."""
        self._show_where()
        pause = self.pause
        if pause is None:
            return
        before, after = pause.before, pause.after
        module = await _described(pause.module, lambda: module_block(pause.module))
        diff: Block | str = "there is no result yet"
        if after is not None:
            diff = await _described(after, lambda: diff_block(before, after, _CONTEXT))
        if self.pause is not pause:
            # Another pause is shown meanwhile.
            return
        self._module.update(_rendered(module))
        self._diff.update(_rendered(diff))
        if pause.error is not None:
            self._say(f"{type(pause.error).__name__}: {text_of_error(pause.error)}", "red")
        self._passes.select(pause.run)
        self._rendered = pause

    def _refresh(self) -> None:
        """Show what runs and what waits now."""
        if self.pause is not None and not self.pause.is_open:
            self.pause = None
            self.run_worker(self._show_next())
        paused = {pause.run: pause for pause in self.session.pauses.open_pauses}
        active = self.session.pauses.activity.running()
        self._passes.show(paused.keys(), active)
        self._tasks.show(paused, active)
        self._show_where()

    def _show_where(self) -> None:
        """Show where the module is paused, and how many models are left."""
        pause, session = self.pause, self.session
        if pause is None:
            first = "finished" if session.is_over else "running"
            if session.is_over and session.errors:
                first += f": {count_of(len(session.errors), 'model')} failed"
        else:
            module = "" if pause.position.module is None else f"{pause.position.module}: "
            first = f"{module}paused {_WHERE[pause.stage]} {pause.info.name} ({pause.reason})"
        count = len(session.pauses.open_pauses)
        more = f", {count} paused (m: the next one)" if count > 1 else ""
        second = "" if pause is None else pause.position.text
        left = f"{count_of(session.unfinished, 'model')} left{more}; others {session.pauses.others}"
        self._where.update(Text(f"{printable(first)}\n{printable(second or left)}", no_wrap=True))
        self.sub_title = left

    def _show_breakpoints(self) -> None:
        listed = "\n".join(printable(str(item)) for item in self.session.pauses.breakpoints)
        self._breakpoints.update(Text(listed or "no breakpoints; press b to add one"))

    def _say(self, text: str, style: str = "") -> None:
        self._message.update(Text(printable(text, "\n"), style=style))

    def _command(self, command: Callable[[Pause], object]) -> bool:
        """Give the pause a command; show its error, and return whether there was none."""
        pause = self._open_pause()
        if pause is None:
            return False
        try:
            command(pause)
        except (ApassError, TypeError) as error:
            self._say(str(error), "red")
            return False
        self._say("")
        self.pause = None
        self.run_worker(self._show_next())
        return True

    def _open_pause(self) -> Pause | None:
        if self.pause is None or not self.pause.is_open:
            more = "all models have ended" if self.session.is_over else "press p to pause at the next pass"
            self._say(f"no module is paused; {more}", "yellow")
            return None
        return self.pause

    def _is_current(self, pause: Pause) -> bool:
        """Return whether a pause is still open; if not, show that it has ended."""
        if pause is self.pause and pause.is_open:
            return True
        self._say("the pause has ended meanwhile; nothing was done", "red")
        return False

    def action_resume(self, command: str) -> None:
        """Continue the module by a command without arguments."""
        self._command(lambda pause: getattr(pause, command)())

    def action_skip(self) -> None:
        """Skip the pass."""
        self._command(Pause.skip)

    def action_interrupt(self) -> None:
        """Pause at the next pass that begins or ends."""
        if self.session.is_over:
            self._say("all models have ended", "yellow")
            return
        self.session.pauses.interrupt()
        self._say("pausing at the next pass")

    def action_others(self) -> None:
        """Let other modules go on during a pause, or stop."""
        pauses = self.session.pauses
        pauses.others = "stop" if pauses.others == "run" else "run"
        self._say(f"during a pause, other modules {pauses.others}")
        self._show_where()

    async def action_other_module(self) -> None:
        """Show the next of several pauses."""
        pauses = self.session.pauses.open_pauses
        if self.pause in pauses:
            self.pause = pauses[(pauses.index(self.pause) + 1) % len(pauses)]
            await self._show_pause()

    def action_rerun(self) -> None:
        """Ask for options, and run the pass again."""
        pause = self._open_pause()

        def rerun(options: str | None) -> None:
            # A wait may end during the question.
            if options is not None and pause is not None and self._is_current(pause):
                self._command(lambda current: current.rerun(options.strip()))

        if pause is not None:
            self.push_screen(Prompt("run the pass again with options, such as times=3; empty for the same"), rerun)

    def action_breakpoint(self) -> None:
        """Ask for a breakpoint, and add it, or remove it if there is one."""

        def change(text: str | None) -> None:
            if not text:
                return
            pauses = self.session.pauses
            try:
                if text in map(str, pauses.breakpoints):
                    pauses.remove(text)
                    self._say(f"removed {text}")
                else:
                    self._say(f"added {pauses.add(text)}")
            except ApassError as error:
                self._say(str(error), "red")
            self._show_breakpoints()

        kinds = "pass:NAME function:NAME module:NAME changed:FUNCTION text:TEXT error wait:SECONDS"
        self.push_screen(Prompt(f"add or remove a breakpoint: {kinds}"), change)

    def action_write(self) -> None:
        """Ask for a folder, and write the reproducer."""
        pause = self._open_pause()

        def begin(folder: str | None) -> None:
            if folder and not self._is_busy and pause is not None and self._is_current(pause):
                self._is_busy = True
                self.run_worker(self._write(pause, folder))

        if pause is not None:
            self.push_screen(Prompt("write a reproducer to the folder", "reproducer"), begin)

    async def _write(self, pause: Pause, folder: str) -> None:
        try:
            written = await pause.save(folder)
        except (ApassError, OSError) as error:
            self._say(f"cannot write {folder}: {error}", "red")
        else:
            self._say(f"written: {written}; to run it: apass replay {shlex.quote(str(written))}")
        finally:
            self._is_busy = False

    def action_diff(self) -> None:
        """Show the diff, or the module again."""
        self._tabs.active = "module" if self._tabs.active == "diff" else "diff"

    def action_keys(self) -> None:
        """List all keys."""
        bindings = [binding for binding in self.BINDINGS if isinstance(binding, Binding) and binding.tooltip]
        lines = [f"{binding.key_display or binding.key}  {binding.tooltip}" for binding in bindings]
        self.push_screen(Notice("\n".join([*lines, "", "Escape closes this list"])))

    def action_edit(self) -> None:
        """Edit the module in the editor of the user."""
        pause = self._open_pause()
        if pause is None or self._is_busy:
            return
        data = self._edited[1] if self._edited is not None and self._edited[0] is pause else None
        self._edited, self._is_busy = None, True
        # The keys of the editor must not wait for this handler.
        self.run_worker(self._edit(pause, data))

    async def _edit(self, pause: Pause, data: bytes | None) -> None:
        try:
            edited = await edit_module(pause.module, self._run_editor, self._scratch, data)
        except Exception as error:  # adapters raise anything
            self._say(text_of_error(error), "red")
        else:
            self._take(pause, edited)
        finally:
            self._is_busy = False

    def _take(self, pause: Pause, edited: Edited) -> None:
        """Continue with what came out of the editor."""
        if edited.error is not None:
            self._edited = (pause, edited.data)
            reason = f"{type(edited.error).__name__}: {text_of_error(edited.error)}"
            self._say(f"the text is no module; press e to edit it again: {reason}", "red")
        elif edited.mod is None:
            self._say("the module is unchanged")
        elif pause is not self.pause:
            self._say("the pause has ended during the edit; nothing was changed", "red")
        elif self._command(lambda current: current.replace(edited.mod)):
            self._say("the module was replaced")

    async def _run_editor(self, path: Path) -> None:
        command = editor_command()
        failure: BaseException | None = None
        try:
            # Modules go on during the edit, and must not draw over the editor.
            with self.batch_update(), self.suspend():
                try:
                    await run_editor(command, path)
                except BaseException as error:
                    # Textual does not resume the screen if an error leaves this block.
                    failure = error
        except SuspendNotSupported:
            # An editor with a window of its own needs no terminal.
            await run_editor(command, path)
        if failure is not None:
            raise failure

    async def action_quit(self) -> None:
        """End the run and the program."""
        self.session.stop()
        self.exit()


def _rendered(content: Block | str) -> RenderableType:
    return Text(content) if isinstance(content, str) else render_rich(content)


async def _described(mod: Any, describe: Callable[[], Block]) -> Block | str:
    """Return a description of a module, or why there is none."""
    try:
        return await run_in_thread_if_safe(adapter_for(mod), mod, describe)
    except Exception as error:  # adapters raise anything
        return f"the module cannot be shown: {type(error).__name__}: {text_of_error(error)}"
