"""Tools on modules of LLVM: files, bisect, reduce, executors."""

import random
from itertools import product
from pathlib import Path

import pytest

import apass
from apass import PassContext
from apass.adapters.llvm import Function, Module, load_module, save_bitcode, save_text
from apass.executors import ProcessExecutor
from apass.instruments import ReproducerInstrument
from tests.helpers.command_line import apass as command
from tests.helpers.llvm_modules import TEXTS, module
from tests.helpers.rows import row

pytestmark = pytest.mark.anyio


@apass.function_pass(opt_level=0, name="tests.llvm.Break")
def Break(func: Function, mod: Module, ctx: PassContext) -> Function:
    return func.with_definition(func.definition.replace("mul i32", "add i32"))


@apass.function_pass(opt_level=0, name="tests.llvm.Reject")
def Reject(func: Function, mod: Module, ctx: PassContext) -> Function:
    if "mul" in func.definition:
        raise ValueError("mul is not supported")
    return func


def reproducers(folder: Path) -> list[Path]:
    return [path.parent for path in folder.rglob("reproducer.json")]


@pytest.mark.process
@pytest.mark.parametrize("suffix", [".ll", ".bc"])
def test_files_restore_modules(suffix: str, tmp_path: Path) -> None:
    mod, path = module("symbols"), tmp_path / f"m{suffix}"
    (save_bitcode if suffix == ".bc" else save_text)(mod, path)
    assert load_module(path).text == mod.text


@pytest.mark.process
@pytest.mark.slow
def test_damaged_files_are_errors(tmp_path: Path) -> None:
    data = module("sum").bitcode
    path = tmp_path / "m.bc"
    for seed in range(8):
        generator, damaged = random.Random(seed), bytearray(data)
        for _ in range(5):
            damaged[generator.randrange(4, len(data))] = generator.randrange(256)
        path.write_bytes(damaged if seed % 2 else damaged[: generator.randrange(4, len(data))])
        try:
            load_module(path)
        except (apass.errors.AdapterError, apass.errors.VerifyError) as error:
            assert "LLVM" in str(error)  # noqa: PT017  some changes do no damage


@pytest.mark.process
def test_files_that_crash_llvm_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "m.ll"
    path.write_text("@g = external global " + "[1 x " * 100_000 + "i8" + "]" * 100_000)
    with pytest.raises(apass.errors.AdapterError, match="LLVM crashed when it read"):
        load_module(path)
    path.write_bytes(b"; \xff")
    with pytest.raises(
        apass.errors.AdapterError, match=r"neither text in UTF-8 \('utf-8' codec can't decode byte 0xff"
    ):
        load_module(str(path))
    path.write_text("\n\ndefine i32 @f( {")
    with pytest.raises(apass.errors.AdapterError, match="line 3, column 17: expected type"):
        load_module(path)


async def test_bisect_finds_the_broken_pass() -> None:
    mod = module("symbols")
    pipeline = apass.Sequential([apass.get_pass("llvm.sroa"), Break, apass.get_pass("llvm.dce")])

    def check(candidate: Module) -> bool:
        return "%all = add" not in candidate.text

    found = await apass.bisect(mod, pipeline, check)
    assert (found.number, found.function, "+  %all = add i32" in found.diff) == (2, "entry", True)


async def test_reduce_leaves_a_few_instructions(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mul is not supported"):
        async with PassContext(instruments=[ReproducerInstrument(tmp_path)]):
            await Reject(module("symbols"))
    (folder,) = reproducers(tmp_path)
    await apass.reduce(folder, Reject, output=tmp_path / "small")
    small = Module.parse((tmp_path / "small" / "module.ll").read_text())
    assert (list(small.functions), small.instructions) == (["entry"], 2)


INVALID = """  %early = add i32 %late, 1
  %late = add i32 1, 2
"""
"""Two instructions of which the first uses the result of the second."""


async def test_invalid_module_is_refused_and_reduced(tmp_path: Path) -> None:
    mod = Module.parse("define i32 @f(i32 %a) {\nstart:\n  ret i32 %a\n}\n\ndefine void @g() {\n  ret void\n}\n")
    func = mod.functions["f"]
    broken = mod.with_functions({"f": func.with_definition(func.definition.replace("  ret", f"{INVALID}  ret"))})
    pass_: apass.Pass[Module] = apass.get_pass("llvm.instcombine")
    with pytest.raises(apass.errors.VerifyError, match="does not dominate all uses"):
        async with PassContext(instruments=[ReproducerInstrument(tmp_path)]):
            await pass_(broken)
    (folder,) = reproducers(tmp_path)
    await apass.reduce(folder, output=tmp_path / "small")
    text = (tmp_path / "small" / "module.ll").read_text()
    assert text[text.index("define") :] == f"define i32 @f(i32 %a) {{\nstart:\n{INVALID}  ret i32 %a\n}}\n"


@pytest.mark.process
@pytest.mark.slow
async def test_processes_give_the_same_text() -> None:
    passes = ("sroa", "instcombine", "simplifycfg", "loop-rotate", "function-simplification")
    executor = ProcessExecutor(workers=2)
    for name, pass_name in product(("sum", "symbols", "library"), passes):
        pass_: apass.Pass[Module] = apass.get_pass(f"llvm.{pass_name}")
        mod = module(name)
        with row((name, pass_name)):
            async with PassContext(executor=executor):
                result = await pass_(mod)
            assert result.text == (await pass_(mod)).text


@pytest.mark.process
@pytest.mark.slow
def test_commands_work_on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sum", "symbols"):
        (tmp_path / f"{name}.ll").write_text(TEXTS[name])

    def call(*arguments: str) -> str:
        result = command(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    options = ["--verify", "changed", "--verify-outputs", "--report", "r.html", "--journal", "j", "--cache", "c.sqlite"]
    assert "2 of 2 models written" in call("opt", "sum.ll", "symbols.ll", "-o", "out", *options)
    assert "1 of 1 models written" in call("opt", "-p", "llvm.Oz", "out/sum.ll", "-o", "sum.bc", "--print-changed")
    assert "llvm.default" in call("plan", "sum.ll")
    assert "llvm.instcombine" in call("passes", "llvm.inst*")
    assert (tmp_path / "r.html").exists()
    assert (tmp_path / "sum.bc").read_bytes().startswith(b"BC")
