"""Pipelines and reproducers of `mlir-opt`."""

import subprocess
from pathlib import Path

import pytest

import apass
from apass.adapters.mlir import ADAPTER, MLIRModule, read_mlir_reproducer
from apass.adapters.programs import MLIR_OPT
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, RESOURCES

pytestmark = [NEEDS_MLIR, pytest.mark.process]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("builtin.module()", ""),
        ("builtin.module(cse)", "mlir.cse"),
        (" builtin.module( func.func( cse , canonicalize ) , inline ) ", "mlir.cse{anchor=func.func},"),
        ("builtin.module(func.func(affine-loop-tile{tile-size=4 tile-sizes=1,2}))", "{tile_size=4,tile_sizes=[1,2]}"),
        ("builtin.module(gpu.module(gpu.func(cse)))", "mlir.cse{anchor=gpu.module/gpu.func}"),
        ("builtin.module(canonicalize{region-simplify=aggressive top-down=false})", "region_simplify=aggressive"),
        ("builtin.module(inline{op-pipelines=func.func(cse)})", 'op_pipelines=["func.func(cse)"]'),
        ("builtin.module(inline{op-pipelines=a.b(cse{x=1,2},dce),c(d)})", '["a.b(cse{x=1,2},dce)","c(d)"]'),
    ],
)
def test_pipeline_becomes_passes(text: str, expected: str) -> None:
    assert expected in str(apass.parse_pipeline(f"mlir:{text}"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func(cse)", r"must have the form builtin\.module\(\.\.\.\) \(at character 5"),
        ("builtin.module(cse", r"expected ',' or '\)', got the end \(at character 23"),
        ("builtin.module(cse{a=1)", r"expected '}', got the end \(at character 28"),
        ("builtin.module(cse))", r"expected the end of the pipeline, got '\)' \(at character 24"),
        ("builtin.module(,cse)", r"expected the name of a pass or of an operation, got ',' \(at character 20"),
        ("builtin.module(builtin.module(cse))", r"builtin\.module cannot be within another one"),
        ("builtin.module(csee)", r"'mlir\.csee'; did you mean 'mlir\.cse'"),
        ("builtin.module(cse{a=1})", r"pass 'mlir\.cse' has no option 'a'"),
        ("builtin.module(canonicalize{max-iterations=x})", "option 'max-iterations' .* expected int, got 'x'"),
    ],
)
def test_wrong_pipeline_is_an_error(text: str, message: str) -> None:
    with pytest.raises(apass.errors.PipelineSyntaxError, match=message):
        apass.parse_pipeline(f"mlir:{text}")


def crash(folder: Path) -> str:
    """Return the reproducer that `mlir-opt` writes as it crashes."""
    file = folder / "crash.mlir"
    pipeline = "--pass-pipeline=builtin.module(func.func(cse),canonicalize{top-down=false},test-pass-crash)"
    command = [str(MLIR_OPT.find()), pipeline, f"--mlir-pass-pipeline-crash-reproducer={file}"]
    done = subprocess.run(command, input=CALLS, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return file.read_text()


@pytest.mark.anyio
@pytest.mark.slow
async def test_reproducer_of_mlir_opt_becomes_ours(tmp_path: Path) -> None:
    mod = MLIRModule(crash(tmp_path))
    module, pipeline = read_mlir_reproducer(mod)
    assert list(module.functions) == ["f", "g"]
    names = "mlir.cse{anchor=func.func},mlir.canonicalize{top_down=false},mlir.test-pass-crash"
    assert str(apass.Sequential(pipeline.passes)) == names
    folder = tmp_path / "reproducers"
    async with apass.PassContext(instruments=[apass.instruments.ReproducerInstrument(folder)]):
        with pytest.raises(apass.errors.HelperError):
            await apass.get_pass("mlir.Reproducer").run(mod, name="m")
    (found,) = folder.glob("m/*")
    assert found.name.endswith("2_mlir.test-pass-crash")
    replayed = await apass.replay(found)
    assert replayed.verdict.value == "fails the same way"


@pytest.mark.parametrize("before", [True, False])
def test_reproducer_keeps_the_data_of_resources(before: bool) -> None:
    pipeline = 'mlir_reproducer: {\n pipeline: "builtin.module(cse)",\n verify_each: true\n }'
    external = f"external_resources: {{\n {pipeline}\n }}"
    start, end = RESOURCES.index("{-#") + 3, RESOURCES.index("#-}")
    dialect = RESOURCES[start:end].strip()
    both = f"{external},\n{dialect}" if before else f"{dialect},\n{external}"
    module, passes = read_mlir_reproducer(MLIRModule(f"{RESOURCES[:start]}\n{both}\n#-}}\n"))
    ADAPTER.verify(module)
    assert ("external_resources" in module.text, dialect in module.text) == (False, True)
    assert [pass_.info.name for pass_ in passes.passes] == ["mlir.cse"]


@pytest.mark.anyio
async def test_other_module_is_no_reproducer() -> None:
    with pytest.raises(apass.errors.AdapterError, match=r"m\.mlir is no reproducer of mlir-opt"):
        await apass.get_pass("mlir.Reproducer")(MLIRModule(CALLS, "m.mlir"))
