"""Runs the Python snippets of one page and compares their output with the page.

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
"""Info string of a block with the exact output of the snippet before it."""
OUTPUT_THAT_VARIES = 'text title="Output (times vary)"'
"""Info string of a block whose digits and blanks may differ: a longer number widens its column."""
SHOWN = frozenset({"console", "cpp", "json", "mermaid", "sh", "text", "toml"})
"""Languages of blocks that are not executed."""

_execute = PythonEvaluator()


class PageError(Exception):
    """The output on a page differs from the output of its snippets."""


def parse(document: Document) -> Iterable[Region]:
    """Iterate over the blocks of a page that are executed or compared."""
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
    """Run a snippet in the namespace of its page, and keep its output."""
    check_output_shown(example.namespace)
    printed = io.StringIO()
    with redirect_stdout(printed):
        _execute(example)
    example.namespace["_printed"] = printed.getvalue()


def compare(varies: bool, example: Example) -> None:
    """Compare the output on a page with the output of the snippet before it."""
    printed = stripped(example.namespace.pop("_printed", ""))
    shown = stripped(str(example.parsed))
    if (masked(printed) != masked(shown)) if varies else (printed != shown):
        raise PageError(f"{example.path}:{example.line}: the page shows\n{shown}\nbut the snippet printed\n{printed}")


def check_output_shown(namespace: dict[str, str]) -> None:
    """Raise a PageError if the page omits the output of its last snippet."""
    printed = namespace.pop("_printed", "")
    if printed:
        raise PageError(f"the page omits the output of a snippet:\n{printed}")


def stripped(text: str) -> str:
    """Return `text` without trailing blanks in lines and trailing blank lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def masked(text: str) -> str:
    """Return `text` with a sign for every number, without repeated or outer blanks."""
    one_blank = re.sub(r" +", " ", re.sub(r"[\d.]*\d", "#", text))
    return "\n".join(line.strip() for line in one_blank.split("\n"))


def main(page: Path, backend: str) -> None:
    """Run the snippets of a page in order."""
    document = Document.parse(str(page), parse)
    document.namespace["__name__"] = "page"
    # The page calls `anyio.run(main)`: run it on the event loop under test.
    with patch("anyio.run", partial(anyio.run, backend=backend)):
        for example in document.examples():
            example.evaluate()
    check_output_shown(document.namespace)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
