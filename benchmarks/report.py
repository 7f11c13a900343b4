"""Cost of a report: recording 2,000 modules of 20 passes, writing and opening it.

    python benchmarks/report.py [--modules 2000] [--passes 20] [--functions 40] [--keep FILE.html]

Needs `pip install 'apass[test]'`. The rows about the browser also need an installed chromium, and are left out without.
"""

import argparse
import os
import shutil
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


def report_row(name: str, seconds: float, detail: str = "") -> None:
    """Print a row of the results."""
    print(f"{name:<46} {seconds:8.3f} s  {detail}".rstrip(), flush=True)


def timed(page: Page, name: str, script: str) -> None:
    """Print the time until the page has drawn the effect of a script."""
    wrapped = f"""async () => {{
        const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        const began = performance.now();
        {script}
        await frame();
        return performance.now() - began;
    }}"""
    report_row(name, page.evaluate(wrapped) / 1000)


def browse(path: Path, chromium: str) -> None:
    key = "dispatchEvent(new KeyboardEvent('keydown', {{key: '{}', bubbles: true}}))"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        start = perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("#app[data-ready]")
        ready = int(page.get_attribute("#app", "data-ready") or 0)
        report_row("the page is open and usable", perf_counter() - start, f"{ready} ms of it its own program")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=2000)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--functions", type=int, default=40)
    parser.add_argument("--keep", type=Path, help="file to write the page to")
    args = parser.parse_args()
    mods = modules(args.modules, args.functions)
    pipeline = apass.Sequential([pass_number(n) for n in range(args.passes)])
    anyio.run(run, modules(50, 5), pipeline, [])
    report_row("without a report", anyio.run(run, mods, pipeline, []))
    tracemalloc.start()
    report = ReportInstrument("2,000 modules")
    anyio.run(run, mods, pipeline, [report])
    megabytes = tracemalloc.get_traced_memory()[0] / 2**20
    tracemalloc.stop()
    report = ReportInstrument("benchmark")
    report_row("with a report", anyio.run(run, mods, pipeline, [report]), f"it holds {megabytes:.0f} MB")
    start = perf_counter()
    page = report.render()
    report_row("making the page", perf_counter() - start, f"{len(page) / 2**20:.1f} MB")
    with tempfile.TemporaryDirectory() as folder:
        path = (args.keep or Path(folder) / "report.html").absolute()
        path.write_text(page)
        chromium = shutil.which("chromium")
        if chromium is not None:
            browse(path, chromium)


if __name__ == "__main__":
    main()
