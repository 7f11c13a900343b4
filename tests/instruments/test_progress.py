"""`ProgressInstrument` and `LiveViewInstrument`: counts and display."""

import io
import re

import anyio
import pytest
from anyio import from_thread
from anyio.lowlevel import current_token
from rich.cells import cell_len
from rich.console import Console

import apass
from apass.instruments.live_view import LiveViewInstrument, waiting_text
from apass.instruments.progress import ProgressInstrument, progress_text
from apass.instruments.support.activity import ActiveCounts, Activity
from tests.helpers.consoles import console
from tests.helpers.crowd import Module, crowd, failing, run_crowd


def displayed_lines(progress: ProgressInstrument) -> list[str]:
    """Return the lines of the terminal display, without rules and repeated spaces."""
    other, file = console(terminal=True)
    other.print(progress.shown())
    return [" ".join(line.split()) for line in file.getvalue().splitlines() if set(line.strip()) - {"─"}]


class Barrier:
    """Blocks its callers until `size` of them have arrived."""

    def __init__(self, size: int) -> None:
        self._missing = size
        self._complete = anyio.Event()

    async def join(self) -> None:
        """Wait for the other callers."""
        self._missing -= 1
        if not self._missing:
            self._complete.set()
        await self._complete.wait()


class Clock:
    """Returns the time that it is set to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def run_of(name: str, module: str | None, parent: apass.Run | None = None) -> apass.Run:
    return apass.Run(apass.PassInfo(0, name), parent, module=module)


def test_running_items_are_sorted_by_wait() -> None:
    clock = Clock()
    activity = Activity(clock)
    net, fast = run_of("Tune", "net"), run_of("Fold", "fast")
    outer = run_of("sequential", "slow")
    inner = run_of("Ask", "slow", outer)
    for run in (outer, inner, net, fast):
        activity.begin(run)
    activity.step(inner, 100.0, 100.25)
    activity.step(outer, 100.0, 100.25)
    activity.wait(inner, "the cost model", False)
    activity.wait(inner, "a retry", False)
    activity.step(net, 100.5, 101.0)
    clock.now = 103.0
    assert [(item.run, item.seconds, item.waiting, item.busy, item.waits_for) for item in activity.running()] == [
        (inner, 3.0, 2.75, 0.25, ("the cost model", "a retry")),
        (net, 3.0, 2.0, 0.5, ()),
        (fast, 3.0, None, 0.0, ()),
    ]
    assert [waiting_text(item) for item in activity.running()] == [
        "waits 2.8 s for the cost model, then a retry",
        "waits 2.0 s",
        "runs",
    ]
    activity.wait(inner, "a retry", True)
    activity.end(inner, failed=True)
    activity.end(outer, failed=True)
    activity.end(net, failed=False)
    activity.lose()
    assert activity.counts() == ActiveCounts(
        modules=1, modules_done=3, modules_failed=2, passes=1, passes_done=3, seconds=3.0
    )
    assert [item.run for item in activity.running()] == [fast]


def test_wait_begins_anew_when_an_inner_pass_ends() -> None:
    clock = Clock()
    activity = Activity(clock)
    outer = run_of("sequential", "net")
    inner = run_of("Ask", "net", outer)
    activity.begin(outer)
    activity.step(outer, 100.0, 100.25)
    activity.begin(inner)
    clock.now = 103.0
    activity.end(inner, failed=False)
    clock.now = 103.5
    assert [(item.run, item.waiting) for item in activity.running()] == [(outer, 0.5)]


def test_progress_text_counts_done_and_running_items() -> None:
    counts = ActiveCounts(modules=1, modules_done=1, passes=1, functions=1, seconds=2.0)
    assert progress_text(counts) == "1 module; running: 1 module, 1 pass, 1 function; 0.5 modules/s"
    assert (
        progress_text(ActiveCounts(), 3) == "0 of 3 modules; running: 0 modules, 0 passes, 0 functions; 0.0 modules/s"
    )


@pytest.mark.anyio
async def test_final_line_is_printed_without_a_terminal() -> None:
    shown, file = console()
    progress = ProgressInstrument(len(crowd()), console=shown, interval=3600)
    outcomes = await run_crowd([progress], limit=None)
    counts = progress.activity.counts()
    assert (counts.modules, counts.passes, counts.functions) == (0, 0, 0)
    assert (counts.modules_done, counts.modules_failed) == (len(crowd()), len(failing(outcomes)))
    failed = len(failing(outcomes))
    assert file.getvalue().count("\n") == 1
    assert file.getvalue().startswith(
        f"{len(crowd())} of {len(crowd())} modules, {failed} failed; running: 0 modules, 0 passes, 0 functions; "
    )


@pytest.mark.anyio
async def test_lines_are_printed_while_passes_wait() -> None:
    shown, file = console()
    printed, token = anyio.Event(), current_token()

    class Notify(ProgressInstrument):
        """Sets `printed` after the first line that counts the pass."""

        has_notified = False

        def print(self) -> None:
            """Print, and set the event."""
            super().print()
            if not self.has_notified and "1 pass" in file.getvalue():
                self.has_notified = True
                from_thread.run_sync(printed.set, token=token)

    @apass.module_pass(opt_level=0)
    async def Wait(mod: Module, ctx: apass.PassContext) -> Module:
        await printed.wait()
        return mod

    async with apass.PassContext(instruments=[Notify(console=shown, interval=0.01)]):
        await Wait({"f": 1})
    assert "0 modules; running: 1 module, 1 pass, 0 functions; 0.0 modules/s" in file.getvalue().splitlines()


@pytest.mark.anyio
async def test_terminal_bar_is_removed_at_the_end() -> None:
    shown, file = console(terminal=True)
    progress = ProgressInstrument(2, console=shown)
    seen: list[list[str]] = []

    @apass.function_pass(opt_level=0)
    async def Look(func: int, mod: Module, ctx: apass.PassContext) -> int:
        seen.append(displayed_lines(progress))
        return func

    async with apass.PassContext(instruments=[progress]):
        await apass.optimize_all({"a": {"f": 1}, "b": {"f": 1}}, Look, limit=1)
    assert [[bar.rpartition(" ")[0], line.rpartition(";")[0]] for bar, line in seen] == [
        ["", "0 of 2 modules; running: 1 module, 1 pass, 1 function"],
        ["━" * 15, "1 of 2 modules; running: 1 module, 1 pass, 1 function"],
    ]
    assert "\x1b[?25l" in file.getvalue()
    assert file.getvalue().rstrip().endswith("\x1b[2K")


def asking(asks: anyio.Event, over: anyio.Event) -> apass.Pass[Module]:
    """Return a pass that sets `asks`, and waits for `over` as for a cost model."""

    @apass.function_pass(opt_level=0)
    async def Ask(func: int, mod: Module, ctx: apass.PassContext) -> int:
        with apass.waiting_for("the cost model"):
            asks.set()
            await over.wait()
        return func

    return Ask


@pytest.mark.anyio
async def test_live_view_shows_waits_and_their_reasons() -> None:
    shown, _ = console(terminal=True)
    view = LiveViewInstrument(console=shown)
    asks, over = anyio.Event(), anyio.Event()
    ask = asking(asks, over)
    seen: tuple[list[str], list[str]] = ([], [])
    async with apass.PassContext(instruments=[view]), anyio.create_task_group() as tasks:

        async def optimize() -> None:
            await apass.optimize_all({"net": {"main": 1}}, apass.Sequential([ask]))

        tasks.start_soon(optimize)
        await asks.wait()
        seen = displayed_lines(view), view.lines()
        over.set()
    assert [re.sub(r"\d+\.\d", "N", line) for line in seen[0][2:]] == [
        "module pass function now",
        "net sequential/Ask main waits N s for the cost model",
    ]
    assert re.sub(r"\d+\.\d", "N", seen[1][1]) == "  net: sequential/Ask@main: waits N s for the cost model"


@pytest.mark.anyio
async def test_live_view_shows_only_the_first_rows() -> None:
    shown, _ = console(terminal=True)
    view, barrier = LiveViewInstrument(console=shown), Barrier(20)
    seen: list[tuple[int, list[str]]] = []

    @apass.module_pass(opt_level=0)
    async def Look(mod: Module, ctx: apass.PassContext) -> Module:
        await barrier.join()
        lines = displayed_lines(view)
        seen.append(
            (sum("Look" in line for line in lines), [item for item in (*lines, *view.lines()) if "more" in item])
        )
        return mod

    async with apass.PassContext(instruments=[view]):
        await apass.optimize_all([{"f": 1}] * 20, Look, limit=None)
    assert seen[0] == (13, ["and 7 more", "  and 15 more"])


@pytest.mark.anyio
@pytest.mark.parametrize("width", [100, 80, 50])
async def test_live_view_fits_into_any_terminal(width: int) -> None:
    shown, paper = (
        Console(file=io.StringIO(), force_terminal=True, width=width, height=16, color_system=None) for _ in range(2)
    )
    view, barrier = LiveViewInstrument(total=1000, console=shown), Barrier(20)
    seen: list[list[str]] = []

    @apass.module_pass(opt_level=0)
    async def Look(mod: Module, ctx: apass.PassContext) -> Module:
        await barrier.join()
        with paper.capture() as capture:
            paper.print(view.shown())
        seen.append(capture.get().splitlines())
        return mod

    async with apass.PassContext(instruments=[view]):
        await apass.optimize_all([{"f": 1}] * 20, Look, limit=None)
    assert len(seen[0]) == 16
    assert re.fullmatch(r"and \d+ more", seen[0][-1].strip())


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name", ["net", "models/vision/resnet50-v1-12-qdq-int8", "\N{CJK UNIFIED IDEOGRAPH-6A21}" * 30]
)
async def test_live_view_shows_names_at_any_width(name: str) -> None:
    asks, over = anyio.Event(), anyio.Event()
    ask = asking(asks, over)
    view = LiveViewInstrument(console=console()[0])
    shown: dict[int, list[str]] = {}
    async with apass.PassContext(instruments=[view]), anyio.create_task_group() as tasks:

        async def optimize() -> None:
            await apass.optimize_all({name: {"main": 1}}, ask)

        tasks.start_soon(optimize)
        await asks.wait()
        shown = {width: lines_at(width, view) for width in range(20, 201, 5)}
        over.set()
    for width, lines in shown.items():
        assert max(map(cell_len, lines)) <= width
        assert any(line.strip().startswith(name[:3]) and name[-3:] in line.split()[0] for line in lines[3:]), width
    assert "cost model" in "".join(shown[200])


def lines_at(width: int, view: LiveViewInstrument) -> list[str]:
    """Return the lines of a view on a terminal of a width."""
    file = io.StringIO()
    paper = Console(file=file, force_terminal=True, width=width, height=30, color_system=None)
    view._console = paper  # pyright: ignore[reportPrivateUsage]
    paper.print(view.shown())
    return [line for line in file.getvalue().splitlines() if line.strip()]


@pytest.mark.anyio
async def test_nothing_runs_after_concurrent_modules_have_ended() -> None:
    shown, _ = console()
    view = LiveViewInstrument(console=shown, interval=0.05)
    outcomes = await run_crowd([view], limit=None)
    counts = view.activity.counts()
    assert (counts.modules_done, counts.modules_failed) == (len(crowd()), len(failing(outcomes)))
    assert (counts.modules, counts.passes, counts.functions, view.activity.running()) == (0, 0, 0, [])
