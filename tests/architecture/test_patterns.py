"""Regular expressions that every supported version of Python matches alike."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_pattern_has_a_possessive_group() -> None:
    # Python 3.11.0 to 3.11.4 match one with a choice wrongly (issue 106052 of cpython).
    possessive = re.compile(r"\)(?:[*+?]|\{\d+,?\d*\})\+|\(\?>")
    literals = re.compile(r'r[bf]?"[^"\n]*"')
    found = [
        f"{path.relative_to(ROOT)}: {literal}"
        for path in (ROOT / "apass").rglob("*.py")
        for literal in literals.findall(path.read_text())
        if possessive.search(literal)
    ]
    assert found == []
