"""The adapter for modules of TVM: functions, marks, texts, bytes and verification."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apass
from apass.adapters.tvm import ADAPTER, from_script, to_script
from apass.adapters.tvm.library import tvm
from apass.adapters.tvm.plugin import PLUGIN
from apass.testing import check_adapter
from tests.helpers.tvm_modules import crowd, from_onnx, legalized, light_models, mixed, shared, skipped

CONSTANTS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        y: R.Tensor((2,), dtype="float32") = R.add(x, R.const({}, "float32"))
        return y
"""


def constant(value: float) -> Any:
    return from_script(CONSTANTS.format(value))


def array(values: list[float]) -> Any:
    """Return a module that adds an array."""
    builder = tvm.relax.BlockBuilder()
    x = tvm.relax.Var("x", tvm.relax.TensorType((len(values),), "float32"))
    with builder.function("main", [x]):
        result = builder.emit(tvm.relax.op.add(x, tvm.relax.const(np.array(values, "float32"))))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.slow
def test_adapter_keeps_the_laws() -> None:
    modules = {
        "shared": shared(),
        "mixed": mixed(),
        "skipped": skipped(mixed(), "scale", "main"),
        "array": array([1.0, 2.0]),
        "other array": array([1.0, 3.0]),
        "empty": tvm.IRModule({}),
    }
    check_adapter(ADAPTER, modules)


def test_functions_are_those_of_relax_and_tir() -> None:
    mod = mixed()
    mod["extern"] = tvm.relax.ExternFunc("other_library")
    assert apass.adapter_for(mod) is ADAPTER
    assert [(name, ADAPTER.kind(func)) for name, func in ADAPTER.functions(mod)] == [
        ("main", "function"),
        ("scale", "prim_func"),
        ("shift", "prim_func"),
    ]
    with pytest.raises(KeyError):
        ADAPTER.get(mod, "extern")
    with pytest.raises(KeyError):
        ADAPTER.get(mod, "absent")


def test_replace_shares_other_functions() -> None:
    mod = mixed()
    text = to_script(mod)
    changed = ADAPTER.replace(mod, {"scale": mod["shift"]})
    assert (changed["main"].same_as(mod["main"]), to_script(mod)) == (True, text)
    with pytest.raises(apass.errors.AdapterError, match=r"must be a relax\.Function or a tirx\.PrimFunc, got int"):
        ADAPTER.replace(mod, {"scale": 3})
    with pytest.raises(apass.errors.AdapterError, match="has no function 'new'; a module pass can add one"):
        ADAPTER.replace(mod, {"new": mod["scale"]})


def test_skip_mark_is_an_attribute_of_the_function() -> None:
    mod = skipped(mixed(), "scale", "main")
    assert [name for name, func in ADAPTER.functions(mod) if ADAPTER.skips(func)] == ["main", "scale"]
    unmarked = mod["scale"].with_attr("SkipOptimization", False)
    assert not ADAPTER.skips(unmarked)


def test_equal_ignores_names_of_variables_only() -> None:
    mod, renamed = shared(), from_script(to_script(shared()).replace("unused", "other"))
    assert ADAPTER.equal(mod, renamed)
    assert ADAPTER.fingerprint(mod) == ADAPTER.fingerprint(renamed)
    assert ADAPTER.exact_fingerprint(mod) != ADAPTER.exact_fingerprint(renamed)
    assert not ADAPTER.equal(array([1.0, 2.0]), array([1.0, 3.0]))
    assert ADAPTER.fingerprint(array([1.0, 2.0])) != ADAPTER.fingerprint(array([1.0, 3.0]))
    assert not ADAPTER.equal(mod, mod["first"])


@pytest.mark.process
def test_small_module_has_few_nodes_and_elements() -> None:
    for mod in (tvm.IRModule({}), shared(), mixed(), legalized(is_small=True), array([1.0] * 1000)):
        assert ADAPTER.is_small(mod)
    for mod in (crowd(20), legalized(is_small=False), array([1.0] * 300_000), from_onnx(light_models()[0])):
        assert not ADAPTER.is_small(mod)


def test_nested_expression_counts_as_many_nodes() -> None:
    body = tvm.tirx.IntImm("int32", 1)
    for _ in range(300):
        body = tvm.tirx.Add(body, tvm.tirx.Var("n", "int32"))
    mod = tvm.IRModule({"f": tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(body))})
    assert not ADAPTER.is_small(mod)


@pytest.mark.slow
def test_fingerprint_is_the_same_in_another_process() -> None:
    code = (
        "from apass.adapters.tvm import ADAPTER; from tests.helpers.tvm_modules import mixed, shared; "
        "print([ADAPTER.fingerprint(mod) for mod in (shared(), mixed(), mixed()['scale'])])"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{[ADAPTER.fingerprint(mod) for mod in (shared(), mixed(), mixed()['scale'])]}\n"


def test_text_shows_a_digest_of_constants() -> None:
    first, second = (ADAPTER.to_text(array(values)) for values in ([1.0, 2.0], [1.0, 3.0]))
    assert first.splitlines()[-1].startswith("# constants: ")
    assert first.splitlines()[:-1] == second.splitlines()[:-1]
    assert first != second


def test_stored_result_has_the_same_fingerprint() -> None:
    mod = shared()
    result = tvm.relax.transform.EliminateCommonSubexpr()(mod)
    stored = ADAPTER.adopt(ADAPTER.loads(ADAPTER.dumps(result)), mod)
    assert ADAPTER.exact_fingerprint(stored) == ADAPTER.exact_fingerprint(result)


def test_script_restores_constants() -> None:
    mod = array([1.0, 2.0])
    assert ADAPTER.equal(from_script(to_script(mod)), mod)
    assert ADAPTER.equal(from_script("from tvm.script import ir as I\n" + to_script(mixed())), mixed())
    with pytest.raises(apass.errors.AdapterError, match="not a TVMScript of a module"):
        from_script("@I.ir_module\nclass Module:\n    def f(: pass")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "JSONDecodeError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"{}", "expected `root_index` integer field"),
        (b'{"root_index": 5, "nodes": []}', "invalid node index 5"),
        (b"[1]", "AttributeError"),
    ],
)
def test_loads_rejects_other_bytes(data: bytes, reason: str) -> None:
    with pytest.raises(apass.errors.AdapterError, match="not a module in TVM's JSON format") as caught:
        ADAPTER.loads(data)
    assert reason in str(caught.value)


def test_loads_rejects_damaged_json() -> None:
    text = ADAPTER.dumps(mixed()).decode()
    for old, new in [("ir.IRModule", "ir.Nope"), ('"type"', '"tpe"'), (text[len(text) // 2 :], "")]:
        with pytest.raises(apass.errors.AdapterError, match="not a module in TVM's JSON format"):
            ADAPTER.loads(text.replace(old, new).encode())
    with pytest.raises(apass.errors.AdapterError, match="contains a PrimFunc, expected an IRModule"):
        ADAPTER.loads(tvm.ir.save_json(mixed()["scale"]).encode())


def test_verify_names_the_violated_rule() -> None:
    mod = shared()
    x = tvm.relax.Var("x", tvm.relax.TensorType((4,), "float32"))
    ADAPTER.verify(mod)
    mod["broken"] = tvm.relax.Function([x], tvm.relax.SeqExpr([], tvm.relax.Var("free", x.ty)), x.ty)
    with pytest.raises(apass.errors.VerifyError, match="not a valid module of TVM"):
        ADAPTER.verify(mod)


def test_adopted_functions_use_the_variables_of_the_module() -> None:
    mod = shared()
    sub = ADAPTER.adopt(ADAPTER.loads(ADAPTER.dumps(ADAPTER.isolate(mod, ["second"]))), mod)
    result = ADAPTER.replace(mod, ADAPTER.extract(sub, ["second"]))
    ADAPTER.verify(result)
    assert ADAPTER.equal(result, mod)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "field", "other"),
    [
        pytest.param("relax.TensorType", "dtype", "relax.TensorType", id="when it is read"),
        pytest.param("ir.Call", "op", "relax.expr.DataflowVar", id="when it is verified"),
    ],
)
def test_file_that_crashes_tvm_is_an_error(kind: str, field: str, other: str, tmp_path: Path) -> None:
    graph = json.loads(ADAPTER.dumps(shared()))
    kinds = [node["type"] for node in graph["nodes"]]
    graph["nodes"][kinds.index(kind)]["data"][field] = kinds.index(other)
    path = tmp_path / "m.relax"
    path.write_text(json.dumps(graph))
    with pytest.raises(apass.errors.AdapterError, match=r"TVM crashed when it read .*m\.relax .*; the file is damaged"):
        PLUGIN.read(path)


@pytest.mark.process
@pytest.mark.slow
def test_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "m.relax"
    path.write_bytes(ADAPTER.dumps(mixed()))
    assert ADAPTER.equal(PLUGIN.read(path), mixed())
    path.write_text("{")
    with pytest.raises(apass.errors.AdapterError, match="not a module in TVM's JSON format"):
        PLUGIN.read(path)
