"""ONNX models as private copies, bytes and files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER, load_model, model_from_bytes, model_to_bytes, save_model
from apass.adapters.onnx.storage import private_copy, with_parts
from tests.helpers.onnx_models import names, op_types, proto_of, relu, rich_proto, weights, with_functions
from tests.helpers.rows import row

Model = ir.Model


def test_changes_of_a_private_copy_keep_the_original() -> None:
    model = ir.from_proto(rich_proto())
    model.graph.register_initializer(ir.Value(name="v", const_value=ir.tensor([1.0], name="v")))
    before = ADAPTER.fingerprint(model)
    for name, function in ADAPTER.functions(ADAPTER.isolate(model, names(model))):
        function.metadata_props["k"] = "other"
        graph = function.graph if isinstance(function, ir.Function) else function
        for value in [*graph.inputs, *graph.initializers.values(), *(out for node in graph for out in node.outputs)]:
            value.name = f"{value.name}_{name}"
            value.dtype = ir.DataType.DOUBLE
            value.metadata_props["k"] = "other"
        for node in graph:
            node.op_type = "Other"
            if "value" in node.attributes:
                node.attributes["value"].as_tensor().name = "other"
            for inner in node.attributes.values():
                if inner.type is ir.AttributeType.GRAPH:
                    inner.as_graph().outputs.clear()
    assert ADAPTER.fingerprint(model) == before
    assert [value.const_value.name for value in model.graph.initializers.values() if value.const_value] == ["w", "v"]


def test_isolate_copies_functions_and_extract_returns_them() -> None:
    model = with_functions()
    sub = ADAPTER.isolate(model, ["local::f"])
    assert (names(sub), len(sub.graph), sub.opset_imports) == (["main", "local::f"], 0, model.opset_imports)
    functions = ADAPTER.extract(sub, ["local::f"])
    assert functions["local::f"] is sub.functions["local", "f", ""]
    assert ADAPTER.equal(functions["local::f"], ADAPTER.get(model, "local::f"))
    assert functions["local::f"] is not ADAPTER.get(model, "local::f")
    assert ADAPTER.equal(ADAPTER.replace(model, functions), model)
    with pytest.raises(KeyError):
        ADAPTER.isolate(model, ["local::g"])


@pytest.mark.parametrize("doc_string", ["", "d"])
@pytest.mark.parametrize("count", [0, 1, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.bool_, np.float16])
@pytest.mark.parametrize("is_raw", [False, True])
def test_copies_of_tensors_have_the_same_bytes(dtype: Any, count: int, is_raw: bool, doc_string: str) -> None:
    values = np.arange(count).astype(dtype)
    tensor = onnx.helper.make_tensor("w", onnx.helper.np_dtype_to_tensor_dtype(values.dtype), [count], values)
    if is_raw:
        tensor = onnx.numpy_helper.from_array(values, "w")
    tensor.doc_string = doc_string
    proto = ir.to_proto(relu())
    proto.graph.initializer.append(tensor)
    proto.graph.node.add(op_type="Constant", output=["c"], attribute=[onnx.helper.make_attribute("value", tensor)])
    data = ADAPTER.dumps(model_from_bytes(proto.SerializeToString()))
    read = onnx.ModelProto.FromString(data)
    for written in (read.graph.initializer[0], read.graph.node[-1].attribute[0].t):
        assert onnx.numpy_helper.to_array(written).tobytes() == values.tobytes()
    model = model_from_bytes(data)
    copied = with_parts(model, private_copy(model.graph), ())
    assert ADAPTER.dumps(copied) == data
    assert ADAPTER.dumps(model) == data


def test_small_integers_are_written_in_one_byte() -> None:
    for numbers, is_packed in (([1, 8, 0, 127], True), ([-1, 2**40], False), ([-1, 1, 1], True), ([], False)):
        with row(numbers):
            proto = ir.to_proto(relu())
            proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers, np.int64), "w"))
            tensor = onnx.ModelProto.FromString(ADAPTER.dumps(ir.from_proto(proto))).graph.initializer[0]
            assert onnx.numpy_helper.to_array(tensor).tolist() == numbers
            assert (list(tensor.int64_data) == numbers and bool(numbers)) == is_packed
            assert tensor.ByteSize() <= proto.graph.initializer[0].ByteSize()


def test_unsorted_model_can_be_copied(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(16))
    model = relu()
    tensor = ir.ExternalTensor("w", 0, 16, ir.DataType.FLOAT, shape=ir.Shape([4]), name="w", base_dir=tmp_path)
    model.graph.register_initializer(ir.Value(name="w", const_value=tensor))
    first = model.graph[0]
    late = ir.node("Neg", inputs=[first.outputs[0]])
    model.graph.insert_before(first, late)
    copy = ADAPTER.isolate(model, ["main"])
    assert (op_types(copy), ADAPTER.equal(copy, model)) == (["Neg", "Relu"], True)


def test_dumps_includes_external_data(tmp_path: Path) -> None:
    save_model(external_model(tmp_path), tmp_path / "a.onnx")
    model = load_model(tmp_path / "a.onnx")
    data = ADAPTER.dumps(model)
    for path in tmp_path.iterdir():
        path.unlink()
    value = ADAPTER.loads(data).graph.initializers["w"].const_value
    assert value is not None
    assert value.numpy().tolist() == list(range(1000))


def test_dumps_rejects_too_large_model_without_reading() -> None:
    model = weights()
    shape = ir.Shape([2**29])
    huge = ir.LazyTensor(lambda: pytest.fail("it was read"), dtype=ir.DataType.FLOAT, shape=shape, name="w")
    model.graph.initializers["w"].const_value = huge
    with pytest.raises(apass.errors.AdapterError, match=r"2,147,483,648 bytes of weights, .* save it with save_model"):
        ADAPTER.dumps(model)


@pytest.mark.parametrize("data", [b"", b"not a model", ADAPTER.dumps(relu())[:-9]])
def test_loads_rejects_bytes_that_are_not_a_model(data: bytes) -> None:
    with pytest.raises(apass.errors.AdapterError, match="these bytes: not an ONNX model"):
        ADAPTER.loads(data)


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental:UserWarning")
@pytest.mark.parametrize("suffix", ["onnx", "pb", "onnxtxt", "onnxjson", "textproto"])
def test_saved_model_is_loaded_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model.{suffix}"
    save_model(with_functions(), path)
    assert ADAPTER.equal(load_model(path), with_functions())
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental:UserWarning")
@pytest.mark.parametrize("suffix", ["onnx", "onnxtxt", "onnxjson", "textproto"])
@pytest.mark.parametrize("content", [b"", b"\xff\x00 not a model", b"{}"])
def test_corrupt_file_is_named_in_the_error(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(content)
    with pytest.raises(apass.errors.AdapterError, match=rf"bad\.{suffix}: not an ONNX model in the format"):
        load_model(path)


def test_empty_graph_is_read_back() -> None:
    model = ir.Model(ir.Graph([], [], nodes=[]), ir_version=10)
    assert len(ADAPTER.loads(ADAPTER.dumps(model)).graph) == 0


def test_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
        load_model(tmp_path / "none.onnx")


def test_unsupported_parts_of_models_are_rejected() -> None:
    sparse = proto_of("g (float[4] a) => (float[4] x) { x = Relu(a) }")
    sparse.graph.sparse_initializer.add()
    with pytest.raises(
        apass.errors.AdapterError, match="sparse initializers in graph 'g', which onnx_ir would discard"
    ):
        ADAPTER.loads(sparse.SerializeToString())
    training = proto_of("g (float[4] a) => (float[4] x) { x = Relu(a) }")
    training.training_info.add()
    with pytest.raises(apass.errors.AdapterError, match="training information, which onnx_ir would discard"):
        ADAPTER.loads(training.SerializeToString())


def external_model(folder: Path) -> Model:
    """Return a model whose initializer is in the file `weights.bin`."""
    np.arange(1000, dtype=np.float32).tofile(folder / "weights.bin")
    model = weights()
    shape = ir.Shape([1000])
    tensor = ir.ExternalTensor("weights.bin", 0, 4000, ir.DataType.FLOAT, shape=shape, name="w", base_dir=folder)
    model.graph.initializers["w"].const_value = tensor
    return model


def test_external_data_is_saved_beside_the_model(tmp_path: Path) -> None:
    model = external_model(tmp_path)
    (tmp_path / "out").mkdir()
    save_model(model, tmp_path / "out" / "model.onnx")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["model.onnx", "model.onnx.data"]
    loaded = load_model(tmp_path / "out" / "model.onnx")
    assert isinstance(loaded.graph.initializers["w"].const_value, ir.ExternalTensor)
    assert ADAPTER.equal(loaded, model)


def test_small_external_data_is_saved_in_the_model(tmp_path: Path) -> None:
    model = external_model(tmp_path)
    small = ir.ExternalTensor("weights.bin", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w", base_dir=tmp_path)
    model.graph.initializers["w"].const_value = small
    (tmp_path / "out").mkdir()
    save_model(model, tmp_path / "out" / "model.onnx")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.onnx"]
    assert ADAPTER.equal(load_model(tmp_path / "out" / "model.onnx"), model)


def test_model_saved_over_itself_keeps_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    save_model(external_model(tmp_path), path)
    for _ in range(2):
        model = load_model(path)
        model.graph[0].op_type = "Sub" if model.graph[0].op_type == "Add" else "Add"
        save_model(model, path)
        assert ADAPTER.equal(load_model(path), model)


def test_bytes_cannot_refer_to_files() -> None:
    for entries in ({"location": "w"}, {"locatioo": "w"}):
        proto = proto_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
        tensor = proto.graph.initializer[0]
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        with pytest.raises(
            apass.errors.AdapterError, match=r"tensor 'w' has its data in a file|cannot read this ONNX model"
        ):
            ADAPTER.loads(proto.SerializeToString())


def test_missing_or_truncated_external_data_is_an_error(tmp_path: Path) -> None:
    save_model(external_model(tmp_path), tmp_path / "model.onnx")
    data = tmp_path / "model.onnx.data"
    data.write_bytes(bytes(3999))
    with pytest.raises(
        apass.errors.AdapterError, match=r"model\.onnx: tensor 'w' ends at byte 4,000 of .* has 3,999 bytes"
    ):
        load_model(tmp_path / "model.onnx")
    data.unlink()
    with pytest.raises(apass.errors.AdapterError, match=r"model\.onnx: tensor 'w' .* which does not exist"):
        load_model(tmp_path / "model.onnx")


def test_failed_save_leaves_files_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "model.onnx"
    save_model(external_model(tmp_path), target)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    broken = external_model(tmp_path)
    broken.graph.register_initializer(ir.Value(name="v", const_value=ir.tensor([1.0], name="v")))
    broken.graph.initializers["v"].const_value = None
    with pytest.raises(apass.errors.AdapterError, match="initializer 'v'"):
        save_model(broken, target)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_model_is_read_from_any_bytes(kind: Callable[[bytes], bytes]) -> None:
    data = model_to_bytes(relu())
    assert model_to_bytes(model_from_bytes(kind(data))) == data


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (onnx.ModelProto(), "got onnx.onnx_ml_pb2.ModelProto; convert it with onnx_ir.from_proto(model)"),
        ("model.onnx", "got str; for a file, use load_model(path)"),
        (None, "got NoneType; for a file, use load_model(path)"),
    ],
)
def test_other_values_are_rejected_as_bytes(value: Any, hint: str) -> None:
    with pytest.raises(apass.errors.AdapterError) as caught:
        model_from_bytes(value)
    assert str(caught.value) == f"model_from_bytes needs the bytes of an ONNX model, {hint}"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (None, "got NoneType; load it with apass.adapters.onnx.load_model(path)"),
        (onnx.ModelProto(), "got onnx.onnx_ml_pb2.ModelProto; convert it with onnx_ir.from_proto(model)"),
        (b"", "got bytes; read it with apass.adapters.onnx.model_from_bytes(data)"),
        (relu().graph, "got onnx_ir.Graph; put it into a model with onnx_ir.Model(graph, ir_version=...)"),
    ],
    ids=["none", "proto", "bytes", "graph"],
)
def test_other_values_are_not_written(tmp_path: Path, value: Any, hint: str) -> None:
    with pytest.raises(apass.errors.AdapterError) as caught:
        model_to_bytes(value)
    assert str(caught.value) == f"model_to_bytes needs an onnx_ir.Model, {hint}"
    with pytest.raises(apass.errors.AdapterError, match=r"save_model needs an onnx_ir\.Model, got "):
        save_model(value, tmp_path / "model.onnx")


@pytest.mark.parametrize("is_removed", [True, False])
def test_lost_external_data_is_an_error(tmp_path: Path, is_removed: bool) -> None:
    save_model(external_model(tmp_path), tmp_path / "model.onnx")
    model = load_model(tmp_path / "model.onnx")
    data = tmp_path / "model.onnx.data"
    data.unlink() if is_removed else data.write_bytes(b"")
    message = r"tensor 'w' has its data in '.*model\.onnx\.data', which cannot be read: .*; restore that file"
    with pytest.raises(apass.errors.AdapterError, match=message):
        model_to_bytes(model)
    with pytest.raises(apass.errors.AdapterError, match=message):
        save_model(model, tmp_path / "other.onnx")


def test_input_that_is_an_output_keeps_its_type(tmp_path: Path) -> None:
    text = """g (int64 m, bool k, float[2, 2] x) => (float[2, 2] x, float[2, 2] z) {
        z = Loop (m, k, x) <body = b (int64 i, bool c, float[2, 2] v) => (bool c, float[2, 2] v) {}>
    }"""
    proto = proto_of(text)
    for graph in (proto.graph, proto.graph.node[0].attribute[0].g):
        for output in graph.output:
            output.type.tensor_type.ClearField("shape")
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    model = load_model(path)
    body = model.graph[0].attributes["body"].as_graph()
    assert [value.shape for value in (model.graph.inputs[2], body.inputs[2])] == [ir.Shape([2, 2])] * 2
