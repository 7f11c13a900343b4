"""A strict reader of the HTML of displays."""

from html.parser import HTMLParser
from operator import methodcaller

TAGS = {"details", "div", "i", "iframe", "pre", "span", "style", "summary", "table", "tbody", "td", "th", "thead", "tr"}
ATTRIBUTES = {"class", "open", "sandbox", "srcdoc", "style", "title"}
"""What displays are made of: nothing that loads or runs outside of a sandboxed frame."""


class Reader(HTMLParser):
    """Checks that tags are known and nested, and collects texts and frames."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.frames: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        self.frames += [value or "" for name, value in attrs if name == "srcdoc"]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] != "style":
            self.texts.append(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


def read_html(html: str) -> Reader:
    """Read the HTML of a display."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def html_of(obj: object) -> str:
    """Return what a notebook shows of an object."""
    return str(methodcaller("_repr_html_")(obj))
