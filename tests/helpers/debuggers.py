"""The debugger without a terminal: keys in, and the screen as plain text."""

import io
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

import anyio
from rich.console import Console
from textual.pilot import Pilot

from apass.cli.debugger.app import DebuggerApp
from apass.cli.debugger.main import make_session
from apass.cli.debugger.session import DebugSession
from apass.cli.planning import make_plan, plan_files
from apass.core.context import PassContext

__all__ = ["Debugger", "debugging", "screen_text"]

_TEXT = re.compile(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+"[^>]*>(.*?)</text>')
_COLUMN = 12.2
"""The width of a character in an exported screen."""


class Debugger:
    """A debugger that runs, and its keyboard."""

    def __init__(self, app: DebuggerApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.session = app.session
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other, each when the screen has settled."""
        for key in keys:
            await self.settled()
            await self._pilot.press(key)
        await self.settled()

    async def press_at_once(self, *keys: str) -> None:
        """Press keys while modules may run."""
        await self._pilot.press(*keys)
        await self._pilot.pause()

    async def ended(self) -> None:
        """Wait until no model runs."""
        with anyio.fail_after(30):
            while not (self.session.is_over and self.app.is_settled):
                await _poll()

    async def opened(self, count: int) -> None:
        """Wait until so many modules are paused."""
        with anyio.fail_after(30):
            while len(self.session.pauses.open_pauses) < count:
                await _poll()

    async def shows(self, line: str) -> None:
        """Wait until the first line is this one."""
        with anyio.move_on_after(30):
            while self.first_line != line:
                await _poll()
        assert self.first_line == line, self.text

    async def answer(self, text: str) -> None:
        """Fill the line of a prompt, and press Enter."""
        await self._pilot.pause()
        prompt: Any = self.app.screen.query_one("Input")
        prompt.value = text
        await self._pilot.press("enter")
        await self.settled()

    def open_tab(self, name: Literal["module", "diff", "breakpoints", "output"]) -> None:
        """Show a tab."""
        tabs: Any = self.app.query_one("#tabs")
        tabs.active = name

    async def settled(self) -> None:
        """Wait until a pause or the end of the run is shown."""
        await self._pilot.pause()
        with anyio.fail_after(30):
            while not self.app.is_settled:
                await _poll()
        await self._pilot.pause()

    @property
    def text(self) -> str:
        """The screen as plain text."""
        return screen_text(self.app)

    @property
    def first_line(self) -> str:
        """The line that shows where a module is paused."""
        return self.text.splitlines()[0].strip()

    @property
    def message(self) -> str:
        """The message above the keys."""
        widget: Any = self.app.query_one("#message")
        return str(widget.content)

    def shown(self, name: Literal["module", "diff", "breakpoints"]) -> str:
        """Return the text of a tab."""
        widget: Any = self.app.query_one(f"#{name}-text")
        file = io.StringIO()
        output = Console(file=file, width=200, color_system=None)
        output.print(widget.content)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


async def _poll() -> None:
    """Let the application run for a moment."""
    # Not `pilot.pause()`: it waits for a reply of each widget, for up to 30 s. A widget that is removed meanwhile, for
    # example because a pause ends, does not reply.
    await anyio.sleep(0.005)


def screen_text(app: DebuggerApp) -> str:
    """Return the screen of an application as lines without trailing blanks."""
    # The picture is the only export of a screen that Textual documents.
    rows: dict[float, str] = {}
    for x, y, text in _TEXT.findall(app.export_screenshot(simplify=False)):
        line = rows.get(float(y), "").ljust(round(float(x) / _COLUMN))
        rows[float(y)] = line + unescape(text).replace("\xa0", " ")
    return "\n".join(rows[y].rstrip() for y in sorted(rows))


@asynccontextmanager
async def debugging(
    models: Sequence[Path],
    pipeline: str,
    *breakpoints: str,
    others: Literal["run", "stop"] = "run",
    output: Path | None = None,
    size: tuple[int, int] = (100, 24),
) -> AsyncGenerator[Debugger]:
    """Run a debugger on model files, and quit it at the end."""
    plan = make_plan(plan_files([str(path) for path in models], output, in_place=False, to=None), pipeline, None)

    def make_context(instruments: list[object]) -> PassContext:
        return PassContext(opt_level=2, instruments=instruments)

    scratch = Path(mkdtemp(dir=models[0].parent))
    session: DebugSession = make_session(plan, make_context, breakpoints, others, writes=output is not None)
    async with anyio.create_task_group() as tasks:
        app = DebuggerApp(session, scratch)
        async with app.run_test(size=size) as pilot:
            tasks.start_soon(session.run)
            debugger = Debugger(app, pilot)
            await debugger.settled()
            yield debugger
        session.stop()
