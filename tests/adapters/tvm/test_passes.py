"""The registered passes of TVM: names, options, config, concurrency."""

from typing import Any

import anyio
import pytest

import apass
from apass.adapters.tvm import ADAPTER, from_script
from apass.adapters.tvm.bridge import TVMFunctionPass, TVMModulePass, TVMPrimFuncPass, from_tvm
from apass.adapters.tvm.library import tvm
from apass.passes.registry import pass_documentation, pass_options
from apass.testing import check_pass
from tests.helpers.rows import row
from tests.helpers.tvm_modules import HEAD, mixed, shared

NEED_TARGET = ("tvm.relax.MetaScheduleApplyDatabase", "tvm.pipeline.default")
NAMES = [name for name in apass.list_passes() if name.startswith("tvm.")]


def test_passes_of_all_namespaces_are_registered() -> None:
    counts = {prefix: sum(name.startswith(f"tvm.{prefix}.") for name in NAMES) for prefix in ("relax", "tirx", "s_tir")}
    assert counts["relax"] >= 60
    assert counts["tirx"] >= 30
    assert counts["s_tir"] >= 38
    assert {"tvm.Default", "tvm.pipeline.zero", "tvm.pipeline.default_build"} <= set(NAMES)
    assert not {"tvm.relax.FunctionPass", "tvm.relax.FusionPattern", "tvm.tirx.UnrollLoopConfig"} & set(NAMES)


def test_registered_passes_have_documentation_and_text() -> None:
    assert [name for name in NAMES if not pass_documentation(name)] == []
    for name in NAMES:
        needs_option = any(option.default is option.empty for option in pass_options(name).values())
        if needs_option or name in NEED_TARGET:
            continue
        pass_ = apass.get_pass(name)
        assert (str(pass_), pass_.info.name) == (name, name)
        assert [str(child) for child in apass.parse_pipeline(name).children()] == [name]


def test_options_have_types_from_signatures() -> None:
    options = pass_options("tvm.relax.LegalizeOps")
    assert options["enable_warning"].annotation is bool
    assert apass.parse_pipeline("tvm.relax.ToMixedPrecision{out_dtype=float16}")
    assert str(apass.get_pass("tvm.relax.TopologicalSort", order="breadth-first")) == (
        "tvm.relax.TopologicalSort{order=breadth-first}"
    )
    with pytest.raises(
        apass.errors.PipelineSyntaxError, match=r"option 'enable_warning' of pass 'tvm.relax.LegalizeOps'"
    ):
        apass.parse_pipeline("tvm.relax.LegalizeOps{enable_warning=3}")
    with pytest.raises(apass.errors.PassDefinitionError, match=r"TVM cannot make pass .*: ValueError"):
        apass.get_pass("tvm.relax.TopologicalSort", order="zigzag")
    with pytest.raises(apass.errors.UnknownPassError, match=r"did you mean 'tvm.relax.FoldConstant'"):
        apass.get_pass("tvm.relax.FoldConstants")


def test_kind_of_pass_shows_where_it_runs() -> None:
    kinds = {
        "tvm.relax.EliminateCommonSubexpr": TVMFunctionPass,
        "tvm.tirx.StmtSimplify": TVMPrimFuncPass,
        "tvm.s_tir.LowerInitBlock": TVMPrimFuncPass,
        "tvm.relax.FuseOps": TVMModulePass,
        "tvm.relax.LegalizeOps": TVMModulePass,
        "tvm.relax.CanonicalizeBindings": apass.Sequential,
    }
    assert {name: type(apass.get_pass(name)) for name in kinds} == kinds
    fuse: Any = apass.get_pass("tvm.relax.FuseOps")
    legalize: Any = apass.get_pass("tvm.relax.LegalizeOps")
    assert (fuse.exclusive, legalize.exclusive) == (False, True)


@pytest.mark.parametrize("name", ["tvm.Default", "tvm.relax.LegalizeOps", "tvm.tirx.StmtSimplify"])
def test_pass_keeps_the_laws(name: str) -> None:
    check_pass(apass.get_pass(name), {"shared": shared(), "mixed": mixed()})


def test_config_options_reach_tvm() -> None:
    def chain() -> Any:
        builder = tvm.relax.BlockBuilder()
        x = tvm.relax.Var("x", tvm.relax.TensorType((4,), "float32"))
        with builder.function("main", [x]):
            with builder.dataflow():
                value = x
                for _ in range(4):
                    value = builder.emit(tvm.relax.op.exp(value))
                value = builder.emit_output(value)
            builder.emit_func_output(value)
        return builder.get()

    pipeline = "tvm.relax.LegalizeOps,tvm.relax.AnnotateTIROpPattern,tvm.relax.FuseOps"
    counts: dict[int, int] = {}
    for depth in (1, 2, 8):
        context = apass.PassContext(config={"tvm.relax.FuseOps.max_depth": depth})
        result = apass.run(pipeline, chain(), context=context)
        counts[depth] = sum(name.startswith("fused") for name, _ in ADAPTER.functions(result))
    assert (counts[1], counts[8]) == (0, 1)
    assert counts[2] >= 1
    with pytest.raises(apass.errors.UnknownConfigError, match=r"did you mean 'tvm.relax.FuseOps.max_depth'"):
        apass.PassContext(config={"tvm.relax.FuseOps.maxdepth": 1})
    with pytest.raises(apass.errors.AdapterError, match="TVM rejects the context"):
        apass.run("tvm.relax.FuseOps", chain(), context=apass.PassContext(config={"tvm.target": "no-such-target"}))


@pytest.mark.parametrize("pipeline", ["tvm.tirx.StmtSimplify,tvm.relax.LegalizeOps", "tvm.Default"])
@pytest.mark.process
@pytest.mark.slow
def test_processes_give_the_same_module(pipeline: str) -> None:
    mod = mixed()
    pass_ = apass.parse_pipeline(pipeline)

    async def in_process() -> Any:
        return await apass.optimize_all([mod], pass_, executor="process")

    (result,) = anyio.run(in_process)
    assert ADAPTER.equal(result, apass.run(pipeline, mod))


@pytest.mark.process
@pytest.mark.slow
def test_division_by_zero_ends_a_worker_only() -> None:
    text = """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "int32")) -> R.Tensor((2,), "int32"):
        with R.dataflow():
            a = R.divide(R.const([4, 6], "int32"), R.const([%d, 2], "int32"))
            b = R.add(x, a)
            R.output(b)
        return b
"""
    mod = from_script(HEAD + text % 0)
    names = ("tvm.relax.FoldConstant", "tvm.pipeline.zero")
    for pass_ in (*map(apass.get_pass, names), from_tvm(tvm.relax.transform.FoldConstant())):
        with row(str(pass_)), pytest.raises(apass.errors.WorkerLostError, match="SIGFPE"):
            apass.run(pass_, mod)
    folded = apass.run("tvm.relax.FoldConstant", from_script(HEAD + text % 1))
    assert "divide" not in ADAPTER.to_text(folded)
    assert apass.run("tvm.relax.FoldConstant", folded) is folded
