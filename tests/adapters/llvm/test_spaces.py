"""The spaces of pipelines for LLVM. Each alternative is a pipeline that runs."""

import random
import re

import pytest

import apass
from apass.adapters.llvm import ADAPTER, Module, spaces
from apass.adapters.llvm.opt import needed_opt
from tests.helpers.amounts import some
from tests.helpers.llvm_modules import TEXTS, needs_opt
from tests.helpers.rows import row

pytestmark = [needs_opt, pytest.mark.process]

SEQUENCE = re.compile(r"\?\{1\.\.24\}\((.*)\)$")
HOLE = re.compile(r"=\?(?:\(([^()]*)\)|(\d+)\.\.(\d+))?")


def alternatives(space: str) -> list[str]:
    """Return the alternatives of the sequence at the end of a space."""
    found = SEQUENCE.search(space)
    assert found is not None
    return found[1].split("|")


def filled(text: str, generator: random.Random) -> str:
    """Return a pipeline without holes."""

    def value(hole: re.Match[str]) -> str:
        if hole[1] is not None:
            return f"={generator.choice(hole[1].split('|'))}"
        return f"={generator.randint(int(hole[2]), int(hole[3])) if hole[2] else generator.choice(('true', 'false'))}"

    return HOLE.sub(value, text)


def run(text: str, mod: Module) -> Module:
    result: Module = apass.run(apass.parse_pipeline(text), mod)
    return result


def test_actions_of_the_literature_are_124() -> None:
    names = [*spaces.SAME.split(), *spaces.RENAMED, *spaces.GONE]
    assert len(names) == len(set(names)) == 124


def test_phases_have_all_names_of_today() -> None:
    entries = {entry.name: entry for entry in needed_opt().catalogue.passes}
    chosen = alternatives(spaces.phases())
    assert len(chosen) == 113
    for text in chosen:
        with row(text):
            assert str(apass.parse_pipeline(text)) == text
            assert text.removeprefix("llvm.").partition("{")[0] in entries


def test_phases_leave_out_what_is_gone() -> None:
    names = {entry.name for entry in needed_opt().catalogue.passes}
    changing = {"insert-gcov-profiling"}
    assert not set(spaces.GONE) & (names - changing)


def test_phases_of_llvmlite_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_LLVM_OPT", "llvmlite")
    chosen = alternatives(spaces.phases())
    assert {"llvm.instcombine", "llvm.sroa"} <= set(chosen)
    assert not {"llvm.licm", "llvm.refprune"} & set(chosen)
    for text in chosen:
        apass.parse_pipeline(text)


def test_random_phases_run() -> None:
    generator = random.Random(20)
    chosen = alternatives(spaces.phases())
    for _ in some(range(24)):
        text = ",".join(generator.choice(chosen) for _ in range(12))
        mod = Module.parse(TEXTS[generator.choice(list(TEXTS))])
        with row(text):
            ADAPTER.verify(run(text, mod))


def test_random_flags_run() -> None:
    generator = random.Random(20)
    first, _, _ = spaces.flags().partition(",?")
    chosen = [first, *alternatives(spaces.flags())]
    assert all("=?" in text for text in chosen)
    mod = Module.parse(next(iter(TEXTS.values())))
    for text in chosen:
        for _ in some(range(6)):
            pipeline = filled(text, generator)
            with row(pipeline):
                run(pipeline, mod)


def test_learned_sequences_parse() -> None:
    found = spaces.sequences()
    assert len(found) == len(set(found))
    for text in found:
        with row(text):
            assert str(apass.parse_pipeline(text)) == text
