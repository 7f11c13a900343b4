"""Fingerprints of ONNX models: equal for equal contents, and for no others."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from apass.adapters.onnx import ADAPTER
from tests.adapters.onnx.models import model_of, rich_proto, spread, with_functions

Model = ir.Model


def test_fingerprints_go_by_contents() -> None:
    for case in spread():
        copy = ADAPTER.loads(ADAPTER.dumps(case.model))
        assert ADAPTER.fingerprint(copy) == ADAPTER.fingerprint(case.model), case.name
        assert ADAPTER.equal(copy, case.model)
        assert ADAPTER.equal(copy.graph, case.model.graph)


def test_fingerprints_of_different_models_differ() -> None:
    prints = {ADAPTER.fingerprint(case.model) for case in spread()}
    texts = {ADAPTER.dumps(case.model) for case in spread()}
    assert len(prints) == len(texts)


def changes(message: Any, path: str = "") -> Iterator[tuple[str, Callable[[], None]]]:
    """Go over every value set anywhere in a message, with what changes it in place."""
    for field, value in message.ListFields():
        here = f"{path}.{field.name}"
        if field.message_type is not None:
            for index, one in enumerate(value if field.is_repeated else [value]):
                yield from changes(one, f"{here}[{index}]")
        elif field.is_repeated:
            yield here, partial(value.append, value[0])
        else:
            yield here, partial(setattr, message, field.name, other(value))


def other(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bytes):
        return bytes(byte ^ 1 for byte in value)
    return f"{value}2" if isinstance(value, str) else value + 1


def test_whatever_onnx_ir_keeps_of_a_model_is_in_its_fingerprint() -> None:
    original = rich_proto()
    known, kept = ADAPTER.fingerprint(ir.from_proto(original)), ir.to_proto(ir.from_proto(original))
    tried: list[str] = []
    for index, (path, _) in enumerate(list(changes(original))):
        proto = rich_proto()
        list(changes(proto))[index][1]()
        try:
            model = ir.from_proto(proto)
            same = ir.to_proto(model) == kept
            found = ADAPTER.fingerprint(model)
        except Exception:  # the change broke the model in some way or other
            continue
        tried.append(path)
        assert same or found != known, path
    assert len(tried) > 100


def test_the_order_of_what_has_none_makes_no_difference() -> None:
    one, other = with_functions(), with_functions()
    for model, keys in ((one, "ab"), (other, "ba")):
        for key in keys:
            model.metadata_props[key] = model.graph.metadata_props[key] = key
            model.opset_imports[key] = 1
            model.graph[0].attributes[key] = ir.AttrInt64(key, 1)
            model.graph.register_initializer(ir.Value(name=key, const_value=ir.tensor([1.0], name=key)))
    other.functions["local", "f", ""] = other.functions.pop(("local", "f", ""))
    assert ADAPTER.fingerprint(one) == ADAPTER.fingerprint(other)


def test_how_data_is_stored_makes_no_difference_and_what_it_is_does() -> None:
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


def test_a_change_in_an_array_that_can_be_written_is_seen() -> None:
    array = np.zeros(4, dtype=np.float32)
    graph = ir.Graph([], [], nodes=[], initializers=[ir.Value(name="w", const_value=ir.tensor(array, name="w"))])
    before = ADAPTER.fingerprint(graph)
    array[0] = 1
    assert ADAPTER.fingerprint(graph) != before


class CountedTensor(ir.ExternalTensor):
    """Counts how often its data is asked for."""

    reads = 0

    def numpy(self) -> Any:
        CountedTensor.reads += 1
        return super().numpy()


def test_data_that_cannot_change_is_read_once_for_all_copies(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(16))
    tensor = CountedTensor("w", 0, 16, ir.DataType.FLOAT, shape=ir.Shape([4]), name="w", base_dir=tmp_path)
    graph = ir.Graph([], [], nodes=[], initializers=[ir.Value(name="w", const_value=tensor)])
    model = Model(graph, ir_version=10)
    CountedTensor.reads = 0
    prints = {ADAPTER.fingerprint(one) for one in (model, model, ADAPTER.isolate(model, ["main"]))}
    assert (len(prints), CountedTensor.reads) == (1, 1)


def test_a_zero_and_a_negative_zero_are_not_the_same() -> None:
    texts = [f"g () => (float x) {{ x = Constant <value_float: float = {zero}> () }}" for zero in ("0.0", "-0.0")]
    assert not ADAPTER.equal(*map(model_of, texts))
