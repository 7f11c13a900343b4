"""The tools of apass on modules of xDSL: executors, caches, journals, debugging."""

import os
import sys
from pathlib import Path

import pytest

import apass as package
from apass.adapters.xdsl import ADAPTER
from tests.helpers.command_line import apass
from tests.helpers.folders import files
from tests.helpers.xdsl_modules import CALLS, SUMS, module, sums

BROKEN = """
import os
import apass
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp

def has_product(mod):
    return any(isinstance(op, arith.MuliOp) for op in mod.walk())

class Fail(apass.InPlacePass[ModuleOp], opt_level=0, name="tests.xdsl.Fail", register={register}):
    def transform_in_place(self, mod, ctx):
        if has_product(mod):
            raise ValueError("a product")
        return False

class Swap(apass.InPlacePass[ModuleOp], opt_level=0, name="tests.xdsl.Swap", register={register}):
    def transform_in_place(self, mod, ctx):
        for op in mod.walk():
            if isinstance(op, arith.MuliOp):
                op.parent.insert_op_before(new := arith.AddiOp(op.lhs, op.rhs), op)
                op.result.replace_all_uses_with(new.result)
                op.parent.erase_op(op)
                return True
        return False

class Crash(apass.InPlacePass[ModuleOp], opt_level=0, name="tests.xdsl.Crash", register={register}):
    def transform_in_place(self, mod, ctx):
        if has_product(mod):
            os._exit(11)
        return False
"""
PRODUCT = SUMS.replace("addi %y, %z", "addi %unused, %z")
CHECK = """
import sys
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.interpreter import Interpreter
from xdsl.interpreters import register_implementations
from apass.adapters.xdsl.text import new_context, parse_module
mod = parse_module(open(sys.argv[1]).read(), "m")
interpreter = Interpreter(mod)
register_implementations(interpreter, new_context())
two, three, product = (IntegerAttr(number, i32) for number in (2, 3, 30))
sys.exit(interpreter.call_op("sums", (two, three)) != (product,))
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that registers broken passes; each test has its own names."""
    monkeypatch.setattr("apass.loading.user_modules._LOADED", {})
    monkeypatch.setattr("apass.concurrency.processes.pool._IMPORTED", [])
    path = tmp_path / f"broken_{tmp_path.name}.py"
    path.write_text(BROKEN.replace("tests.xdsl", f"tests.{tmp_path.name}").replace(", register={register}", ""))
    return path


def name_of(broken: Path, name: str) -> str:
    return f"tests.{broken.parent.name}.{name}"


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.anyio
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("text", ["xdsl.Default", "xdsl.convert-scf-to-cf,xdsl.cse"])
async def test_process_executor_gives_the_same_results(text: str) -> None:
    mods = [sums(3), module(CALLS), module(SUMS)]
    pipeline = package.parse_pipeline(text)
    inline = [await pipeline(mod) for mod in mods]
    async with package.PassContext(executor="process"):
        by_function = [await pipeline(mod) for mod in mods]
    whole = await package.optimize_all(mods, pipeline, executor="process")
    for one, other in zip(inline, by_function, strict=True):
        assert ADAPTER.exact_fingerprint(one) == ADAPTER.exact_fingerprint(other)
    assert list(map(ADAPTER.exact_fingerprint, whole)) == list(map(ADAPTER.exact_fingerprint, inline))


def test_cache_and_journal_skip_finished_work(tmp_path: Path) -> None:
    model = written(tmp_path / "in" / "sums.mlir", SUMS)
    cached = ("opt", model, "-o", tmp_path / "out", "--cache", tmp_path / "cache")
    assert apass(*cached).exit_code == 0
    first = (tmp_path / "out" / "sums.mlir").read_text()
    again = apass(*cached, "--output-format", "json")
    assert '"cached": {"sequential": 1}' in again.stdout
    assert (tmp_path / "out" / "sums.mlir").read_text() == first
    journal = ("opt", model, "-o", tmp_path / "out", "--journal", tmp_path / "journal", "--output-format", "json")
    outcomes = [apass(*journal).stdout.partition('"outcome": ')[2][:9] for _ in range(2)]
    assert outcomes == ['"changed"', '"earlier"']


def test_changes_and_report_show_functions(tmp_path: Path) -> None:
    model = written(tmp_path / "sums.mlir", SUMS)
    result = apass(
        "opt",
        model,
        "-o",
        tmp_path / "out.mlir",
        "--print-changed",
        "--report",
        tmp_path / "report.html",
        "--verify",
        "changed",
    )
    assert result.exit_code == 0
    assert "IR changed by xdsl.canonicalize (module 'sums.mlir')" in result.output
    assert "-  %unused = arith.muli %y, %z : i32" in result.output
    assert "xdsl.canonicalize" in (tmp_path / "report.html").read_text()
    assert apass("plan", model).stdout.startswith("mlir: xdsl.Default\n")


@pytest.mark.process
@pytest.mark.slow
def test_bisect_finds_the_broken_pass(tmp_path: Path, broken: Path) -> None:
    model, check = written(tmp_path / "sums.mlir", PRODUCT), written(tmp_path / "check.py", CHECK)
    pipeline = f"xdsl.cse,{name_of(broken, 'Swap')},xdsl.canonicalize"
    result = apass("bisect", model, "--load", broken, "-p", pipeline, "--check", f"{sys.executable} {check}")
    assert result.exit_code == 0, result.output
    assert f"the first bad pass is (2) {name_of(broken, 'Swap')}" in result.stdout


def test_reduce_keeps_a_handful_of_operations(tmp_path: Path, broken: Path) -> None:
    model = written(tmp_path / "m.mlir", PRODUCT + CALLS)
    failed = apass(
        "opt", model, "--load", broken, "-p", f"xdsl.cse,{name_of(broken, 'Fail')}", "--reproducer", tmp_path / "bad"
    )
    assert failed.exit_code == 1, failed.output
    (folder,) = (path.parent for path in (tmp_path / "bad").rglob("reproducer.json"))
    assert "fails the same way" in apass("replay", folder).output
    assert apass("reduce", folder).exit_code == 0
    reduced = ADAPTER.loads((folder / "reduced" / "module.mlir").read_bytes())
    ADAPTER.verify(reduced)
    assert [op.name for op in reduced.walk()][1:] == [
        "func.func",
        "builtin.unrealized_conversion_cast",
        "arith.muli",
        "func.return",
    ]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the pass ends its process with a status of POSIX")
def test_crash_leaves_a_reproducer_and_other_results(tmp_path: Path, broken: Path) -> None:
    for index, text in enumerate((SUMS.replace("muli", "subi"), PRODUCT, SUMS.replace("muli", "xori"))):
        written(tmp_path / "in" / f"m{index}.mlir", text)
    result = apass(
        "opt", tmp_path / "in", "-o", tmp_path / "out", "--load", broken, "--executor", "process",
        "-p", f"{name_of(broken, 'Crash')},xdsl.Default", "--reproducer", tmp_path / "bad",
    )  # fmt: skip
    assert (result.exit_code, files(tmp_path / "out")) == (1, ["m0.mlir", "m2.mlir"])
    assert "WorkerLostError: pass '" in result.stdout.partition("failed m1.mlir")[2]
    (folder,) = (path.parent for path in (tmp_path / "bad").rglob("reproducer.json"))
    assert str(folder) in result.stdout.replace("\n", "")
    assert "arith.muli" in (folder / "module.mlir").read_text()
    assert apass("reduce", folder).exit_code == 0
    assert len(list(ADAPTER.loads((folder / "reduced" / "module.mlir").read_bytes()).walk())) <= 6
