"""A report in the frame of a notebook's output, in Chromium."""

import pytest

import apass
from apass.instruments import ReportInstrument
from tests.helpers.html_pages import html_of
from tests.instruments.report.browsing import chromium

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@apass.function_pass(opt_level=0)
def Halve(func: int, mod: dict[str, int], ctx: apass.PassContext) -> int:
    return func // 2


def test_report_works_in_sandboxed_frame() -> None:
    report = ReportInstrument("halves")
    apass.run(Halve, {"f": 8}, context=apass.PassContext(instruments=[report]))
    errors: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.set_content(f"<!doctype html>{html_of(report)}<p id=secret>of the notebook</p>")
        page.frame_locator("iframe").locator("#app[data-ready]").wait_for()
        frame = page.frames[-1]
        assert "Halve" in frame.locator("#app").inner_text()
        # The frame has an origin of its own: its scripts cannot read the notebook.
        assert frame.evaluate("() => { try { return parent.document.title } catch (error) { return error.name } }") == (
            "SecurityError"
        )
    assert errors == []
