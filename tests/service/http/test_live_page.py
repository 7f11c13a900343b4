"""The live page of a real server, in a real browser."""

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import onnx
import pytest
from playwright.sync_api import Browser, Page, expect

from apass.service.http.auth import Tokens, new_token
from tests.instruments.report.browsing import chromium
from tests.service.http.live_page import (
    HOSTILE,
    LiveServer,
    choose_files,
    live_page,
    onnx_file,
    open_form,
    state_is,
    submit,
)
from tests.service.http.models import OPTIMIZED, named

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.network]

VISIBLE_HOSTILE = HOSTILE.replace("\u202e", "\\u{202e}")
"""How the page shows `HOSTILE`."""

WITHOUT_NAME = """() => ["a, button, input, select, textarea", "canvas, iframe, dialog, nav, section"]
    .flatMap(selector => [...document.querySelectorAll(selector)])
    .filter(element => element.checkVisibility())
    .filter(element => !(element.getAttribute("aria-label") || element.getAttribute("aria-labelledby")
        || element.labels?.length || element.title || (element.matches("a, button") && element.innerText.trim())))
    .map(element => element.outerHTML.slice(0, 200))"""
"""JavaScript: the controls and regions in sight that have no name for a screen reader."""

LOW_CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const parse = color => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, bottom) => top.slice(0, 3).map((value, at) => value * top[3] + bottom[at] * (1 - top[3]));
    const light = ([r, g, b]) => [r, g, b]
        .map(value => value / 255)
        .map(value => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
        .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
    const backgroundOf = element => {
        const layers = [];
        for (let one = element; one; one = one.parentElement)
            layers.unshift(parse(getComputedStyle(one).backgroundColor));
        return layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const low = [];
    const walker = document.createTreeWalker(document.getElementById("app"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
        if (element.closest("[aria-hidden=true], .sr, :disabled, .old, option, noscript")) continue;
        const ground = backgroundOf(element);
        const text = over(parse(getComputedStyle(element).color), ground);
        const [bright, dark] = [light(text), light(ground)].sort((a, b) => b - a);
        const contrast = (bright + 0.05) / (dark + 0.05);
        if (contrast < 4.5) low.push(`${contrast.toFixed(2)}: ${walker.currentNode.data.slice(0, 40)}`);
    }
    return low;
}"""
"""JavaScript: texts in sight with a contrast below 4.5, the limit of WCAG AA."""

OVERFLOW = "() => document.documentElement.scrollWidth - innerWidth"
"""JavaScript: by how many pixels the page is wider than the window."""

DROP = """([name, base64]) => {
    const bytes = Uint8Array.from(atob(base64), char => char.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name));
    for (const kind of ["dragover", "drop"])
        document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""
"""JavaScript: drop a file on the page, as a user does."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run a browser for all tests of this module."""
    with chromium() as started:
        yield started


@pytest.fixture
def server() -> Iterator[LiveServer]:
    started = LiveServer()
    with started.running():
        yield started


def list_names(page: Page, *names: str) -> None:
    expect(page.locator("a.job .name")).to_have_text(list(names))


def check_accessibility(page: Page) -> None:
    """Check names, contrast and the order of headings."""
    assert page.evaluate(WITHOUT_NAME) == []
    assert page.evaluate(LOW_CONTRAST) == []
    levels = page.evaluate("() => [...document.querySelectorAll('h1, h2, h3')].map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_page_without_jobs_has_advice_and_colours(browser: Browser, server: LiveServer) -> None:
    light, dark = "rgb(245, 246, 248)", "rgb(12, 15, 20)"
    with live_page(browser, server, dark=True) as page:
        expect(page.get_by_text("There are no jobs yet.")).to_be_visible()
        expect(page.locator(".welcome")).to_contain_text(f"apass submit model.onnx --server {server.url[:-1]}")
        expect(page.locator(".welcome")).to_contain_text(".onnx")
        page.get_by_role("button", name="Submit a model").click()
        expect(page.get_by_role("dialog", name="New job")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        # The colours are those of the system, or those that the user has chosen.
        body = page.locator("body")
        expect(body).to_have_css("background-color", dark)
        page.get_by_role("button", name="Colours: auto").click()
        expect(body).to_have_css("background-color", light)
        page.get_by_role("button", name="Colours: light").click()
        expect(body).to_have_css("background-color", dark)
        page.reload()
        expect(body).to_have_css("background-color", dark)
        expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()


def test_slow_job_is_watched_from_upload_to_result(browser: Browser, server: LiveServer) -> None:
    with live_page(browser, server) as page:
        submit(page, "lenet.onnx", "slow")
        state_is(page, "running")
        list_names(page, "lenet.onnx")
        moving = "() => getComputedStyle(document.querySelector('a.job .dot')).animationName"
        assert page.evaluate(moving) == "none"
        with live_page(browser, server, reduced=False) as other:
            expect(other.locator("a.job.running")).to_have_count(1)
            assert other.evaluate(moving) == "pulse"
        # A screen reader gets landmarks and states.
        expect(page.locator("body")).to_match_aria_snapshot("""
            - banner:
              - heading "apass" [level=1]
              - status: live
              - button "New job"
            - navigation "Jobs":
              - searchbox "Search jobs by name, pipeline or id"
              - group "States":
                - button /Queued/
                - button /Running 1/
              - list:
                - listitem:
                  - link /lenet\\.onnx running/
            - main:
              - region "lenet.onnx":
                - heading "lenet.onnx" [level=2]
                - button "Cancel"
                - progressbar "Passes"
                - paragraph: 1 of about 2 passes finished, Wait runs
                - tablist "Views of the job":
                  - tab /Passes/ [selected]
                  - tab "Timeline"
        """)
        expect(page.locator(".pass .name")).to_have_text(["sequential", "onnx.IdentityElimination", "Wait"])
        expect(page.locator(".pass.running .name")).to_have_text(["sequential", "Wait"])
        expect(page.get_by_role("progressbar", name="Passes")).to_have_attribute("aria-valuenow", "1")
        # The last pass that has changed the model is shown, with both texts.
        expect(page.locator(".path .last")).to_have_text("onnx.IdentityElimination")
        expect(page.locator(".diff .half.removed code").first).to_contain_text("Identity")
        page.get_by_role("tab", name="After").click()
        expect(page.locator(".diff")).to_contain_text("Relu (a)")
        page.get_by_role("tab", name="Diff").click()
        page.locator(".pass", has_text="Wait").click()
        expect(page.locator(".detail .note")).to_have_text("This pass runs. The module before it:")
        server.gates.opened.set()
        state_is(page, "done")
        expect(page.locator(".pass .name")).to_have_count(3)
        expect(page.locator(".pass.running")).to_have_count(0)
        expect(page.locator(".detail .note")).to_have_text("This pass left the module as it was.")
        expect(page.locator("[role=status].sr")).to_have_text("lenet.onnx: done")
        with page.expect_download() as download:
            page.get_by_role("button", name="Result").click()
        assert download.value.suggested_filename == "lenet.onnx"
        assert len(onnx.load_from_string(download.value.path().read_bytes()).graph.node) == OPTIMIZED


def test_timeline_shows_what_waits_for_what(browser: Browser, server: LiveServer) -> None:
    with live_page(browser, server) as page:
        submit(page, "lenet.onnx", "tune", functions=True)
        page.get_by_role("tab", name="Timeline").click()
        now = page.get_by_role("region", name="Now")
        expect(now.locator("tbody tr")).to_have_count(1)
        expect(now.locator("tbody td").nth(0)).to_have_text("Tune")
        expect(now.locator("tbody td").nth(1)).to_have_text("@main")
        expect(now.locator("tbody td").nth(2)).to_have_text("the tuner on cuda:0")
        expect(now).to_contain_text("0 run, 1 wait")
        canvas = page.locator("canvas")
        end = int(canvas.get_attribute("data-to") or 0)
        page.wait_for_function("end => Number(document.querySelector('canvas').dataset.to) > end + 100_000", arg=end)
        # A range that the user has chosen stays.
        page.get_by_role("button", name="Zoom in").click()
        chosen = canvas.get_attribute("data-to")
        before = now.locator("td.n").inner_text()
        expect(now.locator("td.n")).not_to_have_text(before)
        assert canvas.get_attribute("data-to") == chosen
        server.gates.opened.set()
        state_is(page, "done")
        expect(now).to_have_count(0)
        page.get_by_role("tab", name="Passes").click()
        page.locator(".pass", has_text="Tune").click()
        page.get_by_role("tab", name="Functions 1").click()
        expect(page.locator(".detail tbody td").first).to_have_text("@main")


def test_dropped_files_are_submitted(browser: Browser, server: LiveServer) -> None:
    with live_page(browser, server) as page:
        for name in ("first", "second"):
            page.evaluate(DROP, [f"{name}.onnx", b64encode(named(name)).decode()])
        expect(page.locator(".files .name")).to_have_text(["first.onnx", "second.onnx"])
        page.get_by_role("combobox", name="Name").select_option("simple")
        page.get_by_role("button", name="Submit 2 jobs").click()
        expect(page.locator("a.job.done .name")).to_have_text(["second.onnx", "first.onnx"])
        expect(page.locator("#job-name")).to_have_text("first.onnx")


def test_job_is_cancelled_retried_and_removed(browser: Browser, server: LiveServer) -> None:
    with live_page(browser, server) as page:
        submit(page, "lenet.onnx", "slow")
        expect(page.locator(".pass.running")).to_have_count(2)
        page.get_by_role("button", name="Cancel", exact=True).click()
        state_is(page, "cancelled")
        expect(page.locator(".pass.running")).to_have_count(0)
        server.gates.opened.set()
        page.get_by_role("button", name="Retry").click()
        expect(page.locator("a.job .sr")).to_have_text(["done", "cancelled"])
        state_is(page, "done")
        page.get_by_role("button", name="Retry").click()
        expect(page.locator("a.job .took").first).to_have_text("reused")
        # There are no events, so the report is shown.
        expect(page.get_by_role("tab", name="Report")).to_have_attribute("aria-selected", "true")
        page.get_by_role("tab", name="Passes").click()
        expect(page.locator(".jobview .empty")).to_contain_text("the result is that of an equal job")
        page.get_by_role("button", name="Remove").click()
        dialog = page.get_by_role("dialog", name="Remove the job?")
        dialog.get_by_role("button", name="Keep").click()
        expect(dialog).to_have_count(0)
        page.get_by_role("button", name="Remove").click()
        dialog.get_by_role("button", name="Remove").click()
        expect(page.locator("a.job .sr")).to_have_text(["done", "cancelled"])
        expect(page.locator(".welcome")).to_be_visible()


def test_texts_of_failures_and_names_are_harmless(browser: Browser, server: LiveServer) -> None:
    with live_page(browser, server) as page:
        submit(page, "lenet.onnx", "fail")
        state_is(page, "failed")
        failure = page.get_by_role("article", name="Failure")
        expect(failure.locator("h3")).to_have_text(f"ValueError: cannot fold {VISIBLE_HOSTILE}")
        expect(failure.locator("li").first).to_have_text("the note of the error")
        expect(failure.locator(".diagnostics li")).to_contain_text(f"the shape of {VISIBLE_HOSTILE} is unknown")
        expect(page.locator(".pass.failed .name")).to_have_text(["sequential", "Fail"])
        expect(page.locator(".path .last")).to_have_text("Fail")
        assert page.locator("img").count() == 0
        # The names of jobs and files are shown as text, too.
        server.submit(HOSTILE)
        list_names(page, VISIBLE_HOSTILE, "lenet.onnx")
        page.locator("a.job", has_text=VISIBLE_HOSTILE).click()
        expect(page.locator("#job-name")).to_have_text(VISIBLE_HOSTILE)
        page.get_by_role("tab", name="Report").click()
        frame = page.frame_locator("iframe")
        expect(frame.locator(".passes h2")).to_contain_text("<img src=x onerror=alert(1)>")
        open_form(page)
        choose_files(page, onnx_file("<b>bold</b>.txt"))
        expect(page.locator(".files .name")).to_have_text("<b>bold</b>.txt")
        expect(page.locator(".files .warning")).to_have_text("There is no format for .txt.")
        assert page.locator("img, .files b").count() == 0


def test_report_has_no_rights_of_the_page(browser: Browser, server: LiveServer) -> None:
    server.submit("lenet.onnx")
    with live_page(browser, server, dark=True) as page:
        page.locator("a.job").click()
        page.get_by_role("tab", name="Report").click()
        frame = page.frame_locator("iframe")
        expect(frame.locator(".pass .name")).to_have_text(["sequential", "onnx.IdentityElimination"])
        inner = page.frames[-1]
        assert inner.evaluate("() => origin") == "null"
        for secret in ("parent.document.title", "sessionStorage.length", "localStorage.length"):
            code = f"() => {{ try {{ return {secret} }} catch (error) {{ return error.name }} }}"
            assert inner.evaluate(code) == "SecurityError"
        expect(frame.locator("html[data-theme]")).to_have_count(0)
        page.locator("#theme").click()
        expect(frame.locator("html[data-theme=light]")).to_have_count(1)
        with page.expect_download() as download:
            page.get_by_role("button", name="Save report").click()
        assert download.value.suggested_filename == "lenet-report.html"
        assert "<title>lenet.onnx</title>" in download.value.path().read_text()


def test_jobs_are_searched_filtered_and_paged(browser: Browser, server: LiveServer) -> None:
    for number in range(60):
        server.submit(f"net{number}.onnx", "fail" if number == 7 else "simple")
    with live_page(browser, server) as page:
        expect(page.locator("a.job")).to_have_count(50)
        page.get_by_role("button", name="Older jobs").click()
        expect(page.locator("a.job")).to_have_count(60)
        expect(page.get_by_role("button", name="Older jobs")).to_have_count(0)
        page.get_by_role("button", name="Failed 1").click()
        list_names(page, "net7.onnx")
        page.get_by_role("button", name="Failed 1").click()
        page.get_by_role("searchbox", name="Search jobs").fill("NET5")
        expect(page.locator("a.job")).to_have_count(11)
        # A new job is in the list only if it matches.
        server.submit("other.onnx")
        server.submit("net500.onnx")
        expect(page.locator("a.job", has_text="net500.onnx")).to_have_count(1)
        expect(page.locator("a.job")).to_have_count(12)
        page.get_by_role("searchbox", name="Search jobs").fill("nothing like it")
        expect(page.get_by_text("No job matches.")).to_be_visible()
        page.get_by_role("button", name="Show all jobs").click()
        expect(page.locator("a.job")).to_have_count(50)


def test_form_builds_pipeline_with_typed_options(browser: Browser, server: LiveServer) -> None:
    with live_page(browser, server) as page:
        open_form(page)
        choose_files(page, onnx_file())
        page.get_by_role("radio", name="Own").check(force=True)
        text = page.get_by_role("textbox", name="Text", exact=True)
        text.fill("onnx.IdentityElimination")
        page.get_by_role("combobox", name="Pass").fill("live.Scale")
        page.get_by_role("combobox", name="Pass").press("Enter")
        step = page.locator(".steps li", has_text="live.Scale")
        expect(step).to_contain_text("Scale nothing, with an option of each kind.")
        expect(step).not_to_contain_text("second paragraph")
        step.locator("summary").click()
        expect(step.get_by_role("spinbutton", name="factor")).to_have_attribute("placeholder", "2")
        step.get_by_role("spinbutton", name="factor").fill("3")
        step.get_by_role("checkbox", name="exact").check()
        step.get_by_role("combobox", name="mode").select_option("small")
        step.get_by_role("textbox", name="label").fill("two words")
        step.get_by_role("textbox", name="weights").fill("[0.5]")
        step.get_by_role("textbox", name="weights").blur()
        options = '{factor=3,exact=true,mode=small,label="two words",weights=[0.5]}'
        expect(text).to_have_value(f"onnx.IdentityElimination, live.Scale{options}")
        expect(page.locator(".plan code")).to_have_text(
            ["onnx.IdentityElimination", re.compile(r"live\.Scale\{factor=3")]
        )
        step.get_by_role("button", name="Move live.Scale up").click()
        expect(text).to_have_value(f"live.Scale{options}, onnx.IdentityElimination")
        page.get_by_role("button", name="Submit", exact=True).click()
        state_is(page, "done")
        expect(page.locator(".pass .name")).to_have_text(["sequential", "live.Scale", "onnx.IdentityElimination"])


def test_form_shows_errors_and_plan(browser: Browser, server: LiveServer) -> None:
    with live_page(browser, server, refused=True) as page:
        open_form(page)
        page.get_by_role("radio", name="Own").check(force=True)
        text = page.get_by_role("textbox", name="Text", exact=True)
        text.fill("onnx.IdentityElimination{unknown=1}")
        expect(page.locator(".planview .message")).to_contain_text("unknown")
        text.fill("Repeat{times=2}(onnx.IdentityElimination, onnx.FuseNodes)")
        expect(page.locator(".plan .decision")).to_have_text(["run", "run", "skip"])
        expect(page.locator(".plan li").last).to_contain_text("level 3 is above 2")
        page.get_by_role("spinbutton", name="Level", exact=True).fill("3")
        expect(page.locator(".plan .decision")).to_have_text(["run", "run", "run"])
        expect(page.get_by_role("textbox", name="Passes in it")).to_have_value(
            "onnx.IdentityElimination, onnx.FuseNodes"
        )
        text.fill("onnx.IdentityElimination(")
        expect(page.get_by_text("The passes are listed here when the text is complete.")).to_be_visible()
        text.fill("Forbidden")
        choose_files(page, onnx_file())
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page.locator(".files .bad")).to_contain_text("Forbidden")
        page.get_by_role("spinbutton", name="Deadline in seconds").fill("-1")
        text.fill("onnx.IdentityElimination")
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        page.get_by_role("spinbutton", name="Deadline in seconds").fill("600")
        page.get_by_role("button", name="Submit", exact=True).click()
        state_is(page, "done")


@pytest.mark.parametrize("dark", [False, True])
def test_page_is_accessible(browser: Browser, server: LiveServer, dark: bool) -> None:
    server.submit("failed.onnx", "fail")
    server.submit("done.onnx")
    with live_page(browser, server, dark=dark) as page:
        list_names(page, "done.onnx", "failed.onnx")
        check_accessibility(page)
        for name, tabs in (("failed.onnx", ["Details"]), ("done.onnx", ["Passes 1", "Timeline", "Report", "Details"])):
            page.locator("a.job", has_text=name).click()
            expect(page.locator("#job-name")).to_have_text(name)
            for tab in tabs:
                page.get_by_role("tab", name=tab).click()
                expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
                check_accessibility(page)
        submit(page, "running.onnx", "tune", functions=True)
        expect(page.locator(".pass.running")).to_have_count(2)
        check_accessibility(page)
        open_form(page)
        page.get_by_role("radio", name="Own").check(force=True)
        page.get_by_role("textbox", name="Text", exact=True).fill("live.Scale{factor=3}, onnx.Inline")
        expect(page.locator(".plan code")).to_have_count(2)
        check_accessibility(page)


def test_page_works_with_the_keyboard_alone(browser: Browser, server: LiveServer) -> None:
    for name in ("first.onnx", "second.onnx", "third.onnx"):
        server.submit(name)
    focused = "() => document.activeElement.innerText || document.activeElement.id"
    is_marked = "() => getComputedStyle(document.activeElement).outlineStyle"
    with live_page(browser, server) as page:
        list_names(page, "third.onnx", "second.onnx", "first.onnx")
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "Skip to the job"
        assert page.evaluate(is_marked) == "solid"
        page.keyboard.press("/")
        page.wait_for_function("() => document.activeElement.id === 'search'")
        page.keyboard.type("o")
        for _ in range(6):  # five states, and the list
            page.keyboard.press("Tab")
        assert page.evaluate(focused).startswith("third.onnx")
        assert page.evaluate(is_marked) == "solid"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator("#job-name")).to_have_text("second.onnx")
        page.get_by_role("tab", name="Passes").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Timeline")).to_be_focused()
        page.keyboard.press("Home")
        expect(page.get_by_role("tab", name="Passes")).to_have_attribute("aria-selected", "true")
        page.locator(".row.pass.active").focus()
        page.keyboard.press("ArrowUp")
        expect(page.locator(".row.pass", has_text="sequential")).to_be_focused()
        expect(page.locator(".path .last")).to_have_text("sequential")
        page.keyboard.press("a")
        expect(page.get_by_role("dialog", name="New job")).to_be_visible()
        expect(page.locator("dialog input[type=file]")).to_be_focused()
        for _ in range(30):
            page.keyboard.press("Tab")
            assert page.evaluate(
                "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
            )
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.locator(".row.pass", has_text="sequential")).to_be_focused()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        expect(page.get_by_role("button", name="Colours: light")).to_be_visible()


def test_narrow_page_has_no_sideways_scrolling(browser: Browser, server: LiveServer) -> None:
    server.submit("a_file_with_a_very_long_name_that_does_not_fit_into_the_window_of_a_telephone.onnx")
    server.submit("failed.onnx", "fail")
    with live_page(browser, server, width=400) as page:
        expect(page.locator("a.job")).to_have_count(2)
        assert page.evaluate(OVERFLOW) <= 0
        for name in ("failed.onnx", "a_file"):
            page.locator("a.job", has_text=name).click()
            expect(page.locator("a.job").first).not_to_be_visible()
            expect(page.locator(".diff").first).to_be_visible()
            for tab in ("Timeline", "Report", "Details", "Passes 1"):
                if page.get_by_role("tab", name=tab).count():
                    page.get_by_role("tab", name=tab).click()
                    assert page.evaluate(OVERFLOW) <= 0
            page.get_by_role("link", name="Jobs").click()
            expect(page.locator("a.job", has_text=name)).to_be_focused()
        open_form(page)
        choose_files(page, onnx_file("a" * 200 + ".onnx"))
        page.get_by_role("radio", name="Own").check(force=True)
        page.get_by_role("textbox", name="Text", exact=True).fill("live.Scale{label=" + "x" * 100 + "}")
        expect(page.locator(".plan code")).to_have_count(1)
        assert page.evaluate(OVERFLOW) <= 0
        assert page.evaluate(
            "() => document.querySelector('.form').scrollWidth <= document.querySelector('.form').clientWidth"
        )


def test_page_and_job_continue_after_server_restart(browser: Browser, tmp_path: Path) -> None:
    server = LiveServer(store=tmp_path / "jobs.sqlite")
    with ExitStack() as stack:
        with server.running():
            server.submit("before.onnx")
            page = stack.enter_context(live_page(browser, server, refused=True))
            expect(page.locator(".link")).to_have_text("live")
            submit(page, "lenet.onnx", "slow")
            expect(page.locator(".pass.running .name")).to_have_text(["sequential", "Wait"])
        expect(page.locator(".link")).to_have_text("no connection")
        expect(page.get_by_role("alert")).to_have_text("The server does not answer. Trying again\u2026")
        # What is known stays in sight.
        list_names(page, "lenet.onnx", "before.onnx")
        with server.running():
            expect(page.locator(".link")).to_have_text("live")
            expect(page.get_by_role("alert")).to_have_count(0)
            # The passes are those of the new attempt.
            expect(page.locator(".pass.running .name")).to_have_text(["sequential", "Wait"])
            expect(page.locator(".pass")).to_have_count(3)
            server.gates.opened.set()
            state_is(page, "done")
            expect(page.locator(".pass.running")).to_have_count(0)
            server.submit("after.onnx")
            list_names(page, "after.onnx", "lenet.onnx", "before.onnx")
            stack.close()


def test_token_of_mounted_server_is_kept_in_tab(browser: Browser) -> None:
    secret, token = new_token("alice")
    other, other_token = new_token("bob", ["read"])
    # Another application mounts it.
    server = LiveServer(options={"auth": Tokens([token, other_token])}, mounted="/tools/apass")
    with server.running(), live_page(browser, server, refused=True) as page:
        dialog = page.get_by_role("dialog", name="Token")
        expect(dialog.get_by_role("alert")).to_contain_text("there is no token")
        field = dialog.get_by_role("textbox", name="Token of the server")
        expect(field).to_be_focused()
        field.fill("wrong" * 10)
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("alert")).to_have_text("the token is not valid")
        field.fill(secret)
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        expect(page.locator(".link")).to_have_text("live")
        submit(page, "lenet.onnx")
        state_is(page, "done")
        page.get_by_role("tab", name="Report").click()
        expect(page.frame_locator("iframe").locator(".pass")).to_have_count(2)
        assert page.evaluate("() => sessionStorage['apass-token']") == secret
        assert secret not in page.evaluate("() => JSON.stringify(localStorage) + location.href + document.cookie")
        # A token of another tenant sees other jobs, and without the scope nothing can be changed.
        page.get_by_role("button", name="Token").click()
        field.fill(other)
        page.keyboard.press("Enter")
        expect(page.get_by_text("There are no jobs yet.")).to_be_visible()
        expect(page.locator(".jobview .empty")).to_contain_text("there is no job")
