"""The page of a report in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir
import pytest
from playwright.sync_api import Browser, Page, expect

import apass
from apass.instruments import ProvenanceInstrument, ReportInstrument
from tests.helpers.onnx_models import chain
from tests.helpers.report_samples import in_a_thread, page_of
from tests.instruments.report.browsing import chromium, opened

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

MODULES = 40

IS_ON_TOP = """selector => {
    const element = document.querySelector(selector);
    const box = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2));
}"""
"""JavaScript: whether no other element covers the center of the selected element."""


FITS = """selector => {
    const element = document.querySelector(selector);
    return element.scrollWidth <= element.clientWidth;
}"""
"""JavaScript: whether an element's content fits into it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run a browser for all tests of this module."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a report in which every fifth module failed."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page_of(MODULES))
    return path


def lists(page: Page, *names: str) -> None:
    """Wait for the passes in the list."""
    expect(page.locator(".pass .name")).to_have_text(names)


def is_at(page: Page, *, module: str | None = None, pass_: str | None = None) -> None:
    """Wait for the selection in the lists."""
    for kind, expected in (("module", module), ("pass", pass_)):
        if expected is not None:
            expect(page.locator(f".{kind}.active .name")).to_have_text(expected)


def choose(page: Page, module: str) -> None:
    """Select a module with the search field."""
    page.fill("#search", module)
    expect(page.locator(".module", has_not_text=module)).to_have_count(0)
    page.locator(".module", has_text=module).first.click()
    page.fill("#search", "")
    is_at(page, module=module)


def test_failed_module_is_shown_first(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        expect(page.locator(".summary")).to_contain_text(f"{MODULES} modules")
        expect(page.locator(".summary .bad")).to_have_text("8 failed")
        is_at(page, module="m4", pass_="RefuseNines")
        expect(page.locator(".failure h3")).to_have_text("ValueError: minus nine <script>alert(1)</script>")
        expect(page.locator(".failure li")).to_have_text(
            ["nines are bad luck", "in pass 'Main > RefuseNines', module 'm4'"]
        )
        page.click(".failure summary")
        expect(page.locator(".failure pre")).to_contain_text("Traceback (most recent call last):")


def test_diff_highlights_changes_within_a_line(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        choose(page, "m1")
        page.locator(".pass", has_text="Halve").first.click()
        expect(page.locator(".path .last")).to_have_text("Halve")
        lines = page.locator(".diff .line")
        expect(lines.first.locator("code")).to_have_text(["f0: 8", "f0: 4"])
        expect(lines.first.locator(".removed .differs")).to_have_text("8")
        expect(lines.first.locator(".added .differs")).to_have_text("4")
        expect(page.locator(".diffbar .count")).to_have_text(["\N{MINUS SIGN}12", "+12"])
        page.get_by_role("button", name="Unified").click()
        expect(page.locator(".diff.unified .line.removed").first.locator("code")).to_have_text("f0: 8")
        page.get_by_role("tab", name="After").click()
        expect(page.locator(".diff .line code").first).to_have_text("f0: 4")
        page.get_by_role("tab", name="Functions").click()
        expect(page.locator("tbody .state.changed")).to_have_count(12)
        page.get_by_role("tab", name="Remarks").click()
        expect(page.locator(".remark").first).to_contain_text("8 is even")


def test_line_under_mouse_shows_its_history(browser: Browser, tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    def Replace(mod: dict[str, dict[str, int]], ctx: apass.PassContext) -> dict[str, dict[str, int]]:
        return {"f": {"made": 1}}

    async def page_with_histories() -> str:
        provenance = ProvenanceInstrument()
        report = ReportInstrument(provenance=provenance)
        async with apass.PassContext(instruments=[provenance, report]):
            await Replace({"f": {"gone": 2}})
        return report.render()

    path = tmp_path / "report.html"
    path.write_text(in_a_thread(page_with_histories))
    with opened(browser, path) as page:
        old, new = (page.locator(f".diff .{side} code").first for side in ("removed", "added"))
        old.hover()
        expect(old).to_have_attribute("title", "gone in f: from the input; removed by Replace")
        new.hover()
        expect(new).to_have_attribute("title", "made in f: made by Replace")


def test_change_in_a_long_line_is_visible(browser: Browser, tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    def Shout(mod: dict[str, str], ctx: apass.PassContext) -> dict[str, str]:
        return {name: text.replace("quiet", "LOUD") for name, text in mod.items()}

    mods = {
        "early": {"f": "quiet " + "word " * 60},
        "late": {f"f{n}": f"{n} " + "word " * 60 + "quiet" for n in range(30)},
    }

    async def record() -> str:
        report = ReportInstrument("long lines")
        async with apass.PassContext(instruments=[report]):
            await apass.optimize_all(mods, Shout)
        return report.render()

    path = tmp_path / "long.html"
    path.write_text(in_a_thread(record))
    with opened(browser, path) as page:
        for module in ("late", "early", "late"):
            choose(page, module)
            for mark in ("removed", "added"):
                differs = page.locator(f".diff .{mark} .differs").first
                expect(differs).to_have_text("quiet" if mark == "removed" else "LOUD")
                expect(differs).to_be_in_viewport()
                page.wait_for_function(IS_ON_TOP, arg=f".diff .{mark} .differs")
        page.get_by_role("button", name="Unified").click()
        expect(page.locator(".diff.unified")).to_be_visible()
        page.wait_for_function(IS_ON_TOP, arg=".diff .removed .differs")


NAME = "/layers.{0}/attention/self/query/MatMul/output/of/a/long/name/value_{0}"


@pytest.fixture(scope="module")
def model_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a model with long names and 60 unused nodes in a row."""
    model = chain(500)
    for index, node in enumerate(model.graph):
        node.outputs[0].name = NAME.format(index)
    model.graph[3].name = "evil\x1b[2J\u202e<script>alert(1)</script>"
    first = model.graph.inputs[0]
    model.graph.extend(ir.node("Neg", inputs=[first], name=f"unused{index}") for index in range(60))
    path = tmp_path_factory.mktemp("model") / "report.html"

    async def record() -> str:
        report = ReportInstrument("a \u202e title")
        async with apass.PassContext(instruments=[report]):
            await apass.optimize_all({"big\x07\u202e": model}, apass.get_pass("onnx.RemoveUnusedNodes"))
        return report.render()

    path.write_text(in_a_thread(record))
    return path


SCROLLS_DOWN_ONLY = """() => {
    const page = document.documentElement;
    const sideways = [...document.querySelectorAll("*")].filter(element => element.scrollLeft > 0);
    return page.scrollWidth <= page.clientWidth && sideways.length === 0;
}"""
"""JavaScript: whether the page is as wide as the window, and nothing is scrolled sideways."""


@pytest.mark.parametrize("width", [1280, 400])
def test_page_of_a_model_scrolls_down_only(browser: Browser, model_report: Path, width: int) -> None:
    assert model_report.stat().st_size < 300_000
    with opened(browser, model_report, width=width) as page:
        for wrapped in (True, False):
            page.wait_for_function(SCROLLS_DOWN_ONLY)
            expect(page.locator(".diff.wrapped")).to_have_count(int(wrapped))
            for tab in ("Before", "After", "Diff"):
                page.get_by_role("tab", name=tab).click()
                page.wait_for_function(SCROLLS_DOWN_ONLY)
            page.get_by_role("button", name="Wrap").click()


def test_wrapped_lines_are_whole(browser: Browser, model_report: Path) -> None:
    with opened(browser, model_report, width=1280) as page:
        page.get_by_role("tab", name="Before").click()
        code = page.locator(".line code", has_text="value_1")
        expect(code.first).to_be_visible()
        assert code.first.evaluate("code => code.scrollWidth <= code.clientWidth && code.clientHeight > 20")
        page.locator(".code").evaluate("list => list.scrollTop = list.scrollHeight")
        expect(page.locator(".line .number").last).to_be_visible()
        expect(page.locator(".line code").last).to_have_text("}")
        page.keyboard.press("w")
        assert page.locator(".line code").last.evaluate("code => code.clientHeight") == 20


def test_wrap_switch_is_remembered(browser: Browser, model_report: Path) -> None:
    with opened(browser, model_report) as page:
        page.get_by_role("button", name="Wrap").click()
        expect(page.locator(".diff.wrapped")).to_have_count(0)
        page.reload()
        expect(page.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", "false")
        expect(page.locator(".diff")).to_be_visible()
        expect(page.locator(".diff.wrapped")).to_have_count(0)


def test_long_runs_of_removed_lines_are_folded(browser: Browser, model_report: Path) -> None:
    with opened(browser, model_report) as page:
        page.get_by_role("button", name="Next change").click()
        fold = page.locator(".line.gap.removed")
        expect(fold).to_have_text("⋯ 40 removed lines")
        page.get_by_role("button", name="Unified").click()
        fold.click()
        expect(fold).to_have_count(0)
        expect(page.locator(".line", has_text="unused11")).to_be_visible()


def test_control_characters_are_shown_as_escapes(browser: Browser, model_report: Path) -> None:
    with opened(browser, model_report) as page:
        expect(page.locator(".module .name")).to_have_text(r"big\x07\u202e")
        page.get_by_role("tab", name="Before").click()
        expect(page.locator(".line", has_text=r"evil\u{1b}[2J\u{202e}<script>")).to_be_visible()
        assert page.evaluate("/[\\u202e\\x07\\x1b]/.test(document.body.innerText)") is False


def test_summary_is_shown_without_javascript(browser: Browser, report: Path, model_report: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 400, "height": 900})
    page = context.new_page()
    page.goto(report.as_uri())
    expect(page.locator("h2").first).to_be_visible()
    expect(page.locator("pre").first).to_have_text("ValueError: minus nine <script>alert(1)</script>")
    expect(page.locator("td", has_text="Main/Inner/Halve").first).to_be_visible()
    page.goto(model_report.as_uri())
    expect(page.locator("td").first).to_have_text(r"big\x07\u202e")
    noscript = page.locator("noscript")
    assert noscript.evaluate("element => element.scrollWidth <= element.clientWidth")
    context.close()


def test_unchanged_lines_are_folded_until_clicked(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        choose(page, "m1")
        page.locator(".pass", has_text="Extend").click()
        expect(page.locator(".line.gap")).to_have_text("⋯ 10 unchanged lines")
        page.click(".line.gap")
        expect(page.locator(".line.gap")).to_have_count(0)
        expect(page.locator(".half.added")).to_have_count(3)


UNFOLD_AT_ONCE = """async () => {
    [...document.querySelectorAll(".pass")].find(row => row.textContent.includes("Extend")).click();
    await null;  // it is drawn, but nobody has seen it yet
    document.querySelector(".line.gap").click();
    for (const _ of [1, 2]) await new Promise(next => requestAnimationFrame(() => setTimeout(next)));
    return document.querySelectorAll(".line.gap").length;
}"""
"""JavaScript: selects a pass, opens its fold before the next frame, and returns the folds two frames later."""


def test_fold_opened_immediately_stays_open(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        choose(page, "m1")
        assert page.evaluate(UNFOLD_AT_ONCE) == 0


def test_text_search_is_kept_between_passes(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        choose(page, "m1")
        page.locator(".pass", has_text="Extend").click()
        page.keyboard.press("s")
        page.keyboard.type("F1")
        expect(page.locator(".found-count")).to_have_text("1 of 3 lines")
        expect(page.locator(".line.here code").first).to_have_text("f1: 5")
        page.keyboard.press("Enter")
        expect(page.locator(".line.here code").first).to_have_text("f10: 14")
        expect(page.locator(".found")).to_have_text(["f1"] * 6)
        page.locator(".pass", has_text="Nothing").click()
        expect(page.locator(".found-count")).to_have_text("1 of 3 lines")
        page.keyboard.press("Escape")
        expect(page.locator(".found")).to_have_count(0)


def test_arrow_keys_select_passes_and_modules(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        choose(page, "m1")
        page.locator(".pass").first.click()
        for expected in ("Nothing", "Inner", "Halve", "Rebuild"):
            page.keyboard.press("ArrowDown")
            is_at(page, pass_=expected)
        page.keyboard.press("ArrowUp")
        is_at(page, pass_="Halve")
        page.keyboard.press("ArrowRight")
        is_at(page, module="m2")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        is_at(page, module="m0")


def test_changed_only_filter_keeps_enclosing_passes(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        choose(page, "m1")
        everything = ["Main", "Nothing", "Inner", "Halve", "Rebuild", "RefuseNines", "Extend", "Halve"]
        lists(page, *everything)
        page.locator(".pass", has_text="Rebuild").click()
        page.click("#changed-only")
        lists(page, "Main", "Inner", "Halve", "Extend", "Halve")
        is_at(page, pass_="Extend")
        page.keyboard.press("c")
        lists(page, *everything)


def test_text_typed_after_slash_is_searched(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        page.evaluate("requestAnimationFrame = () => 0")  # like a slow machine, whose next frame is late
        for view in ("passes", "timeline"):
            page.get_by_role("button", name=view).click()
            page.keyboard.press("/")
            page.keyboard.type("m1")
            expect(page.locator(".modules footer")).to_have_text(f"11 of {MODULES} modules")
            page.keyboard.press("Enter")
            page.keyboard.press("Escape")


def test_modules_are_searched_and_sorted(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        page.keyboard.press("/")
        page.keyboard.type("m1")
        expect(page.locator(".modules footer")).to_have_text(f"11 of {MODULES} modules")
        page.keyboard.press("Enter")
        is_at(page, module="m1")
        page.fill("#search", "minus nine")
        expect(page.locator(".modules footer")).to_have_text(f"8 of {MODULES} modules")
        page.fill("#search", "nothing like it")
        expect(page.locator(".modules .empty")).to_have_text("No module matches.")
        page.fill("#search", "")
        page.get_by_label("failed only").check()
        expect(page.locator(".modules footer")).to_have_text(f"8 of {MODULES} modules")
        page.get_by_label("failed only").uncheck()
        page.get_by_label("Sort modules").select_option("failures first")
        for place, name in enumerate(["m4", "m9", "m14", "m19", "m24", "m29", "m34", "m39", "m0", "m1"]):
            expect(page.locator(".module .name").nth(place)).to_have_text(name)


def test_color_scheme_follows_system_or_choice(browser: Browser, report: Path) -> None:
    light, dark = "rgb(245, 246, 248)", "rgb(12, 15, 20)"
    for is_dark, colors in ((False, [light, light, dark, light]), (True, [dark, light, dark, dark])):
        with opened(browser, report, dark=is_dark) as page:
            for color in colors:
                expect(page.locator("body")).to_have_css("background-color", color)
                page.keyboard.press("t")


def sight(page: Page) -> tuple[int, int]:
    """Return the visible interval of the timeline, in microseconds."""
    canvas = page.locator("canvas")
    expect(canvas).to_have_attribute("data-to", re.compile(r"\d"))
    first, last = canvas.evaluate("({dataset}) => [dataset.from, dataset.to]")
    return int(first), int(last)


def wait_for_sight(page: Page, condition: str) -> tuple[int, int]:
    """Wait for a condition on `from` and `to`, and return the visible interval."""
    page.wait_for_function(
        f"() => {{ const {{from, to}} = document.querySelector('canvas').dataset; return {condition}; }}"
    )
    return sight(page)


def test_timeline_zooms_by_wheel_and_pans_by_drag(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        page.get_by_role("button", name="Timeline").click()
        whole = sight(page)
        page.mouse.move(800, 400)
        page.mouse.wheel(0, -300)
        near = wait_for_sight(page, f"to < {whole[1]}")
        assert near[1] - near[0] < (whole[1] - whole[0]) * 0.9
        page.mouse.down()
        page.mouse.move(900, 400, steps=4)
        page.mouse.up()
        moved = wait_for_sight(page, f"from < {near[0]}")
        assert abs((moved[1] - moved[0]) - (near[1] - near[0])) <= 2
        page.get_by_role("button", name="Whole run").click()
        wait_for_sight(page, f"from == {whole[0]} && to == {whole[1]}")
        page.get_by_role("button", name="What ran at once").click()
        page.get_by_role("button", name="A lane a module").click()
        page.mouse.move(60, 200)
        expect(page.locator(".tip")).to_be_visible()
        page.mouse.click(60, 200)
        expect(page.locator(".detail .path")).to_be_visible()


def test_list_entries_link_to_passes(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        page.get_by_role("button", name="Slowest").click()
        expect(page.locator(".card").first.locator("tbody tr")).to_have_count(5)
        page.locator("tbody tr", has_text="Rebuild").first.click()
        expect(page.locator(".path .last")).to_have_text("Rebuild")
        page.get_by_role("button", name="Remarks").click()
        page.fill("#remark-search", "64 is even m8")
        expect(page.locator(".said")).to_have_count(1)
        page.locator(".said").click()
        is_at(page, module="m8", pass_="Halve")
        page.get_by_role("button", name="Failures").click()
        page.locator(".chip", has_text="m14").click()
        is_at(page, module="m14", pass_="RefuseNines")


def test_address_stores_the_selection(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        choose(page, "m7")
        page.locator(".pass", has_text="Extend").click()
        expect(page).to_have_url(re.compile("#view=passes&module=m7&pass=6$"))
        page.reload()
        is_at(page, module="m7", pass_="Extend")


def test_help_explains_the_keys(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("previous, next module")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_page_fits_a_narrow_window(browser: Browser, report: Path) -> None:
    with opened(browser, report, width=420) as page:
        choose(page, "m1")
        page.locator(".pass", has_text="Halve").first.click()
        expect(page.locator(".diff.unified")).to_be_visible()
        page.wait_for_function("document.documentElement.scrollWidth <= 420")
    with opened(browser, report, width=1024) as page:
        choose(page, "m1")
        page.locator(".pass", has_text="Halve").first.click()
        expect(page.get_by_role("tab", name="Functions")).to_be_visible()
        for part in (".panes", ".column.modules .tools", ".column.passes .tools"):
            page.wait_for_function(FITS, arg=part)


def test_only_visible_rows_are_in_the_page(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_text(page_of(400, size=2))
    with opened(browser, path) as page:
        assert 20 < page.locator(".module").count() < 80
        page.locator(".modules .virtual").evaluate("list => list.scrollTop = list.scrollHeight")
        expect(page.locator(".module").last).to_contain_text("m399")


def test_empty_report_shows_a_message(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "empty.html"
    path.write_text(page_of(0))
    with opened(browser, path) as page:
        expect(page.locator(".modules .empty")).to_be_visible()
        for view in ("2", "3", "4", "5"):
            page.keyboard.press(view)
        expect(page.locator("main .empty")).to_have_text("No module failed.")
