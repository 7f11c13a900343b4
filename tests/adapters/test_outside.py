"""No option of a wrapped library reaches files or programs without a declaration."""

import inspect
import json
from pathlib import Path

import anyio
import pytest

import apass
from apass.adapters.mlir import ADAPTER as MLIR
from apass.core.config import find_option, list_configs
from apass.core.outside import outside_of, reviewed
from apass.core.pass_factories import find_factory
from apass.passes.registry import get_pass, pass_options
from apass.plugins import Outside
from tests.helpers.llvm_modules import needs_opt
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR
from tests.helpers.rows import row

OWN_TEXTS = {
    "AnnotateTarget{targets}", "ConvertLayout{desired_layouts}", "Legalize{legalize_map_attr_name}",
    "MergeComposite{pattern_table}", "PartitionGraph{mod_name}", "PrintIR{header}",
    "RemoveUnusedFunctions{entry_functions}", "SimplifyFCTranspose{target_weight_name}",
    "ToMixedPrecision{mixed_precision_type}",
    "onnxscript.Rewrite{rules}", "onnxslim.Slim{skip_fusion_patterns}", "onnxslim.Slim{skip_optimizations}",
}  # fmt: skip
"""The options of passes of apass that are text, and reach nothing."""

OWN_CONFIGS = {
    "tvm.s_tir.HoistExpression", "tvm.s_tir.HoistIfThenElse", "tvm.s_tir.InjectDoubleBuffer", "tvm.s_tir.LoopPartition",
    "tvm.tirx.RemoveNoOp", "tvm.tirx.StmtSimplify", "tvm.tirx.UnrollLoop",
}  # fmt: skip
"""The config options that are records of numbers."""

OF_COMBINATORS = {"extensions", "name", "required", "otherwise", "passes"}
CALLABLES = {"criteria", "fskip", "key", "predicate", "name_generator"}
"""Options that name registered callables, which `allow` lists, or that no text can give."""

UNREVIEWED = {
    "tvm.pipeline.static_shape_tuning{target}", "tvm.relax.AlterOpImpl{op_buffer_transforms}",
    "tvm.relax.AlterOpImpl{op_impl_map}", "tvm.relax.AttachExternModules{extern_modules}",
    "tvm.relax.BindParams{params}", "tvm.relax.CombineParallelMatmul{check}", "tvm.relax.ConvertLayout{layout_cb}",
    "tvm.relax.FuseOpsByPattern{patterns}", "tvm.relax.LazyTransformParams{extra_get_item_params}",
    "tvm.relax.LazyTransformParams{extra_set_item_params}", "tvm.relax.LegalizeOps{customize_legalize_map}",
    "tvm.relax.MetaScheduleTuneIRMod{params}", "tvm.relax.RunCodegen{target_options}",
    "tvm.relax.SplitCallTIRByPattern{fcodegen}", "tvm.relax.SplitCallTIRByPattern{patterns}",
    "tvm.relax.UpdateParamType{ty_func}", "tvm.relax.UpdateVDevice{new_vdevice}",
    "tvm.s_tir.VerifyVTCMLimit{default_target}", "tvm.tirx.Apply{ftransform}", "tvm.tirx.BindTarget{target}",
    "tvm.tirx.Filter{fcond}",
}  # fmt: skip
"""The options that stay refused: objects that no text makes, and targets, which take arguments of LLVM."""


def options() -> dict[str, inspect.Parameter]:
    """Return each option of each registered pass, as `pass{option}`."""
    # Other tests register passes.
    names = [name for name in apass.list_passes() if str(find_factory(name).__module__).startswith("apass.")]
    return {f"{name}{{{key}}}": option for name in names for key, option in pass_options(name).items()}


def test_every_text_option_declares_what_it_reaches() -> None:
    found = options()
    assert {
        "PrintIR{header}",
        "onnx.Inline{max_nodes}",
        "tvm.ToLLVM{target}",
        "xdsl.mlir-opt{arguments}",
    } <= found.keys()
    unknown = {
        name
        for name, option in found.items()
        if outside_of(option.annotation) is Outside.UNKNOWN and not name.startswith("mlir.test-")
        # Parameters that `opt` does not list stay refused.
        and not (name.startswith("llvm.") and name.endswith("{params}"))
        and reach_of(name.partition("{")[0]) is None
    }  # fmt: skip
    assert unknown <= UNREVIEWED, "review these options, in the sources of their library"
    wrapped = ("mlir.", "xdsl.", "tvm.", "llvm.")
    own = {
        name
        for name, option in found.items()
        if not name.startswith(wrapped)
        and option.name not in OF_COMBINATORS | CALLABLES
        and outside_of(reviewed(option, {}).annotation) is Outside.UNKNOWN
        and outside_of(option.annotation) is None
    }
    assert own <= OWN_TEXTS, "declare what these options reach, or list them here"
    # Reviews by hand may be of passes that are gone.
    if any(name.startswith("tvm.") for name in found):
        assert {name for name in UNREVIEWED if name not in found} == set()


def reach_of(name: str) -> Outside | None:
    """Return what a pass reaches with any options."""
    try:
        return get_pass(name).execution.outside
    except apass.errors.PassDefinitionError:  # it has required options
        return None


def test_config_options_declare_what_they_reach() -> None:
    apass.list_passes()
    own = [key for key in list_configs() if key.startswith(("relay.", "tvm.", "xdsl."))]
    texts = {key for key in own if outside_of(reviewed(_parameter(key), {}).annotation) is Outside.UNKNOWN}
    assert {key for key in texts if outside_of(find_option(key).type) is None} <= OWN_CONFIGS


def _parameter(key: str) -> inspect.Parameter:
    return inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=find_option(key).type)


@NEEDS_MLIR
@pytest.mark.process
def test_reviews_are_of_options_of_mlir_opt() -> None:
    from apass.adapters.mlir import reviews

    found = {name.removeprefix("mlir.") for name in apass.list_passes()}
    assert {name for name in reviews.PASSES if name not in found} == set()
    for name in {*reviews.OPTIONS, *reviews.HARMLESS}:
        assert set(reviews.reviews_of(name)) <= set(pass_options(f"mlir.{name}")), name


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
async def test_harmless_options_of_mlir_touch_no_file(tmp_path: Path) -> None:
    """Each of them gets the path of a file that is there, and of one that is not."""
    (tmp_path / "secret.mlir").write_text("s3cr3t")
    mod = MLIR.loads(CALLS.encode())
    for name, option in options().items():
        is_text = outside_of(reviewed(option, {}).annotation) is Outside.UNKNOWN
        if not name.startswith("mlir.") or not is_text or outside_of(option.annotation) or option.name == "anchor":
            continue
        for path in (tmp_path / "secret.mlir", tmp_path / "new.mlir"):
            value = json.dumps(str(path))
            text = f"{name[:-1]}={f'[{value}]' if 'list' in str(option.annotation) else value}}}"
            errors = ""
            try:
                await apass.parse_pipeline(text, allow=["*"])(mod)
            except (apass.errors.AdapterError, apass.errors.HelperError, apass.errors.PassDefinitionError) as error:
                errors = str(error)
            with row(text):
                assert "s3cr3t" not in errors
                assert [file.name async for file in anyio.Path(tmp_path).iterdir()] == ["secret.mlir"]


@NEEDS_MLIR
@pytest.mark.process
def test_value_cannot_end_the_options_of_a_pass(tmp_path: Path) -> None:
    file = tmp_path / "new"
    for value in (f"a}},snapshot-op-locations{{filename={file}", "}", "{", "}{"):
        with pytest.raises(
            apass.errors.PassDefinitionError, match=r"option 'label' of pass 'mlir\.print-ir' has a brace"
        ):
            get_pass("mlir.print-ir", label=value)
    for anchor in (f"any),snapshot-op-locations{{filename={file}}},any(", "func.func(cse)", "", "a b", "a//b"):
        with pytest.raises(
            apass.errors.PassDefinitionError, match=r"'anchor' of pass 'mlir\.cse' must be an operation"
        ):
            get_pass("mlir.cse", anchor=anchor)


@needs_opt
@pytest.mark.process
def test_passes_that_write_files_need_their_name() -> None:
    for name in ("llvm.insert-gcov-profiling", "llvm.dot-cfg", "llvm.view-cfg"):
        apass.parse_pipeline(name, allow=[name])
        with pytest.raises(apass.errors.PassNotAllowedError, match=f"name '{name}' to allow it"):
            apass.parse_pipeline(name, allow=["llvm.*"])


def test_program_of_xdsl_is_no_option() -> None:
    pytest.importorskip("xdsl")
    with pytest.raises(apass.errors.PipelineSyntaxError, match=r"pass 'xdsl\.mlir-opt' has no option 'executable'"):
        apass.parse_pipeline("xdsl.mlir-opt{executable=touch}")
