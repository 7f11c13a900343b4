"""`render_page`: a page without scripts, in which all texts are escaped."""

from html.parser import HTMLParser

from apass.debugging.run_diff.diff import RunDiff
from apass.debugging.run_diff.page import render_page
from apass.debugging.run_diff.recorded_run import RecordedModule, RecordedRun
from tests.helpers.recorded_runs import change, output, reported

ATTACK = "<script>alert(1)</script>\"'&\u202e\x1b[2J"
TAGS = {"html", "head", "meta", "title", "link", "style", "body", "h1", "h2", "p", "table", "tr", "th", "td"}
INNER_TAGS = {"div", "ul", "li", "details", "summary", "pre", "span"}
VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Checks that tags are known and nested, and collects texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS | INNER_TAGS
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def text_of(page: str) -> str:
    """Return the text of a page, after checking it."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return "".join(reader.texts)


def test_page_shows_differences() -> None:
    first, second = (
        RecordedRun.of(reported([change("A", f=f)], {"m": {"f": 1}}).record(), f"{f}.html") for f in (2, 33)
    )
    diff = RunDiff.of(first, second)
    text = text_of(render_page(diff, diff.regressions(0.1)))
    for part in (
        "2.html \u2192 33.html",
        "size: m: bytes of text 4 -> 5 (+25.0%)",
        "m: the result differs",
        "First pass that differs: 0:sequential/0:A",
        "-f: 2+f: 33",
        "(all passes)",
        "too few samples",
    ):
        assert part in text, part


def test_texts_of_strangers_are_escaped() -> None:
    module = RecordedModule(
        name=ATTACK,
        failure=ATTACK,
        outputs=(output(ATTACK, "x"),),
        statistics={(ATTACK, ATTACK): 1.0},
        remarks=(ATTACK,),
        times={ATTACK: (1.0,)},
        is_repeatable=False,
    )
    other = RecordedModule(name=ATTACK, outputs=(output(ATTACK, "y"),), result="x", times={ATTACK: (1.0,)})
    runs = [
        RecordedRun(
            source=ATTACK,
            modules={ATTACK: item, extra: RecordedModule(name=extra, times={ATTACK: (1.0,)}, result="x")},
            settings={ATTACK: extra},
            samples=1,
            notes=(ATTACK,),
        )
        for item, extra in ((module, f"1{ATTACK}"), (other, f"2{ATTACK}"))
    ]
    diff = RunDiff.of(*runs)
    page = render_page(diff, diff.regressions(0.0, allow_different=False))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert text_of(page).count("alert(1)") > 10


def test_page_loads_nothing() -> None:
    run = RecordedRun(source="a", modules={})
    page = render_page(RunDiff.of(run, run))
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert [word for word in ("http:", "https:", "url(", "@import") if word in page] == []
