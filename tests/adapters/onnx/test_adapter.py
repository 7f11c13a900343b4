"""The ONNX adapter: functions, marks, texts and verification."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER, OnnxFunction, load_model, private_copy, save_model
from apass.testing import check_adapter
from tests.helpers.onnx_models import chain, model_of, names, relu, spread, weights, with_functions

Model = ir.Model


def test_adapter_is_registered_for_onnx_models() -> None:
    adapter: apass.IRAdapter[Model, OnnxFunction] = ADAPTER
    assert apass.adapter_for(relu()) is adapter
    assert adapter.thread_safe


def test_functions_are_main_graph_and_local_functions() -> None:
    model = with_functions()
    overloaded = ir.Function("d", "f", "o", graph=ir.Graph([], [], nodes=[]), attributes=[])
    model.functions[overloaded.identifier()] = overloaded
    assert names(model) == ["main", "local::f", "local::h", "d::f:o"]
    assert ADAPTER.get(model, "main") is model.graph
    assert ADAPTER.get(model, "d::f:o") is overloaded
    assert {ADAPTER.kind(function) for _, function in ADAPTER.functions(model)} == {"function"}
    with pytest.raises(KeyError):
        ADAPTER.get(model, "local::g")


def test_replace_shares_other_functions() -> None:
    model = with_functions()
    model.metadata_props["author"], model.meta["seen"] = "me", True
    before = ADAPTER.fingerprint(model)
    function = private_copy(model.functions["local", "f", ""])
    result = ADAPTER.replace(model, {"local::f": function})
    assert (result.graph is model.graph, ADAPTER.get(result, "local::f") is function) == (True, True)
    assert ADAPTER.get(result, "local::h") is ADAPTER.get(model, "local::h")
    assert (names(result), dict(result.metadata_props), result.meta["seen"]) == (names(model), {"author": "me"}, True)
    assert (ADAPTER.fingerprint(model), ADAPTER.equal(result, model)) == (before, True)


def test_replace_rejects_functions_of_wrong_kind_or_name() -> None:
    model = with_functions()
    function = ADAPTER.get(model, "local::f")
    with pytest.raises(apass.errors.AdapterError, match=r"the update of function 'local::h' is named 'local::f'"):
        ADAPTER.replace(model, {"local::h": function})
    with pytest.raises(apass.errors.AdapterError, match=r"the main graph must be an ir\.Graph, got Function"):
        ADAPTER.replace(model, {"main": function})
    with pytest.raises(apass.errors.AdapterError, match=r"'local::f' must be an ir\.Function, got Graph"):
        ADAPTER.replace(model, {"local::f": model.graph})


@apass.function_pass(opt_level=0)
async def NegToAbs(func: OnnxFunction, mod: Model, ctx: apass.PassContext) -> OnnxFunction:
    if not any(node.op_type == "Neg" for node in func):
        return func
    result = private_copy(func)
    for node in result:
        node.op_type = "Abs" if node.op_type == "Neg" else node.op_type
    return result


@pytest.mark.anyio
async def test_function_pass_replaces_only_changed_functions() -> None:
    model = with_functions()
    result = await NegToAbs(model)
    changed = [name for name in names(model) if ADAPTER.get(result, name) is not ADAPTER.get(model, name)]
    assert changed == ["local::f"]
    assert [[node.op_type for node in model.functions["local", "f", ""]] for model in (model, result)] == [
        ["Relu", "Neg"],
        ["Relu", "Abs"],
    ]
    assert await NegToAbs(result) is result


@pytest.mark.parametrize(
    ("mark", "skips"),
    [("1", True), ("true", True), (" Yes ", True), ("0", False), ("False", False), ("off", False), ("", False)],
)
def test_skip_mark_is_a_string_in_the_metadata(mark: str, skips: bool) -> None:
    model = with_functions()
    for _, function in ADAPTER.functions(model):
        assert not ADAPTER.skips(function)
        function.metadata_props["SkipOptimization"] = mark
        assert ADAPTER.skips(function) is skips


@pytest.mark.anyio
@pytest.mark.parametrize("ir_version", [3, 8, 10])
async def test_skip_mark_is_kept_when_saved(tmp_path: Path, ir_version: int) -> None:
    model = with_functions()
    model.ir_version = ir_version
    for name in ("main", "local::f"):
        ADAPTER.get(model, name).metadata_props["SkipOptimization"] = "true"
    save_model(model, tmp_path / "model.onnx")
    loaded = load_model(tmp_path / "model.onnx")
    assert [ADAPTER.skips(function) for _, function in ADAPTER.functions(loaded)] == [True, True, False]
    assert await NegToAbs(loaded) is loaded


TEXT = """<
   ir_version: 10,
   opset_import: ["" : 21]
>
g (float[N,4] a) => (float[N,4] x) {
   x = Relu (a)
}"""
FUNCTION_TEXT = """<
  domain: "local",
  opset_import: ["" : 21,"local" : 1]
>
f (p) => (q)
{
   r = Relu (p)
   q = Neg (r)
}"""


def test_text_is_in_onnx_syntax() -> None:
    assert ADAPTER.to_text(relu()) == TEXT
    assert ADAPTER.to_text(relu().graph) == TEXT.partition(">\n")[2]
    assert ADAPTER.to_text(ADAPTER.get(with_functions(), "local::f")) == FUNCTION_TEXT
    parsed = ir.from_proto(onnx.parser.parse_model(ADAPTER.to_text(with_functions())))
    assert ADAPTER.equal(parsed, with_functions())


def test_text_of_large_tensors_is_short_and_distinct() -> None:
    model, other = weights(), weights()
    array = np.arange(1000, dtype=np.float32) * 2
    other.graph.initializers["w"].const_value = ir.tensor(array, name="w")
    texts = [ADAPTER.to_text(version) for version in (model, weights(), other)]
    assert len(texts[0]) < 300
    assert (texts[0] == texts[1], texts[0] == texts[2]) == (True, False)


def change_in_place(model: Model) -> None:
    """Rename the operators of each function."""
    for _, function in ADAPTER.functions(model):
        for node in function:
            node.op_type = f"Other{node.op_type}"


def test_laws_of_adapters_hold() -> None:
    check_adapter(ADAPTER, [relu(), weights(), with_functions(), chain(30)], mutate=change_in_place)


@pytest.mark.slow
def test_laws_of_adapters_hold_for_real_models() -> None:
    for case in spread():
        check_adapter(ADAPTER, [case.model])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g (float[4] a) => (float[4] x) { x = Relu(b) }", "Nodes in a graph must be topologically sorted"),
        ("g (float[4] a) => (float[4] x) { x = Rellu(a) }", "No Op registered for Rellu"),
    ],
)
def test_verify_rejects_invalid_models(text: str, message: str) -> None:
    with pytest.raises(apass.errors.VerifyError, match=message):
        ADAPTER.verify(model_of(text))


def test_verify_rejects_initializers_without_typed_data() -> None:
    model = weights()
    value = model.graph.initializers["w"]
    value.const_value = ir.tensor(np.zeros(1000), name="w")
    value.dtype = ir.DataType.FLOAT
    with pytest.raises(apass.errors.VerifyError, match="initializer 'w' has data of type DOUBLE, expected FLOAT"):
        ADAPTER.verify(model)
    value.const_value = None
    with pytest.raises(apass.errors.VerifyError, match="initializer 'w' of the ONNX model has no data"):
        ADAPTER.verify(model)
    with pytest.raises(apass.errors.AdapterError, match="initializer 'w' of the ONNX model has no data"):
        ADAPTER.dumps(model)


@pytest.mark.parametrize("count", [1000, 1_000_000])
def test_verify_checks_models_with_initializers_of_any_size(count: int) -> None:
    ADAPTER.verify(weights(count))
    broken = weights(count)
    broken.graph[0].replace_input_with(0, ir.Value(name="b"))
    with pytest.raises(apass.errors.VerifyError, match="not a valid ONNX model"):
        ADAPTER.verify(broken)


def test_ir_version_3_requires_initializers_as_inputs() -> None:
    with pytest.raises(apass.errors.VerifyError, match="w in initializer but not in graph input"):
        ADAPTER.verify(weights(ir_version=3))


def test_long_models_do_not_exceed_recursion_limit() -> None:
    model = chain(3000)
    copy = ADAPTER.loads(ADAPTER.dumps(model))
    assert ADAPTER.equal(copy, model)
    assert ADAPTER.equal(ADAPTER.isolate(model, ["main"]), model)


@pytest.mark.process
def test_missing_library_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["onnx_ir"] = None
import apass
for name in ("apass.adapters.onnx", "apass.adapters.onnx.passes"):
    try:
        __import__(name)
    except apass.errors.MissingExtraError as error:
        print(error)
try:
    apass.get_pass("onnx.Inline")
except apass.errors.MissingExtraError as error:
    print("get_pass")
sys.modules["onnx"] = None
try:
    import apass.adapters.onnx.outputs
except apass.errors.MissingExtraError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = process.stdout.splitlines()
    assert [line.endswith("pip install 'apass[onnx]'") for line in lines] == [True, True, False, True]
