"""The adapter of xDSL: functions, copies, fingerprints and texts."""

import pytest
from xdsl.dialects.builtin import BoolAttr, ModuleOp, UnitAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

import apass
from apass.adapters.xdsl import ADAPTER
from apass.testing import check_adapter
from tests.helpers.xdsl_modules import CALLS, SUMS, UNKNOWN, module, rename_values, sums


def test_adapter_is_found_by_type() -> None:
    adapter: apass.IRAdapter[ModuleOp, Operation] = ADAPTER
    assert apass.adapter_for(sums(1)) is adapter


@pytest.mark.slow
def test_adapter_obeys_the_laws() -> None:
    modules = {
        "calls": module(CALLS),
        "sums": sums(2),
        "other sums": module(SUMS.replace("@sums", "@sums0").replace("muli", "addi")),
        "unknown": module(UNKNOWN, allow_unregistered=True),
        "empty": ModuleOp([]),
    }
    check_adapter(ADAPTER, modules, mutate=rename_values)


def test_functions_are_symbols_with_a_body() -> None:
    mod = module(
        CALLS
        + """
        func.func private @declared()
        llvm.func @llvm(%a: i32) { llvm.return }
        riscv_func.func @riscv() { riscv_func.return }
        "gpu.module"() <{sym_name = "gpu"}> ({ func.func @in_gpu() { return } }) : () -> ()
        """
    )
    names = [name for name, _ in ADAPTER.functions(mod)]
    assert names == ["caller", "callee", "llvm", "riscv"]
    assert {ADAPTER.kind(func) for _, func in ADAPTER.functions(mod)} == {"function"}
    with pytest.raises(KeyError):
        ADAPTER.get(mod, "declared")


def test_function_with_outer_values_is_no_function() -> None:
    text = """
    %outer = "test.op"() : () -> i32
    "llvm.func"() <{
      sym_name = "f", function_type = !llvm.func<void ()>, CConv = #llvm.cconv<ccc>,
      linkage = #llvm.linkage<"internal">, visibility_ = 0 : i64
    }> ({
      "test.op"(%outer) : (i32) -> ()
      llvm.return
    }) : () -> ()
    """
    assert list(ADAPTER.functions(module(text))) == []


@pytest.mark.parametrize("mark", [UnitAttr(), BoolAttr.from_bool(True)], ids=["unit", "true"])
def test_mark_skips_function(mark: UnitAttr) -> None:
    func = FuncOp("f", ([], []))
    assert not ADAPTER.skips(func)
    func.attributes["SkipOptimization"] = mark
    assert ADAPTER.skips(func)
    func.attributes["SkipOptimization"] = BoolAttr.from_bool(False)
    assert not ADAPTER.skips(func)


def test_replace_checks_updates() -> None:
    mod = sums(2)
    with pytest.raises(apass.errors.AdapterError, match="update of function 'sums0' is named 'sums1'; keep the name"):
        ADAPTER.replace(mod, {"sums0": ADAPTER.get(mod, "sums1")})
    with pytest.raises(apass.errors.AdapterError, match="must be an operation with a symbol and a body"):
        ADAPTER.replace(mod, {"sums0": FuncOp.external("sums0", [i32], [])})


def test_isolated_functions_have_declarations_of_callees() -> None:
    private = ADAPTER.isolate(module(CALLS), ["caller"])
    private.verify()
    assert [name for name, _ in ADAPTER.functions(private)] == ["caller"]
    text = ADAPTER.to_text(private)
    assert "func.func @callee(i32) -> i32" in text
    assert "memref.global" in text
    assert "@external" not in text  # only the callee calls it
    assert "@inner" not in text


def test_fingerprint_ignores_names_and_locations() -> None:
    mod, renamed = module(CALLS), module(CALLS)
    rename_values(renamed)
    moved = module(CALLS.replace(":1:2", ":3:4"))
    block = module(CALLS.replace("^then", "^other"))
    for other in (renamed, moved, block):
        assert ADAPTER.equal(mod, other)
        assert ADAPTER.exact_fingerprint(mod) != ADAPTER.exact_fingerprint(other)
    assert not ADAPTER.equal(mod, module(CALLS.replace("eq,", "ne,")))


def test_fingerprint_includes_the_data_of_resources() -> None:
    same, other = (
        module(UNKNOWN.replace("01000000", data), allow_unregistered=True) for data in ("01000000", "02000000")
    )
    mod = module(UNKNOWN, allow_unregistered=True)
    assert ADAPTER.equal(mod, same)
    assert not ADAPTER.equal(mod, other)


def test_text_keeps_names_and_known_locations() -> None:
    text = ADAPTER.to_text(module(CALLS))
    assert '%sum = arith.addi %a, %called : i32 loc("kernel.c":1:2)' in text
    assert "^then(%x: i32):" in text
    assert text.count("loc(") == 1
    assert ADAPTER.to_text(ADAPTER.loads(ADAPTER.dumps(module(CALLS)))) == text


def test_verify_reports_the_rule() -> None:
    mod = sums(1)
    func = ADAPTER.get(mod, "sums0")
    assert isinstance(func, FuncOp)
    terminator = func.body.block.last_op
    assert terminator is not None
    func.body.block.erase_op(terminator)
    with pytest.raises(apass.errors.VerifyError, match="not a valid module of xDSL:\n"):
        ADAPTER.verify(mod)


def test_damaged_bytes_are_an_error() -> None:
    with pytest.raises(apass.errors.AdapterError, match="not UTF-8"):
        ADAPTER.loads(b"\xff")
    with pytest.raises(apass.errors.AdapterError, match="cannot parse the bytes of a module:1:"):
        ADAPTER.loads(b"func.func @f(")


def test_deep_nesting_is_an_error() -> None:
    text = '"test.op"() ({' * 2000
    with pytest.raises(apass.errors.AdapterError, match="nested too deeply"):
        module(text)


def test_unknown_dialects_need_permission() -> None:
    with pytest.raises(apass.errors.AdapterError, match=r"cannot parse test.mlir:1:\d+"):
        module(UNKNOWN)
    mod = module(UNKNOWN, allow_unregistered=True)
    assert ADAPTER.equal(ADAPTER.loads(ADAPTER.dumps(mod)), mod)
