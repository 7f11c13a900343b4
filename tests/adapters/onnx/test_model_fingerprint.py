"""Fingerprints of ONNX models: equal only for equal contents."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from apass.adapters.onnx import ADAPTER
from tests.helpers.onnx_models import model_of, rich_proto, spread, with_functions

Model = ir.Model


def test_fingerprints_depend_on_contents() -> None:
    for case in spread():
        copy = ADAPTER.loads(ADAPTER.dumps(case.model))
        assert ADAPTER.fingerprint(copy) == ADAPTER.fingerprint(case.model), case.name
        assert ADAPTER.equal(copy, case.model)
        assert ADAPTER.equal(copy.graph, case.model.graph)


def test_fingerprints_differ_for_different_models() -> None:
    prints = {ADAPTER.fingerprint(case.model) for case in spread()}
    texts = {ADAPTER.dumps(case.model) for case in spread()}
    assert len(prints) == len(texts)


def changes(message: Any, path: str = "") -> Iterator[tuple[str, Callable[[], None]]]:
    """Iterate over the values in a message, each with a function that changes it."""
    for field, value in message.ListFields():
        here = f"{path}.{field.name}"
        if field.message_type is not None:
            for index, item in enumerate(value if field.is_repeated else [value]):
                yield from changes(item, f"{here}[{index}]")
        elif field.is_repeated:
            yield here, partial(value.append, value[0])
        else:
            yield here, partial(setattr, message, field.name, other(value))


def other(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bytes):
        return bytes(byte ^ 1 for byte in value)
    return f"{value}2" if isinstance(value, str) else value + 1


def test_fingerprint_covers_all_fields_of_a_model() -> None:
    original = rich_proto()
    expected, kept = ADAPTER.fingerprint(ir.from_proto(original)), ir.to_proto(ir.from_proto(original))
    changed: list[str] = []
    for index, (path, _) in enumerate(list(changes(original))):
        proto = rich_proto()
        list(changes(proto))[index][1]()
        try:
            model = ir.from_proto(proto)
            is_lost = ir.to_proto(model) == kept
            fingerprint = ADAPTER.fingerprint(model)
        except Exception:
            # The change made the model invalid. onnx_ir has many types of errors for this.
            continue
        changed.append(path)
        assert is_lost or fingerprint != expected, path
    assert len(changed) > 100


def test_fingerprint_ignores_order_of_mappings() -> None:
    first, second = with_functions(), with_functions()
    for model, keys in ((first, "ab"), (second, "ba")):
        for key in keys:
            model.metadata_props[key] = model.graph.metadata_props[key] = key
            model.opset_imports[key] = 1
            model.graph[0].attributes[key] = ir.AttrInt64(key, 1)
            model.graph.register_initializer(ir.Value(name=key, const_value=ir.tensor([1.0], name=key)))
    second.functions["local", "f", ""] = second.functions.pop(("local", "f", ""))
    assert ADAPTER.fingerprint(first) == ADAPTER.fingerprint(second)


def test_fingerprint_depends_on_data_not_storage() -> None:
    array = np.array([1, -2, 3, 4], dtype=np.float32)
    model = model_of("g (float[4] a) => (float[4] x) { x = Add(a, w) }")
    prints: list[str] = []
    packed = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4], array.tolist())
    raw = onnx.numpy_helper.from_array(array, "w")
    lazy = ir.LazyTensor(lambda: ir.tensor(array), dtype=ir.DataType.FLOAT, shape=ir.Shape([4]), name="w")
    other = ir.tensor(np.array([1, -2, 3, 5], dtype=np.float32), name="w")
    tensors: list[ir.TensorProtocol] = [ir.tensor(packed), ir.tensor(raw), ir.tensor(array, name="w"), lazy, other]
    for tensor in tensors:
        model.graph.initializers.clear()
        model.graph.register_initializer(ir.Value(name="w", const_value=tensor))
        prints.append(ADAPTER.fingerprint(model))
    assert prints[:4] == [prints[0]] * 4
    assert prints[4] != prints[0]


def test_change_in_a_writable_array_is_detected() -> None:
    array = np.zeros(4, dtype=np.float32)
    graph = ir.Graph([], [], nodes=[], initializers=[ir.Value(name="w", const_value=ir.tensor(array, name="w"))])
    before = ADAPTER.fingerprint(graph)
    array[0] = 1
    assert ADAPTER.fingerprint(graph) != before


class CountedTensor(ir.ExternalTensor):
    """Counts how often its data is read."""

    reads = 0

    def numpy(self) -> Any:
        CountedTensor.reads += 1
        return super().numpy()


def test_immutable_data_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(1024))
    tensor = CountedTensor("w", 0, 1024, ir.DataType.FLOAT, shape=ir.Shape([256]), name="w", base_dir=tmp_path)
    graph = ir.Graph([], [], nodes=[], initializers=[ir.Value(name="w", const_value=tensor)])
    model = Model(graph, ir_version=10)
    CountedTensor.reads = 0
    prints = {ADAPTER.fingerprint(copy) for copy in (model, model, ADAPTER.isolate(model, ["main"]))}
    assert (len(prints), CountedTensor.reads) == (1, 1)


def test_zero_and_negative_zero_differ() -> None:
    texts = [f"g () => (float x) {{ x = Constant <value_float: float = {zero}> () }}" for zero in ("0.0", "-0.0")]
    assert not ADAPTER.equal(*map(model_of, texts))
