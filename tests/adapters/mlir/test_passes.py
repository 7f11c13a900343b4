"""The passes of `mlir-opt`: options, anchors, results, failures and processes."""

import pickle
from pathlib import Path

import pytest

import apass
from apass.adapters.mlir import ADAPTER, MLIRModule, module_from_bytes, module_to_bytecode
from apass.adapters.mlir.passes import MLIRPass
from apass.adapters.mlir.running import Step
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, RESOURCES, many_functions, mlir_opt, script

pytestmark = [NEEDS_MLIR, pytest.mark.process]


@pytest.mark.anyio
async def test_result_equals_that_of_mlir_opt() -> None:
    pipeline = apass.parse_pipeline("mlir.canonicalize{max_iterations=3},mlir.inline,mlir.symbol-dce")
    result = await pipeline(MLIRModule(CALLS))
    expected = mlir_opt(CALLS, "builtin.module(canonicalize{max-iterations=3},inline,symbol-dce)")
    assert result.text == expected


@pytest.mark.anyio
async def test_functions_in_several_processes_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    running = pytest.importorskip("apass.adapters.mlir.running")
    monkeypatch.setattr(running, "CHUNK", 1000)
    monkeypatch.setattr(running, "PROCESSES", 3)
    mod = many_functions(7)
    pipeline = apass.parse_pipeline("mlir.canonicalize{anchor=func.func},mlir.cse{anchor=func.func},mlir.inline")
    result = await pipeline(mod)
    assert result.text == mlir_opt(mod.text, "builtin.module(func.func(canonicalize,cse),inline)")


@pytest.mark.anyio
async def test_unchanged_module_is_returned_itself() -> None:
    mod = MLIRModule("// My module\nfunc.func @f(%x: i32) -> i32 { return %x : i32 }")
    assert await apass.get_pass("mlir.cse")(mod) is mod


@pytest.mark.anyio
async def test_skipped_functions_keep_their_text() -> None:
    body = "{\n  %zero = arith.constant 0 : i32\n  %sum = arith.addi %x, %zero : i32\n  return %sum : i32\n}"
    skipped = f"func.func @f(%x: i32) -> i32 attributes {{SkipOptimization}} {body}"
    mod = MLIRModule(f"{skipped}\nfunc.func @g(%x: i32) -> i32 {body}\n")
    result = await apass.get_pass("mlir.canonicalize", anchor="func.func")(mod)
    assert result.functions["f"].text == skipped
    assert "arith" not in result.functions["g"].text


@pytest.mark.anyio
async def test_data_of_resources_are_kept() -> None:
    text = RESOURCES.replace(" attributes {SkipOptimization}", "")
    expected = mlir_opt(text, "builtin.module(cse)", "--mlir-print-op-generic=false")
    result = await apass.get_pass("mlir.cse")(MLIRModule(text))
    assert result.text == expected
    read = module_from_bytes(module_to_bytecode(result))
    assert (await apass.get_pass("mlir.cse")(read)).text == expected


@pytest.mark.anyio
async def test_skipped_functions_keep_aliases_and_resources() -> None:
    result = await apass.get_pass("mlir.cse", anchor="func.func")(MLIRModule(RESOURCES))
    ADAPTER.verify(result)
    assert result.functions["kept"].text == MLIRModule(RESOURCES).functions["kept"].text
    assert result.functions["weights"].text.count("affine.apply") == 1
    assert result.text.count('weights: "0x040000000100000002000000"') == 1


@pytest.mark.anyio
async def test_locations_name_the_file() -> None:
    text = CALLS.replace("return %y : i32", 'return %y : i32 loc("own.c":3:4)')
    result = await apass.get_pass("mlir.canonicalize")(MLIRModule(text, "a/m.mlir"))
    expected = mlir_opt(text, "builtin.module(canonicalize)", "--mlir-print-debuginfo")
    assert result.text == expected.replace('"<stdin>"', '"a/m.mlir"')
    assert result.text != expected


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["// see loc(x) and loc(unknown)\n", 'module attributes {t.a = "loc(unknown)"} {}\n'])
async def test_other_texts_are_no_locations(text: str) -> None:
    result = await apass.get_pass("mlir.cse")(MLIRModule(f"{text}func.func private @f()\n"))
    assert 'loc("' not in result.text


@pytest.mark.anyio
async def test_program_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    silent = MLIRPass(script("exit 0", tmp_path / "silent"), [Step("cse")], apass.PassInfo(0, "cse"), "")
    with pytest.raises(apass.errors.AdapterError, match="silent ended with exit status 0, but wrote no module"):
        await silent(MLIRModule(CALLS))


@pytest.mark.anyio
async def test_failure_names_the_line_of_the_file() -> None:
    mod = MLIRModule("func.func @f() {\n  oops\n}", "model.mlir")
    with pytest.raises(apass.errors.AdapterError, match=r"custom op 'oops' is unknown.*\n  at model\.mlir:2:3\n  oops"):
        await apass.get_pass("mlir.cse")(mod)


@pytest.mark.anyio
async def test_crash_is_an_error() -> None:
    with pytest.raises(apass.errors.HelperError, match=r"mlir-opt.* crashed \(SIGABRT\)"):
        await apass.get_pass("mlir.test-pass-crash")(MLIRModule(CALLS))


def test_options_have_types_defaults_and_anchors() -> None:
    options = apass.pass_options("mlir.affine-loop-tile")
    assert {key: option.default for key, option in options.items()} == {
        "cache_size": 512,
        "separate": False,
        "tile_size": 0,
        "tile_sizes": [],
        "anchor": "func.func",
        "time_limit": 600.0,
    }
    with pytest.raises(apass.errors.PipelineSyntaxError, match="tile_size"):
        apass.parse_pipeline("mlir.affine-loop-tile{tile_size=large}")


@pytest.mark.anyio
async def test_passes_hand_bytecode_over() -> None:
    # `mlir-opt` prints `bind()` for this routine, and crashes when it reads that.
    text = "func.func @worker() {\n  return\n}\nacc.routine @r func(@worker) bind(2 : i64)\n"
    mod = MLIRModule(text, "m.mlir")
    for name in ("canonicalize", "cse", "symbol-dce"):
        mod = await apass.get_pass(f"mlir.{name}")(mod)
    assert mod.text == mlir_opt(text, "builtin.module(canonicalize,cse,symbol-dce)")
    assert mod.bytecode.startswith(b"ML")
    assert pickle.loads(pickle.dumps(mod)).bytecode == mod.bytecode


@pytest.mark.anyio
async def test_passes_one_by_one_keep_external_resources() -> None:
    text = (
        "func.func @f() {\n  return\n}\n{-#\n  external_resources: {\n    mine: {\n      flag: true\n    }\n  }\n#-}\n"
    )
    mod = MLIRModule(text)
    for name in ("canonicalize", "inline"):
        mod = await apass.get_pass(f"mlir.{name}")(mod)
    assert "external_resources" in (await apass.get_pass("mlir.strip-debuginfo")(mod)).text
