"""The passes of `opt`, compared with the program by itself."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

import apass
from apass.adapters.llvm import ADAPTER, Module, load_module
from apass.adapters.llvm.opt import find_opt
from apass.adapters.programs import OPT
from apass.instruments import BisectInstrument, BisectStep
from apass.pipelines.languages import native_text
from apass.pipelines.resume import rest_of
from apass.stores import MemoryStore
from apass.testing import RecordingInstrument
from tests.helpers.amounts import some
from tests.helpers.command_line import fresh_process, run_in
from tests.helpers.llvm_modules import TEXTS, by_opt_itself, needs_opt
from tests.helpers.rows import row

pytestmark = [needs_opt, pytest.mark.process]

LEFT_OUT = ("dot-", "view-", "print", "trigger-", "machine", "metarenamer", "embed-bitcode", "dxil")
"""Passes that crash on purpose, write files, need machine code, or depend on the name of the file."""


def written(mod: Module) -> str:
    """Return the text of a module as `opt` prints it for standard input."""
    return "; ModuleID = '<stdin>'\n" + mod.text.partition("\n")[2]


def run(text: str, mod: Module, *instruments: object) -> Module:
    context = apass.PassContext(instruments=instruments)
    result: Module = apass.run(apass.parse_pipeline(text), mod, context=context)
    return result


def pass_names() -> Sequence[str]:
    opt = find_opt()
    assert opt is not None
    entries = [entry for entry in opt.catalogue.passes if not entry.analyses]
    return [entry.name for entry in entries if not entry.name.startswith(LEFT_OUT)]


def test_every_listed_pass_is_registered() -> None:
    known = set(apass.list_passes())
    assert {f"llvm.{name}" for name in (*pass_names(), "gvn", "licm", "early-cse", "inline", "loop-vectorize")} <= known


@pytest.mark.parametrize("name", TEXTS)
def test_random_pipelines_give_the_text_of_opt(name: str) -> None:
    generator = random.Random(name)
    names = [one for one in pass_names() if "machine-function" not in one]
    for _ in some(range(12)):
        chosen = [generator.choice(names) for _ in range(generator.randint(1, 6))]
        pipeline = ",".join(f"llvm.{one}" for one in chosen)
        mod = Module.unread(TEXTS[name].encode())
        native = native_text(apass.parse_pipeline(pipeline), "llvm")
        expected = by_opt_itself(TEXTS[name], native)
        with row(native):
            if expected is None:
                with pytest.raises((apass.errors.AdapterError, apass.errors.HelperError)):
                    run(pipeline, mod)
            elif "SkipOptimization" not in TEXTS[name]:
                assert written(run(pipeline, mod)) == expected


def test_native_pipelines_give_the_text_of_opt() -> None:
    mod = Module.unread(TEXTS["sum"].encode())
    for text in (
        "default<O2>,function(gvn)",
        "function(loop-mssa(licm),gvn)",
        "cgscc(inline,function(sroa,instcombine))",
        "default<Oz>",
        "gvn,sroa",
        "licm,indvars",
        "function<eager-inv>(simplifycfg<bonus-inst-threshold=2;no-keep-loops>)",
        "module(cgscc(devirt<2>(inline)),globaldce)",
        "require<globals-aa>,function(gvn<no-load-pre>)",
    ):
        with row(text):
            assert written(run(f"llvm:{text}", mod)) == by_opt_itself(TEXTS["sum"], text)
            assert native_text(apass.parse_pipeline(f"llvm:{text}"), "llvm") in (text, _wrapped(text))


def _wrapped(text: str) -> str:
    """Return a pipeline of functions or loops as `opt` wraps it."""
    return {"gvn,sroa": "function(gvn,sroa)", "licm,indvars": "function(loop-mssa(licm,indvars))"}.get(text, "")


def test_hooks_see_the_parts_of_a_pipeline() -> None:
    recording = RecordingInstrument()
    mod = Module.unread(TEXTS["sum"].encode())
    result = run("llvm:function(sroa,gvn),globaldce", mod, recording)
    begun = [line.split()[-1] for line in recording.log if "run_before_pass" in line]
    assert begun == ["sequential", "llvm.function", "llvm.sroa", "llvm.gvn", "llvm.globaldce"]
    assert written(result) == by_opt_itself(TEXTS["sum"], "function(sroa,gvn),globaldce")
    (parts,) = apass.parse_pipeline("llvm.default<O1>").passes[0].branches()
    assert any(str(part).startswith("llvm.function") for part in parts)


def test_consecutive_passes_share_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    program = tmp_path / "opt-22"
    program.write_text(f'#!/bin/sh\ncase "$*" in *ir-dump*) echo run >> {log};; esac\nexec {OPT.find()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("APASS_LLVM_OPT", str(program))
    mod = Module.unread(TEXTS["sum"].encode())
    run("llvm.sroa,llvm.gvn,llvm.globaldce", mod)
    # The run that asks whether the program writes text is one of them.
    alone = len(log.read_text().split())
    run("llvm.sroa,llvm.gvn,llvm.globaldce", mod, RecordingInstrument())
    assert (alone - len(log.read_text().split())) == -3


def test_marked_functions_are_left_alone() -> None:
    mod = Module.unread(TEXTS["symbols"].encode())
    marked = {name: func for name, func in mod.functions.items() if func.is_marked}
    assert marked
    result = run("llvm.instcombine,llvm.globaldce,llvm.sroa", mod)
    for name, func in marked.items():
        assert result.functions[name].text == func.text
    ADAPTER.verify(result)


def test_unchanged_module_is_returned_itself() -> None:
    text = "define i32 @f(i32 %x) {\n     ret i32 %x ; a comment\n}\n"
    mod = Module.unread(text.encode())
    assert run("llvm.instcombine,llvm.globaldce", mod) is mod
    assert run("llvm.instcombine", mod, RecordingInstrument()) is mod


def test_default_pipeline_follows_the_context() -> None:
    mod = Module.unread(TEXTS["sum"].encode())
    for level in (0, 1, 4):
        result = apass.run("llvm.default", mod, context=apass.PassContext(opt_level=level))
        assert written(result) == by_opt_itself(TEXTS["sum"], f"default<O{min(level, 3)}>")


def test_errors_name_line_and_reason() -> None:
    for text, message in (
        ("define i32 @f() {\n  ret i32 %x\n}\n", r"use of undefined value '%x'\n  at m.ll:2:11\n  ret i32 %x"),
        ("define i32 @f() {\n %a = add i32 %b, 1\n %b = add i32 %a, 1\n ret i32 %b\n}", "does not dominate all uses"),
    ):
        with pytest.raises(apass.errors.AdapterError, match=message):
            run("llvm.gvn", Module.unread(text.encode(), "m.ll"))
        with pytest.raises(apass.errors.VerifyError, match=message.partition("\\n")[0]):
            ADAPTER.verify(Module.unread(text.encode(), "m.ll"))


def test_wrong_parameters_are_errors() -> None:
    for text, message in (
        ("llvm.gvn<foo>", "invalid GVN pass parameter 'foo'"),
        ("llvm:function(globaldce)", "llvm.globaldce runs on a module, so it cannot be within llvm.function"),
        ("llvm:gvnn", "did you mean 'llvm.gvn'"),
        ("llvm:gvn(sroa)", "'gvn' is no manager of passes"),
        ("llvm:function(gvn", r"expected ',' or '\)', got the end"),
        ("llvm.simplifycfg{bonus_inst_threshold=x}", "expected int"),
        ("llvm.default{level=O9}", "expected 'O0'"),
        ("llvm.require", "needs an analysis"),
        ("llvm.gvn{engine=llvmlite}", "llvmlite has no pass 'gvn'"),
        ("llvm.jump-threading{threshold=3}", "option 'threshold' of llvm.jump-threading needs engine=llvmlite"),
    ):
        with row(text), pytest.raises(apass.errors.ApassError, match=message):
            apass.parse_pipeline(text)


def test_names_of_classes_and_levels_are_read() -> None:
    assert str(apass.parse_pipeline("llvm.InstCombine,llvm.O2,llvm.Default,llvm.Verifier")) == (
        "llvm.instcombine,llvm.default{level=O2},llvm.default,llvm.verify"
    )


@pytest.mark.parametrize("suffix", [".ll", ".bc"])
def test_files_are_read_by_the_first_pass(suffix: str, tmp_path: Path) -> None:
    source, path = tmp_path / "m.ll", tmp_path / f"n{suffix}"
    source.write_text(TEXTS["sum"])
    subprocess.run([OPT.find(), source, "-o" if suffix == ".bc" else "-So", path], check=True)
    mod = load_module(path)
    assert mod.instructions == Module.parse(TEXTS["sum"]).instructions
    expected = by_opt_itself(source.read_text(), "function(gvn)")
    assert expected is not None
    assert written(run("llvm.gvn", mod)).replace(str(source), "<stdin>") == expected
    assert run("llvm.gvn", mod).text.startswith(f"; ModuleID = '{path}'")


@pytest.mark.anyio
async def test_cancellation_kills_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, started = tmp_path / "opt-22", tmp_path / "started"
    program.write_text(f'#!/bin/sh\ncase "$*" in *gvn*) touch {started}; sleep 600;; esac\nexec {OPT.find()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("APASS_LLVM_OPT", str(program))
    pass_ = apass.parse_pipeline("llvm.gvn")
    async with anyio.create_task_group() as group:
        group.start_soon(pass_, Module.unread(TEXTS["sum"].encode()))
        while not started.exists():  # noqa: ASYNC110  it waits for another process
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_store_keeps_the_result_of_a_pipeline() -> None:
    store = MemoryStore()
    mod = Module.unread(TEXTS["sum"].encode())
    async with apass.PassContext(store=store):
        first = await apass.parse_pipeline("llvm:default<O1>")(mod)
        again = await apass.parse_pipeline("llvm:default<O1>")(Module.unread(TEXTS["sum"].encode()))
    assert first.comparable == again.comparable


@pytest.mark.anyio
@pytest.mark.parametrize("pipeline", ["llvm:function(gvn,instcombine)", "llvm:default<O1>"])
async def test_bisect_finds_passes_within_a_manager(pipeline: str) -> None:
    mod = Module.unread(TEXTS["sum"].encode())
    steps: list[BisectStep] = []
    async with apass.PassContext(instruments=[BisectInstrument(-1, report=steps.append)]):
        result = await apass.parse_pipeline(pipeline)(mod)
    assert {"llvm.default", "llvm.function"}.isdisjoint(str(step.position.steps[-1][1]) for step in steps)
    second = steps[1].position
    assert len(second.steps) > 2
    async with apass.PassContext(instruments=[BisectInstrument(2)]):
        before = await apass.parse_pipeline(pipeline)(mod)
    async with apass.PassContext(instruments=[RecordingInstrument()]):
        resumed = await rest_of(pipeline, second)(before)
    assert resumed.comparable == result.comparable


@pytest.mark.parametrize(
    ("program", "message"),
    [("no-such-opt", "APASS_LLVM_OPT names 'no-such-opt', which is not a program"), ("true", "lists no passes")],
)
def test_wrong_program_is_named_in_errors(program: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.ll").write_text(TEXTS["sum"])
    for pipeline in ("gvn", "llvm:gvn", "llvm.gvn"):
        environment = {"APASS_LLVM_OPT": program, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        status, _, err = run_in(tmp_path, "opt", "m.ll", "-p", pipeline, "-o", "out.ll", **environment)
        assert status == 2, err
        assert message in err


def test_missing_engine_is_named_in_errors(tmp_path: Path) -> None:
    (tmp_path / "m.ll").write_text(TEXTS["sum"])
    body = "import sys; sys.modules['llvmlite'] = None"
    for engine, message in (
        ("opt", "APASS_LLVM_OPT is 'llvmlite', so no pass runs in opt; unset it"),
        ("llvmlite", "APASS_LLVM_OPT chooses llvmlite, which is not installed: pip install 'apass[llvm]'"),
    ):
        hidden = body if engine == "llvmlite" else ""
        setting = f"import os; os.environ['APASS_LLVM_OPT'] = 'llvmlite'; {hidden}"
        pipeline = f"llvm.instcombine{{engine={engine}}}"
        status, _, err = fresh_process("opt", tmp_path / "m.ll", "-p", pipeline, "-o", tmp_path / "o.ll", body=setting)
        assert status == 2, err
        assert message in err


def test_parts_of_a_pipeline_are_asked_for_once() -> None:
    pipelines = [apass.get_pass("llvm.default", level="Oz") for _ in range(2)]
    first, second = (pipeline.branches()[0] for pipeline in pipelines)
    assert first is second
    assert len(first) > 5
