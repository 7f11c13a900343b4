"""Shapes from onnx's inference functions, compared with onnxruntime."""

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st

from apass.adapters.onnx.rewrites.dims import Shape
from apass.adapters.onnx.rewrites.facts import Facts
from tests.helpers.amounts import amount
from tests.helpers.onnx_models import model_of, onnxruntime_session
from tests.helpers.rows import row


def inferred(graph: str) -> list[Shape | None]:
    """Return the shapes of the results of the only node of a graph."""
    model = model_of(graph)
    facts = Facts(model.graph, 2**20, 2**20, is_main=True)
    node = model.graph[0]
    facts.record(node)
    return [facts.shape(value) for value in node.outputs]


def computed(graph: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of the output in onnxruntime, or None if it rejects the model."""
    data = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}').SerializeToString()
    try:
        session = onnxruntime_session(data)
        return tuple(session.run(None, {"x": np.ones(shape, np.float32)})[0].shape)
    except Exception:
        return None


@st.composite
def pools(draw: st.DrawFn) -> tuple[str, tuple[int, ...]]:
    """Draw a graph with one pool, and the shape of its input."""
    rank = draw(st.integers(1, 2))
    shape = (1, 2, *(draw(st.integers(1, 6)) for _ in range(rank)))

    def numbers(low: int, high: int, count: int = rank) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    attrs = [f"kernel_shape: ints = {numbers(1, 4)}", f"ceil_mode: int = {draw(st.integers(0, 1))}"]
    attrs.append(f"strides: ints = {numbers(1, 4)}")
    attrs.append(f"dilations: ints = {draw(st.sampled_from([[1] * rank, numbers(1, 2)]))}")
    paddings = [
        f"pads: ints = {numbers(0, 2, 2 * rank)}",
        *(f'auto_pad: string = "{x}"' for x in ("SAME_UPPER", "VALID")),
    ]
    attrs.append(draw(st.sampled_from([*paddings[:1] * 2, *paddings])))
    operator = draw(st.sampled_from(["AveragePool", "LpPool", "MaxPool"]))
    result = ", ".join("ABCD"[: rank + 2])
    graph = f"g (float{list(shape)} x) => (float[{result}] y) {{ y = {operator} <{', '.join(attrs)}> (x) }}"
    return graph, shape


@settings(deadline=None, max_examples=amount(150))
@given(pools())
def test_shapes_of_pools_are_those_of_onnxruntime(drawn: tuple[str, tuple[int, ...]]) -> None:
    graph, shape = drawn
    expected = computed(graph, shape)
    [known] = inferred(graph)
    if expected is not None and known is not None:
        assert len(known) == len(expected)
        assert [size for size in known if isinstance(size, int)] == [
            size for size, dim in zip(expected, known, strict=True) if isinstance(dim, int)
        ]


def test_shape_of_a_common_pool_is_known() -> None:
    text = """g (float[1, 3, 7, 7] x) => (float[A, B, C, D] y) {
        y = MaxPool <ceil_mode: int = 1, kernel_shape: ints = [3, 3], strides: ints = [2, 2]> (x)
    }"""
    assert inferred(text) == [(1, 3, 3, 3)] == [computed(text, (1, 3, 7, 7))]


def test_shapes_that_onnx_infers_wrongly_are_unknown() -> None:
    rows = {
        "the rank of a ConvTranspose": """g (float[1, 2, 5] x) => (float[A, B, C] y) <float[2, 1, 1] w = {1, 1}> {
            y = ConvTranspose <output_shape: ints = [4], pads: ints = [1, 2], strides: ints = [3]> (x, w)
        }""",
        "two kinds of padding": """g (float[1, 2, 5] x) => (float[A, B, C] y) <float[2, 1, 1] w = {1, 1}> {
            y = ConvTranspose <auto_pad: string = "SAME_UPPER", output_padding: ints = [1], strides: ints = [3]> (x, w)
        }""",
        "a broadcast label": """g (float[1, 2, 1] x) => (float[A, B, C] y) <float[2, 1, 1] w = {1, 1}> {
            y = Einsum <equation: string = "bij,bjk->bik"> (x, w)
        }""",
        "a scalar": "g (float x) => (int64[A, B] y) { y = NonZero(x) }",
        "more parts than elements": """g (float[1] x) => (float[A] y, float[B] z, float[C] w) {
            y, z, w = Split <num_outputs: int = 3> (x)
        }""",
    }
    for name, graph in rows.items():
        with row(name):
            assert set(inferred(graph)) == {None}
