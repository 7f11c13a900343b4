"""Cost of a report: recording 2,000 modules of 20 passes, writing and opening it.

    python -m benchmarks.report

The rows about the browser need an installed chromium.
"""

import os
import shutil
import sys
import tempfile
import tracemalloc
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from playwright.sync_api import Page, sync_playwright

import apass
from apass.instruments import ReportInstrument
from benchmarks.area import Benchmark, main
from benchmarks.measure import record

Module = dict[str, str]


def pass_number(number: int) -> apass.Pass[Module]:
    """Return a pass that rewrites a tenth of the functions; every third rewrites none."""

    async def work(mod: Module, ctx: apass.PassContext) -> Module:
        await checkpoint()
        if number % 3 == 2:
            return mod
        return {
            name: text.replace("float32", f"float{number}") if index % 10 == number % 10 else text
            for index, (name, text) in enumerate(mod.items())
        }

    return apass.module_pass(work, opt_level=0, name=f"Pass{number}")


def modules(count: int, size: int) -> dict[str, Module]:
    """Return `count` different modules of `size` functions."""
    return {
        f"group{n % 20}/net{n}.relay": {
            f"f{k}": f"%{k} = nn.conv2d(%{k - 1}, %w{(n * k) % 997}, channels={n}) /* ty=Tensor[({k}, {n}), float32] */"
            for k in range(size)
        }
        for n in range(count)
    }


async def run(mods: dict[str, Module], pipeline: apass.Pass[Module], instruments: list[Any]) -> float:
    start = perf_counter()
    async with apass.PassContext(instruments=instruments):
        await apass.optimize_all(mods, pipeline, limit=64)
    return perf_counter() - start


def timed(page: Page, name: str, script: str) -> None:
    """Record the time until the page has drawn the effect of a script."""
    wrapped = f"""async () => {{
        const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        const began = performance.now();
        {script}
        await frame();
        return performance.now() - began;
    }}"""
    record(name, page.evaluate(wrapped) / 1000)


def browse(path: Path, chromium: str) -> None:
    """Record how long the page takes for what a reader does."""
    key = "dispatchEvent(new KeyboardEvent('keydown', {{key: '{}', bubbles: true}}))"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        start = perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("#app[data-ready]")
        ready = int(page.get_attribute("#app", "data-ready") or 0)
        record("page opened and usable", perf_counter() - start)
        record("page opened and usable: its own program", ready / 1000)
        timed(page, "the next pass, with its diff", key.format("ArrowDown"))
        timed(page, "the next module", key.format("ArrowRight"))
        timed(
            page,
            "a search",
            "const box = document.getElementById('search'); box.value = 'net19'; "
            "box.dispatchEvent(new InputEvent('input', {bubbles: true}));",
        )
        timed(
            page,
            "the search undone",
            "const box = document.getElementById('search'); box.value = ''; "
            "box.dispatchEvent(new InputEvent('input', {bubbles: true}));",
        )
        timed(page, "the timeline", key.format("2"))
        wheel = (
            "document.querySelector('canvas').dispatchEvent(new WheelEvent('wheel', {deltaY: -50, cancelable: true}));"
        )
        timed(page, "zooming the timeline by a notch", wheel)
        timed(page, "a lane a module", "document.querySelectorAll('.switch button')[0].click();")
        timed(page, "zooming that by a notch", wheel)
        timed(page, "what is slowest", key.format("3"))
        timed(page, "the passes again", key.format("1"))
        browser.close()


async def recording(rounds: int) -> None:
    """Record 2,000 modules of 20 passes, and write the page."""
    mods = modules(2000, 40)
    pipeline = apass.Sequential([pass_number(number) for number in range(20)])
    await run(modules(50, 5), pipeline, [])
    without = await run(mods, pipeline, [])
    report = ReportInstrument("benchmark")
    record("2,000 modules of 20 passes, with a report", await run(mods, pipeline, [report]), without, None, "no report")
    start = perf_counter()
    page = report.render()
    record("page rendered", perf_counter() - start)
    record("size of the page", len(page), unit="bytes")
    tracemalloc.start()
    report = ReportInstrument("2,000 modules")
    await run(mods, pipeline, [report])
    record("memory of the report", tracemalloc.get_traced_memory()[0], unit="bytes")
    tracemalloc.stop()


def browsing(rounds: int) -> None:
    """Open the page of 2,000 modules of 20 passes in chromium, and use it."""
    report = ReportInstrument("benchmark")
    pipeline = apass.Sequential([pass_number(number) for number in range(20)])
    anyio.run(run, modules(2000, 40), pipeline, [report])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(report.render(), encoding="utf-8")
        browse(path, shutil.which("chromium") or "chromium")


BENCHMARKS = (Benchmark(recording, rounds=1), Benchmark(browsing, rounds=1, needs=("chromium",)))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
