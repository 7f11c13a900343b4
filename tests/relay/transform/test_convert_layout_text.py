"""Programs in `tests/relay/cases/ConvertLayout`: printed text, and meaning."""

from pathlib import Path

import numpy as np
import pytest

import apass
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.parser import fromtext
from tests.helpers.relay.pass_cases import CASES, EXPECTED, cases_below, options_of, settings_of

PROGRAMS = [path for path in cases_below(CASES) if path.parent.name == "ConvertLayout"]


def both(before: Path) -> tuple[IRModule, IRModule]:
    """Return the program before and after the pass."""
    text = before.read_text(encoding="utf-8")
    options = options_of(settings_of(text)["options"])
    mod = fromtext(text, before.name)
    pass_: apass.Pass[IRModule] = apass.get_pass("ConvertLayout", **options)
    return mod, apass.run(pass_, mod)


@pytest.mark.parametrize("before", PROGRAMS, ids=lambda path: path.stem)
def test_printed_text_is_exactly_as_expected(before: Path) -> None:
    _, after = both(before)
    expected = before.with_name(before.name.removesuffix(".relay") + EXPECTED)
    assert after.astext().rstrip() == expected.read_text(encoding="utf-8").rstrip()


@pytest.mark.parametrize("before", PROGRAMS, ids=lambda path: path.stem)
def test_program_computes_same_result(before: Path) -> None:
    mod, after = both(before)
    for seed in (0, 1):
        arguments = random_arguments(mod["main"], seed)
        with np.errstate(all="ignore"):
            assert difference(evaluate(mod, *arguments), evaluate(after, *arguments)) == ""
