"""Breaches of the rules of prose: `python -m tests.architecture.prose PATH...`.

The rules are in CONTRIBUTING.md. The command checks docstrings, comments, strings of at least three words (error
messages, help), names of tests, and pages in Markdown outside of their code blocks.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

MAX_SUMMARY: Final = 80
"""Characters in the first line of a docstring."""
MAX_TEST_WORDS: Final = 8
"""Words in the name of a test, after `test_`."""
MAX_SENTENCE: Final = 32
"""Words in a sentence before it is reported; 20 are better."""

WORDS: Final = {
    "the noun of the domain: the pass, the caller": r"who|whoever|whom|nobody|somebody|no.one|whatever.comes",
    "'return', 'report', 'record', 'log'": r"tell|tells|told|telling",
    "'raise', 'state', 'print'; 'says' only for messages": r"say|said|saying",
    "'is', 'is written', 'queued'": r"stand|stands|stood|standing",
    "'recovered'": r"made.good|make.good|makes.good",
    "'use', 'follow', 'have the name'": r"go.by|goes.by|going.by|went.by",
    "'converge', 'settle'": r"come.to.rest|comes.to.rest|came.to.rest",
    "'without effect'": r"in.vain",
    "'forever', 'endlessly'": r"for.ever",
    "'running', 'current', 'active'": r"at.work",
    "'time slice' or 'queue'": r"turn.of.the.loop|its.turn|in.line|a.turn|turns.of.the.loop",
    "'requires', 'asks for'": r"begs",
    "'fix', 'correct'": r"mend|mends|mended",
    "'iterate over', 'visit'": r"go.over|goes.over|going.over|went.over",
    "'at the same time', 'at once'": r"the.while",
    "'missing', 'absent'": r"is.no.more",
}
"""What to write, and in place of which words; a dot for a space, so that this file passes its own check."""

_WORDS: Final = {better: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for better, words in WORDS.items()}
_ANY_WORD: Final = re.compile(rf"\b(?:{'|'.join(WORDS.values())})\b", re.IGNORECASE)
_CODE: Final = re.compile(r"`[^`]*`|```.*?```|^ *>>>.*$|^ *\.\.\. .*$|^    .*$|https?://\S+", re.DOTALL | re.MULTILINE)
_INLINE: Final = re.compile(r"``[^`]*``|`[^`]*`|\"[^\"]*\"")


class Finding(NamedTuple):
    """One breach of a rule."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def check_file(path: Path) -> list[Finding]:
    """Return the breaches in a file of Python or Markdown."""
    text = path.read_text(encoding="utf-8")
    found = _in_markdown(text) if path.suffix == ".md" else _in_python(text)
    return [Finding(str(path), line, message) for line, message in sorted(found)]


def check_text(text: str) -> Iterator[str]:
    """Iterate over the breaches in plain text: discouraged words, long sentences."""
    plain = _INLINE.sub("X", text)
    # One search for all words: most texts have none.
    for better, pattern in _WORDS.items() if _ANY_WORD.search(plain) else ():
        for match in pattern.finditer(plain):
            yield f"{match.group()!r}: write {better}"
    for sentence in re.split(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*[-*|]", plain):
        if len(sentence.split()) > MAX_SENTENCE:
            yield f"a sentence of {len(sentence.split())} words: {' '.join(sentence.split()[:6])} ..."


def _in_markdown(text: str) -> Iterator[tuple[int, str]]:
    prose = re.sub(r"^```.*?^```", lambda code: "\n" * code.group().count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", prose):
        # Tables, and the outputs of a notebook.
        if not paragraph.lstrip().startswith(("|", "<div")):
            for message in check_text(paragraph):
                yield line, message
        line += paragraph.count("\n")


def _in_python(text: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(text)
    docstrings: set[int] = set()
    strings: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                constant = node.body[0]
                assert isinstance(constant, ast.Expr)
                docstrings.add(id(constant.value))
                yield from ((constant.lineno, message) for message in _in_docstring(ast.get_docstring(node) or ""))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                if len(node.name.split("_")) - 1 > MAX_TEST_WORDS:
                    yield node.lineno, f"a name of more than {MAX_TEST_WORDS} words: {node.name}"
                yield from ((node.lineno, message) for message in check_text(node.name.replace("_", " ")))
        elif isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, bytes)):
            strings.append(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append(node)
            if id(node) in docstrings:
                continue
            is_message = node.value.count(" ") >= 2 and "\n" not in node.value.strip()
            if is_message:
                yield from ((node.lineno, message) for message in check_text(node.value))
    for line, comment in _comments(text, strings):
        yield from ((line, message) for message in check_text(comment))


def _comments(text: str, strings: Iterable[ast.expr]) -> Iterator[tuple[int, str]]:
    """Iterate over the comments of a module, with their lines.

    A `#` begins a comment outside of the string constants. The tokenizer of Python takes as long as all other checks.
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    for string in strings:
        last = string.end_lineno or string.lineno
        for line in range(string.lineno, last + 1):
            start = string.col_offset if line == string.lineno else 0
            end = (string.end_col_offset or 0) if line == last else sys.maxsize
            spans.setdefault(line, []).append((start, end))
    for number, row in enumerate(text.split("\n"), 1):
        for match in re.finditer("#", row):
            # The offsets of the syntax tree count bytes.
            offset = len(row[: match.start()].encode())
            if not any(start <= offset < end for start, end in spans.get(number, ())):
                yield number, row[match.start() :].lstrip("# ")
                break


def _in_docstring(text: str) -> Iterator[str]:
    summary = text.partition("\n")[0]
    if len(summary) > MAX_SUMMARY:
        yield f"a first line of {len(summary)} characters, of at most {MAX_SUMMARY}"
    yield from check_text(re.sub(r"^ *(>>>|\.\.\.) .*$", "", text, flags=re.MULTILINE))


def main(paths: list[str]) -> int:
    """Print the breaches in files and folders; return how many."""
    files = [file for path in map(Path, paths) for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    findings = [found for file in files if file.suffix in (".py", ".md") for found in check_file(file)]
    print(*findings, sep="\n")
    return len(findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
