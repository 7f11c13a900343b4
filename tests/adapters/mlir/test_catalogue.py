"""The passes that an `mlir-opt` lists."""

from pathlib import Path

import pytest

import apass
from apass.adapters.mlir.catalogue import OptionEntry, PassEntry, catalogue_of, option_pairs, read_help
from apass.adapters.programs import MLIR_OPT
from tests.helpers.mlir_modules import NEEDS_MLIR, script

HELP = """\
OPTIONS:
  --before                                      - Not a pass
  Compiler passes to run
    Passes:
      --first-pass                              -   Does a thing
        --flag                                  - A flag
        --mode=<value>                          - The mode
    =fast                                  -   Fast
    =slow
        -O <uint>                               - Level
        --sizes=<int>                           - Sizes
      --second                                  - {empty}
    Pass Pipelines:
      --all                                     -   Everything
        --name=<string>                         - Name
  --after                                       - Not a pass
""".replace("{empty}", "  ")


def test_help_is_read() -> None:
    first, second, every = read_help(HELP)
    assert (first.name, first.doc, first.is_pipeline) == ("first-pass", "Does a thing", False)
    assert first.options == (
        OptionEntry("flag", "bool", "A flag"),
        OptionEntry("mode", "choice", "The mode", ("fast", "slow")),
        OptionEntry("O", "int", "Level"),
        OptionEntry("sizes", "int", "Sizes"),
    )
    assert second == PassEntry("second", "", ())
    assert (every.name, every.is_pipeline, every.options) == ("all", True, (OptionEntry("name", "str", "Name"),))
    assert list(read_help("no passes")) == []


def test_option_pairs_may_contain_braces_and_spaces() -> None:
    assert list(option_pairs("a=1 b={x y} c=  d")) == [("a", "1"), ("b", "{x y}"), ("c", ""), ("d", "true")]


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.slow
def test_catalogue_is_kept_until_the_program_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runs = tmp_path / "runs"
    path = script(f'echo run >> {runs}\nexec {MLIR_OPT.find()} "$@"', tmp_path / "mlir-opt")
    catalogue = catalogue_of(path)
    entries = {entry.name: entry for entry in catalogue.passes}
    assert entries["inline"].anchor == entries["canonicalize"].anchor == "builtin.module"
    assert entries["affine-loop-tile"].anchor == "func.func"
    # It runs on any function, which mlir-opt shows only when it refuses a module.
    assert entries["affine-loop-unroll"].anchor == "func.func"
    assert entries["sparsifier"].is_pipeline
    options = {option.name: option for option in entries["canonicalize"].options}
    assert (options["max-iterations"].kind, options["max-iterations"].default) == ("int", "10")
    assert (options["enable-patterns"].is_list, options["region-simplify"].choices[0]) == (True, "disabled")
    count = len(runs.read_text().splitlines())
    assert catalogue_of(path) == catalogue
    assert len(runs.read_text().splitlines()) == count
    (file,) = (tmp_path / "cache/apass").iterdir()
    file.write_text("damaged")
    assert catalogue_of(path) == catalogue
    assert len(runs.read_text().splitlines()) == 2 * count


@pytest.mark.process
def test_other_program_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(apass.errors.AdapterError, match="lists no passes with --help; set APASS_MLIR_OPT"):
        catalogue_of(script("echo hello", tmp_path / "mlir-opt"))
