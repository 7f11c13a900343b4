"""The passes `xdsl.*`."""

from unittest.mock import Mock

import pytest
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.universe import Universe

import apass
from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.passes import FUNCTION_PASSES, XdslFunctionPass, XdslPass
from apass.passes.registry import pass_documentation, pass_options
from tests.helpers.rows import row
from tests.helpers.xdsl_modules import CALLS, SIMPLE, SUMS, module, sums

NAMES = sorted(Universe.get_multiverse().all_passes)


def test_every_pass_is_registered() -> None:
    assert len(NAMES) >= 133
    assert {name for name in apass.list_passes() if name.startswith("xdsl.")} == {
        "xdsl.Default",
        "xdsl.FromMLIR",
        *(f"xdsl.{name}" for name in NAMES),
    }


@pytest.mark.slow
def test_pass_has_options_of_its_fields() -> None:
    for name in NAMES:
        with row(name):
            options = pass_options(f"xdsl.{name}")
            required = {key for key, option in options.items() if option.default is option.empty}
            assert required == Universe.get_multiverse().all_passes[name]().required_fields()
            assert all(option.annotation is not option.empty for option in options.values())
            assert isinstance(pass_documentation(f"xdsl.{name}"), str)


def test_options_reach_the_pass() -> None:
    tiling = apass.get_pass("xdsl.scf-parallel-loop-tiling", parallel_loop_tile_sizes=[2, 3])
    assert isinstance(tiling, XdslPass)
    assert str(tiling) == "xdsl.scf-parallel-loop-tiling{parallel_loop_tile_sizes=[2,3]}"
    assert tiling.library_pass.spec().parameters == {"parallel_loop_tile_sizes": (2, 3)}
    with pytest.raises(apass.errors.PassDefinitionError, match="needs the option 'parallel_loop_tile_sizes'"):
        apass.get_pass("xdsl.scf-parallel-loop-tiling")
    with pytest.raises(apass.errors.PassDefinitionError, match=r"expected 'wse2' . 'wse3'"):
        apass.get_pass("xdsl.csl-stencil-to-csl-wrapper", target="wse4")


@pytest.mark.anyio
async def test_pipeline_simplifies_module() -> None:
    mod = module(SUMS)
    before = ADAPTER.exact_fingerprint(mod)
    result = await apass.parse_pipeline("xdsl.canonicalize,xdsl.cse")(mod)
    assert ADAPTER.to_text(result) == SIMPLE
    assert ADAPTER.exact_fingerprint(mod) == before


@pytest.mark.anyio
async def test_unchanged_module_is_the_result() -> None:
    mod = module(SIMPLE)
    for name in ("canonicalize", "cse", "convert-scf-to-cf", "lower-affine"):
        assert await apass.get_pass(f"xdsl.{name}")(mod) is mod


@pytest.mark.anyio
async def test_passes_in_place_share_one_copy() -> None:
    mod = module(CALLS)
    before = ADAPTER.exact_fingerprint(mod)
    result = await apass.parse_pipeline("xdsl.convert-scf-to-cf,xdsl.function-persist-arg-names,xdsl.lower-affine")(mod)
    assert ADAPTER.exact_fingerprint(mod) == before
    text = ADAPTER.to_text(result)
    assert "scf.if" not in text
    assert "llvm.name" in text
    ADAPTER.verify(result)


@pytest.mark.anyio
async def test_function_pass_skips_marked_functions() -> None:
    mod = sums(3)
    ADAPTER.get(mod, "sums1").attributes["SkipOptimization"] = UnitAttr()
    result = await apass.get_pass("xdsl.canonicalize")(mod)
    changed = [name for name, func in ADAPTER.functions(result) if not ADAPTER.equal(func, ADAPTER.get(mod, name))]
    assert changed == ["sums0", "sums2"]


@pytest.mark.anyio
async def test_function_pass_transforms_other_operations() -> None:
    text = (
        SUMS
        + """
    builtin.module @inner {
      %unused = arith.constant 1 : i32
    }
    """
    )
    mod = module(text)
    ADAPTER.get(mod, "sums").attributes["SkipOptimization"] = UnitAttr()
    result = await apass.get_pass("xdsl.canonicalize")(mod)
    assert ADAPTER.equal(ADAPTER.get(result, "sums"), ADAPTER.get(mod, "sums"))
    assert "constant 1" not in ADAPTER.to_text(result)
    assert await apass.get_pass("xdsl.canonicalize")(result) is result


@pytest.mark.anyio
@pytest.mark.parametrize("name", sorted(FUNCTION_PASSES))
async def test_function_pass_equals_its_module_pass(name: str) -> None:
    by_function = apass.get_pass(f"xdsl.{name}")
    assert isinstance(by_function, XdslFunctionPass)
    whole = XdslPass(by_function.library_pass)
    for mod in (sums(2), module(CALLS.replace("attributes {SkipOptimization}", "").partition("builtin.module")[0])):
        assert ADAPTER.to_text(await by_function(mod)) == ADAPTER.to_text(await whole(mod))


@pytest.mark.anyio
async def test_error_of_the_library_names_pass_and_module() -> None:
    text = "func.func @f(%a: i128) -> i128 { func.return %a : i128 }"
    with pytest.raises(apass.errors.AdapterError) as caught:
        await apass.get_pass("xdsl.convert-func-to-x86-func").run(module(text), name="m.mlir")
    first, second, *_ = str(caught.value).splitlines()
    assert first == "pass convert-func-to-x86-func of xDSL failed with DiagnosticException:"
    assert second == "Cannot lower function parameters bigger than 64 bits (not implemented)"
    assert caught.value.__notes__[0].endswith("module 'm.mlir'")


@pytest.mark.anyio
async def test_bug_of_a_verifier_is_a_verify_error(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = module(SUMS)
    # As in x86_scf.rof of xDSL 0.74.
    bug = AttributeError("type object 'ForRofOperation' has no attribute 'name'")
    monkeypatch.setattr(FuncOp, "verify_", Mock(side_effect=bug))
    with pytest.raises(apass.errors.VerifyError) as caught:
        await apass.get_pass("xdsl.canonicalize")(mod)
    first = "the result of pass canonicalize of xDSL is invalid: a verifier of xDSL failed with AttributeError: "
    assert str(caught.value) == f"{first}type object 'ForRofOperation' has no attribute 'name'"
    assert caught.value.__cause__ is bug


@pytest.mark.anyio
async def test_pass_without_locations_is_completed() -> None:
    text = """
    %0 = arith.constant 1 : i32
    %1 = arith.addi %0, %0 : i32
    "test.op"(%1) : (i32) -> ()
    """
    result = await apass.get_pass("xdsl.test-specialised-constant-folding")(module(text))
    assert "arith.constant 2" in ADAPTER.to_text(ADAPTER.isolate(result, []))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.anyio
async def test_deprecated_pass_warns() -> None:
    with pytest.warns(FutureWarning, match="pass test-deprecation of xDSL: DeprecationWarning: hello"):
        await apass.get_pass("xdsl.test-deprecation")(module(SIMPLE))


def test_results_that_depend_on_files_are_not_cached() -> None:
    cacheable = {name: apass.get_pass(f"xdsl.{name}").caching.cacheable for name in ("cse", "apply-pdl", "mlir-opt")}
    assert cacheable == {"cse": True, "apply-pdl": False, "mlir-opt": False}
