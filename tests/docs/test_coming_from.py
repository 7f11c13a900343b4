"""Each line of the tables of flags does the same on both sides."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.docs.compiler_files import FILES, LLVM, MLIR, XDSL
from tests.docs.shells import MissingToolError, Shell
from tests.helpers.llvm_modules import needs_opt
from tests.helpers.mlir_modules import NEEDS_MLIR
from tests.helpers.repository import ROOT
from tests.helpers.rows import row

pytestmark = [pytest.mark.process, pytest.mark.slow]


@dataclass(frozen=True)
class Compiler:
    """A compiler, with what the tables of its page leave out."""

    module: str
    """The file of the module."""
    native: str
    """Its command."""
    takes: str
    """The command of apass that takes the same arguments."""
    passes: tuple[str, str]
    """The options of two passes, for the compiler and for apass."""
    names: str
    """The names of the passes, as a pattern."""
    prints: str = ""
    """Options of the command with which both print the same text."""
    long_option: str = "--none"
    """The option of a pipeline that apass takes under the same name."""


OF_LLVM: Final = Compiler(
    "m.ll",
    "opt",
    "apass llvm-opt",
    ("-passes=sroa,gvn", "-p llvm.sroa,llvm.gvn"),
    "sroa|gvn",
    prints="-S",
    long_option="-passes=",
)
OF_MLIR: Final = Compiler(
    "m.mlir",
    "mlir-opt",
    "apass mlir-opt",
    ("--cse --inline", "-p mlir.cse,mlir.inline"),
    "cse|inline",
    prints="--mlir-print-local-scope",
    long_option="--pass-pipeline=",
)
OF_XDSL: Final = Compiler(
    "m.mlir",
    "xdsl-opt",
    "apass xdsl-opt",
    ("-p canonicalize,cse", "-p xdsl.canonicalize,xdsl.cse"),
    "canonicalize|cse",
)

Check = Callable[[Shell, Compiler, str, str], None]
"""Compares two command lines: it takes the compiler, and the lines of both sides."""


def tables(page: str) -> Mapping[str, Sequence[tuple[Sequence[str], Sequence[str]]]]:
    """Return the code in the rows of the first table of each section."""
    found: dict[str, list[tuple[Sequence[str], Sequence[str]]]] = {}
    for section in (ROOT / "docs/explanation" / page).read_text().split("\n## ")[1:]:
        rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
        cells = [tuple(tuple(re.findall(r"`([^`]+)`", cell)) for cell in cells) for cells in rows[1:]]
        found[section.partition("\n")[0]] = [(left, right) for left, right in cells]
    return found


def prepared(folder: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch, text: str) -> Shell:
    """Return a shell in a folder with the files."""
    for name, contents in {**FILES, compiler.module: text}.items():
        folder.joinpath(name).write_text(contents)
        folder.joinpath(name).chmod(0o755 if name.endswith(".sh") else 0o644)
    return Shell(folder, monkeypatch)


def check_table(shell: Shell, compiler: Compiler, section: str, page: str, checks: Mapping[str, Check]) -> None:
    """Check each pair of command lines in a table, and that each row has a check."""
    rows = tables(page)[section]
    assert [left[0] for left, _ in rows] == list(checks), "each line of the table needs a check"
    for left, right in rows:
        for native, ours in ((native, ours) for native in left for ours in right):
            # Programs such as clang may be missing beside the one of the page.
            with row(f"{native} | {ours}"), suppress(MissingToolError):
                checks[left[0]](shell, compiler, native, ours)


def without_head(text: str) -> str:
    """Return a module without its name, and without empty lines."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("; ModuleID")]
    return "\n".join(lines)


def check_pipeline(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the results of pipelines, also of the command that takes the line."""
    suffix = Path(compiler.module).suffix
    line = f"{compiler.module} {compiler.prints} {native}"
    assert "error" not in shell.native(f"{compiler.native} {line} -o expected{suffix}").lower()
    expected = without_head(shell.text(f"expected{suffix}"))
    assert shell.ours(f"apass opt {compiler.module} {ours} -q -o result{suffix}") == ""
    assert without_head(shell.text(f"result{suffix}")) == expected
    shell.ours(f"{compiler.takes} {line} -o taken{suffix} --timing")
    assert without_head(shell.text(f"taken{suffix}")) == expected
    if native.startswith(compiler.long_option):
        assert shell.ours(f"apass opt {compiler.module} {native} -q -o same{suffix}") == ""
        assert without_head(shell.text(f"same{suffix}")) == expected


@pytest.mark.parametrize(
    ("page", "compiler", "text"),
    [
        pytest.param("coming_from_llvm.md", OF_LLVM, LLVM, marks=needs_opt, id="llvm"),
        pytest.param("coming_from_mlir.md", OF_MLIR, MLIR, marks=NEEDS_MLIR, id="mlir"),
        pytest.param("coming_from_xdsl.md", OF_XDSL, XDSL, id="xdsl"),
    ],
)
def test_pipelines_give_the_same_result(
    page: str, compiler: Compiler, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = prepared(tmp_path, compiler, monkeypatch, text)
    rows = tables(page)["Write pipelines"]
    assert rows
    check_table(shell, compiler, "Write pipelines", page, {left[0]: check_pipeline for left, _ in rows})


def both(shell: Shell, compiler: Compiler, native: str, ours: str, module: str = "") -> tuple[str, str]:
    """Return what both print for a module with the flags of a row."""
    module = module or compiler.module
    ours = f"{compiler.passes[1]} {ours} -q -o result{Path(module).suffix}"
    native = f"{compiler.native} {module} {compiler.prints} {compiler.passes[0]} {native}"
    return shell.native(f"{native} -o expected{Path(module).suffix}"), shell.ours(f"apass opt {module} {ours}")


def shown(text: str, compiler: Compiler) -> Sequence[str]:
    """Return the names of the passes in a text, in order."""
    return list(dict.fromkeys(re.findall(compiler.names, text.lower())))


def passes(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the passes that are shown, in order."""
    texts = both(shell, compiler, native, ours)
    expected, names = (shown(text, compiler) for text in texts)
    assert expected, texts
    assert names == expected, texts


def timed(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the passes that have a time, in any order."""
    texts = both(shell, compiler, native, ours)
    expected, names = (shown(text, compiler) for text in texts)
    assert len(expected) == 2, texts
    assert sorted(names) == sorted(expected), texts


def results(shell: Shell, compiler: Compiler, native: str, ours: str, module: str = "") -> None:
    """Compare the resulting modules."""
    texts = both(shell, compiler, native, ours, module)
    suffix = Path(module or compiler.module).suffix
    found = [without_head(shell.text(f"{name}{suffix}")) for name in ("expected", "result")]
    assert found[1] == found[0], texts


def functions(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the functions that are printed."""
    expected, names = ({*re.findall(r"define i32 @(\w+)", text)} for text in both(shell, compiler, native, ours))
    assert names == expected == {"square"}


def dumps(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the passes after which there is a file."""
    found: list[set[str]] = []
    for index, folder in enumerate(("theirs", "ours")):
        both(shell, compiler, native.replace("dumps", folder), ours.replace("dumps", folder) if index else "")
        names = [str(path.relative_to(shell.folder)) for path in shell.folder.joinpath(folder).rglob("*")]
        found.append({*shown("\n".join(names), compiler)})
    assert found[1] == found[0] != set()


def executed(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare what the command prints last."""
    expected, text = (re.findall(r"\d+ loads", printed) for printed in both(shell, compiler, native, ours))
    assert text[-1] == expected[-1]


def traces(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the passes in the timelines."""
    found: list[set[str]] = []
    for index in range(2):
        both(shell, compiler, native if index == 0 else "", ours if index else "")
        json.loads(shell.text("trace.json"))
        found.append({*shown(shell.text("trace.json"), compiler)})
        shell.folder.joinpath("trace.json").unlink()
    assert found[1] == found[0] != set()


def remarks(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the messages of remarks."""
    printed, _ = both(shell, compiler, native, ours)
    expected = set(re.findall(r"remark: \S+ (.*)", printed))
    assert expected
    text = shell.text("remarks.yaml")
    assert [message for message in expected if message not in text] == []


def one_function(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare results for one function, for which passes have the same numbers."""
    results(shell, compiler, native, ours, "one.ll")
    assert "alloca" not in shell.text("result.ll")


def plugin(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare what a plugin prints."""
    shell.native("clang -shared -fPIC plugin.c -o plugin.so")
    expected, printed = both(shell, compiler, native, ours)
    assert "plugin is loaded" in expected
    # It is a diagnostic, which -q hides.
    printed = shell.ours(f"apass opt {compiler.module} {compiler.passes[1]} {ours} -o result.ll")
    assert "plugin is loaded" in printed


def refused(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the message about a missing plugin."""
    expected, _ = both(shell, compiler, native, ours)
    printed = shell.ours(f"apass opt {compiler.module} {compiler.passes[1]} {ours} -o result.mlir")
    (message,) = re.findall(r"Failed to load .*", expected)
    assert message in printed


def on(module: str) -> Check:
    """Return a check of the results for another module."""
    return lambda shell, compiler, native, ours: results(shell, compiler, native, ours, module)


def between(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the passes whose results are printed; xDSL leaves out the last."""
    texts = both(shell, compiler, native, ours)
    expected, names = (shown(text, compiler) for text in texts)
    assert expected == names[:1] == ["canonicalize"]
    assert len(names) == 2


def diagnostics(module: str) -> Check:
    """Return a check of the error that is written in place of the module."""

    def check(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
        expected = shell.native(f"{compiler.native} {module} {compiler.passes[0]} {native}").strip()
        printed = shell.ours(f"apass opt {module} {compiler.passes[1]} {ours} -q -o -")
        assert expected.splitlines()[-1] in printed

    return check


LOOK: Final[Mapping[str, Mapping[str, Check]]] = {
    "llvm": {
        "-print-before=gvn": passes,
        "-print-after=sroa": passes,
        "-print-after-all": passes,
        "-print-after-all -filter-print-funcs=square": functions,
        "-print-after-all -ir-dump-directory=dumps": dumps,
        "-print-changed=diff": passes,
        "-print-changed=diff-quiet -filter-passes=gvn": passes,
        "-exec-on-ir-change=./show.sh": executed,
        "-debug-pass-manager": passes,
        "-time-passes": timed,
        "-time-trace -time-trace-file=trace.json": traces,
        "-pass-remarks=gvn -pass-remarks-missed=gvn": remarks,
        "-verify-each": results,
        "-opt-disable=gvn": results,
        "-opt-bisect-limit=1": one_function,
        "-load-pass-plugin=./plugin.so": plugin,
    },
    "mlir": {
        "--mlir-print-ir-before=inline": passes,
        "--mlir-print-ir-after=cse": passes,
        "--mlir-print-ir-after-all": passes,
        "--mlir-print-ir-after-all --mlir-print-ir-after-change": passes,
        "--mlir-print-ir-after-all --mlir-print-ir-tree-dir=dumps": dumps,
        "--mlir-timing --mlir-timing-display=list": timed,
        "--mlir-timing": timed,
        "--log-actions-to=-": passes,
        "--verify-each": results,
        "--mlir-disable-threading": results,
        "--allow-unregistered-dialect": on("unregistered.mlir"),
        "--load-pass-plugin=./no.so": refused,
        "--load-dialect-plugin=./no.so": refused,
        "--split-input-file": on("split.mlir"),
    },
    "xdsl": {
        "--print-between-passes": between,
        "--time-passes": timed,
        "--print-op-generic": results,
        "--allow-unregistered-dialect": on("unregistered.mlir"),
        "--split-input-file": on("split.mlir"),
        "--verify-diagnostics": diagnostics("wrong.mlir"),
        "--parsing-diagnostics": diagnostics("unknown.mlir"),
    },
}


@needs_opt
def test_flags_of_opt_have_the_same_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = prepared(tmp_path, OF_LLVM, monkeypatch, LLVM)
    check_table(shell, OF_LLVM, "Look at a run", "coming_from_llvm.md", LOOK["llvm"])


@NEEDS_MLIR
def test_flags_of_mlir_opt_have_the_same_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = prepared(tmp_path, OF_MLIR, monkeypatch, MLIR)
    check_table(shell, OF_MLIR, "Look at a run", "coming_from_mlir.md", LOOK["mlir"])


def test_flags_of_xdsl_opt_have_the_same_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = prepared(tmp_path, OF_XDSL, monkeypatch, XDSL)
    check_table(shell, OF_XDSL, "Look at a run", "coming_from_xdsl.md", LOOK["xdsl"])


def same_text(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Compare what both print, except for empty lines."""
    assert without_head(shell.ours(ours.replace(" < ", " -q -o - < "))) == without_head(shell.native(native))


def same_file(shell: Shell, compiler: Compiler, native: str, ours: str) -> None:
    """Compare the files that both write."""
    found: list[str] = []
    for line in (native, ours):
        (shell.native if line is native else shell.ours)(line)
        name = line.rpartition(" ")[2]
        found.append(shell.native(f"{compiler.native} {compiler.prints} {name}"))
        shell.folder.joinpath(name).unlink()
    assert without_head(found[1]) == without_head(found[0])


def listed(pattern: str) -> Check:
    """Return a check that apass lists each pass that a compiler lists."""

    def check(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
        # The analyses of LLVM are options of passes.
        text = re.sub(r"^[\w ]*analyses.*:\n(?:  .*\n)*", "", shell.native(native), flags=re.MULTILINE)
        groups = [re.sub(r"\s", "", group) for group in re.findall(pattern, text, re.MULTILINE)]
        names = {name for group in groups for name in group.split(",")}
        assert len(names) > 100
        lines = shell.ours(f"{ours} --output-format json").splitlines()
        known = {json.loads(line)["name"].partition(".")[2] for line in lines}
        assert {name for name in names if name not in known} == set()

    return check


def planned(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Check that apass runs the passes that opt prints."""
    names = re.findall(r"[\w-]+(?=[<,()]|$)", re.sub(r"<[^<>]*>", "", shell.native(native).strip()))
    text = shell.ours(ours)
    assert len(names) > 20
    assert [name for name in names if name not in ("verify", "BitcodeWriterPass") and f"llvm.{name}" not in text] == []


def written(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Compare pipelines, without the parameters that apass leaves out."""
    plain = re.sub(r"<[^<>]*>|\{[^{}]*\}|\s", "", shell.native(native))
    assert shell.ours(ours).strip() in plain


def reduced(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Check that both find a smaller module with the same property."""
    shell.native(native)
    name = native.rpartition(" ")[2]
    (kept,) = re.findall(r"grep -q (\w+)", ours)
    assert kept in shell.text(name)
    shell.ours(ours)
    (found,) = shell.folder.joinpath("small").glob(f"*{Path(name).suffix}")
    assert kept in found.read_text()
    original = "m" + Path(name).suffix
    assert len(found.read_text()) < len(shell.text(original))


def clang(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Compare the modules of clang's pipeline and of apass."""
    shell.native(native)
    shell.native(native.replace("-o clang.ll", "-Xclang -disable-llvm-passes -o plain.ll"))
    assert shell.ours(f"{ours} -q") == ""
    assert without_head(shell.text("apass.ll")) == without_head(shell.text("clang.ll"))


def reported(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Check that both show times of the same passes."""
    texts = shell.native(native), shell.ours(f"{ours} -q -o result.ll")
    for name in ("sroa", "instcombine", "simplifycfg", "loopvectorize"):
        assert all(name in text.lower().replace("-", "") for text in texts)


def failing(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Check that both print the module whose pass fails."""
    texts = shell.native(native), shell.ours(f"{ours} -q")
    assert all("test-pass-failure" in text and text.count("func.func") == 3 for text in texts)


def reproducers(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Check that both write the module with the pass."""
    shell.native(native)
    shell.ours(f"{ours} -q")
    assert "test-pass-failure" in shell.text("crash.mlir")
    (found,) = shell.folder.joinpath("failed").rglob("reproducer.json")
    assert "mlir.test-pass-failure" in found.read_text()


def replayed(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Check that the pass fails again."""
    assert shell.native(f"{native} -o expected.mlir").strip() == ""
    assert "mlir.test-pass-failure" in shell.ours(f"{ours} -q -o result.mlir")
    assert not shell.folder.joinpath("expected.mlir").exists()


def remarks_of_mlir(shell: Shell, _compiler: Compiler, native: str, ours: str) -> None:
    """Compare the messages of remarks."""
    expected = set(re.findall(r"remark: (.*)", shell.native(native)))
    shell.ours(f"{ours} -q -o result.mlir")
    text = shell.text("remarks.yaml").replace('\\"', '"')
    assert expected
    assert [message for message in expected if message not in text] == []


@needs_opt
def test_tools_of_llvm_have_the_same_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = prepared(tmp_path, OF_LLVM, monkeypatch, LLVM)
    levels = {
        f"clang -{level} -fno-discard-value-names -S -emit-llvm m.c -o clang.ll": clang
        for level in ("O1", "O2", "O3", "Os", "Oz")
    }
    checks: Mapping[str, Check] = {
        "opt -S -passes=sroa,gvn < m.ll": same_text,
        "opt m.ll -passes=sroa,gvn -o out.bc": same_file,
        "opt -print-passes": listed(r"^  ([a-z][\w-]+)(?:<.*)?$"),
        "opt -passes='default<O1>' -print-pipeline-passes m.ll -disable-output": planned,
        "opt -passes=sroa,gvn -print-pipeline-passes m.ll -disable-output": written,
        "llvm-reduce --test=./lost.sh m.ll -o small.ll": reduced,
        **levels,
        "clang -O2 -ftime-report -c m.c": reported,
    }
    check_table(shell, OF_LLVM, "Use the tools", "coming_from_llvm.md", checks)


@NEEDS_MLIR
def test_tools_of_mlir_have_the_same_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = prepared(tmp_path, OF_MLIR, monkeypatch, MLIR)
    fails = "mlir-opt m.mlir --test-pass-failure"
    checks: Mapping[str, Check] = {
        "mlir-opt --cse --inline < m.mlir": same_text,
        "mlir-opt m.mlir --cse --inline --emit-bytecode -o out.mlirbc": same_file,
        "mlir-opt --list-passes": listed(r"^  --([\w-]+)"),
        "mlir-opt m.mlir --cse --inline --dump-pass-pipeline": written,
        "mlir-opt m.mlir --test-remark --remarks-filter=.*": remarks_of_mlir,
        f"{fails} --mlir-print-ir-after-failure": failing,
        f"{fails} --mlir-pass-pipeline-crash-reproducer=crash.mlir": reproducers,
        "mlir-opt crash.mlir --run-reproducer": replayed,
        "mlir-reduce m.mlir -reduction-tree='traversal-mode=0 test=./called.sh' -o small.mlir": reduced,
    }
    check_table(shell, OF_MLIR, "Use the tools", "coming_from_mlir.md", checks)


def test_tools_of_xdsl_have_the_same_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = prepared(tmp_path, OF_XDSL, monkeypatch, XDSL)
    checks: Mapping[str, Check] = {
        "xdsl-opt -f mlir -p canonicalize,cse < m.mlir": same_text,
        "xdsl-opt m.mlir -p canonicalize,cse -o out.mlir": same_file,
        "xdsl-opt --help": listed(r"Available passes are: ([\w,\s-]+?)\n  --"),
    }
    check_table(shell, OF_XDSL, "Use the tools", "coming_from_xdsl.md", checks)
