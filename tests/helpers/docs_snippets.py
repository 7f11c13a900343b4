"""Runs the Python snippets of one page of documentation and compares what they print with what the page says.

Run it as `python -m tests.helpers.docs_snippets PAGE BACKEND`.
"""

import io
import re
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from unittest.mock import patch

import anyio
from sybil import Document, Example, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

OUTPUT = 'text title="Output"'
"""Heads what the snippet before it prints, word for word."""
OUTPUT_THAT_VARIES = 'text title="Output (times vary)"'
"""The same, but for the digits, and for how many blanks there are: a longer number makes its column wider."""
SHOWN = frozenset({"console", "cpp", "sh", "text", "toml"})
"""Languages of blocks that are there to be read."""

_execute = PythonEvaluator()


class PageError(Exception):
    """A page says something else than what its snippets do."""


def parse(document: Document) -> Iterable[Region]:
    """Find the blocks of a page: what runs, what it prints, and what is only shown."""
    for region in FencedCodeBlockLexer(language="[^\n]+")(document):
        info = str(region.lexemes["language"])
        language = info.partition(" ")[0]
        region.parsed = region.lexemes["source"]
        if language == "python":
            region.evaluator = run
        elif info in (OUTPUT, OUTPUT_THAT_VARIES):
            region.evaluator = partial(compare, info == OUTPUT_THAT_VARIES)
        elif language in SHOWN and "Output" not in info:
            continue
        else:
            raise PageError(f"{document.path}: a block ```{info}: write python, {OUTPUT}, or one of {sorted(SHOWN)}")
        yield region


def run(example: Example) -> None:
    """Run a snippet in the namespace of its page, and keep what it prints for the block after it."""
    check_claimed(example.namespace)
    printed = io.StringIO()
    with redirect_stdout(printed):
        _execute(example)
    example.namespace["_printed"] = printed.getvalue()


def compare(varies: bool, example: Example) -> None:
    """Compare what a page says with what the snippet before it printed."""
    printed = without_blank_ends(example.namespace.pop("_printed", ""))
    said = without_blank_ends(str(example.parsed))
    if (masked(printed) != masked(said)) if varies else (printed != said):
        raise PageError(f"{example.path}:{example.line}: the page says\n{said}\nand the snippet printed\n{printed}")


def check_claimed(namespace: dict[str, str]) -> None:
    """Return if the page says all that its last snippet printed."""
    printed = namespace.pop("_printed", "")
    if printed:
        raise PageError(f"a snippet printed what the page does not say:\n{printed}")


def without_blank_ends(text: str) -> str:
    """Return `text` without blanks at the ends of lines, and without blank lines at its end."""
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def masked(text: str) -> str:
    """Return `text` with one sign for every number, one blank for several, and none around a line."""
    one_blank = re.sub(r" +", " ", re.sub(r"[\d.]*\d", "#", text))
    return "\n".join(line.strip() for line in one_blank.split("\n"))


def main(page: Path, backend: str) -> None:
    """Run the snippets of a page from the first to the last."""
    document = Document.parse(str(page), parse)
    document.namespace["__name__"] = "page"
    # The page calls `anyio.run(main)`; it must say the truth on every event loop.
    with patch("anyio.run", partial(anyio.run, backend=backend)):
        for example in document.examples():
            example.evaluate()
    check_claimed(document.namespace)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
