"""Sizes of the dynamic dimensions of inputs with which a model may run.

Models seldom declare them. Exporters name a dimension, leave it out, or write -1 or 0. The operators restrict the
sizes: a Conv fixes the channels, an LSTM ties the batch of its state to that of its input. The sizes that remain free,
such as the height of an image, are found by trial.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import onnx
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import Dim, attributes
from apass.adapters.onnx.rewrites.facts import Facts, is_onnx, subgraphs

__all__ = ["candidate_sizes", "dim_label"]

FIRST: Final = (2, 3, 4)
"""Sizes of the first candidate, used in rotation. They differ, so that a transposed result has another shape."""

LADDER: Final = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 576, 640, 800, 1024)
"""Sizes of images, windows and texts, from small to large; a model runs fastest with the first that it accepts."""

LONG: Final = (2048, 4096, 8192, 16000, 32000, 65536)
"""Further sizes of the last dimension of an input: samples of sound."""

MAX_NODES: Final = 20_000
"""Models with more nodes are not searched for constraints."""


def dim_label(name: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> str | None:
    """Return the label of a dimension of input `name`, or None if its size is fixed.

    Dimensions with one name have one label. A size of 0 or less is dynamic: Paddle's exporter writes -1.
    """
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return None
    return dim.dim_param or f"{name}[{axis}]"


def candidate_sizes(model: onnx.ModelProto, infos: Sequence[onnx.ValueInfoProto]) -> Iterator[dict[str, int]]:
    """Iterate over sizes of the dynamic dimensions by label, the likely ones first.

    Parameters:
        model: the model, which is read for constraints if the first candidate does not fit.
        infos: the inputs, with the shapes to assume.

    """
    dims: dict[str, int] = {}
    empty: set[str] = set()
    for info in infos:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            label = dim_label(info.name, axis, dim)
            if label is not None:
                dims[label] = axis
                empty.update([label] if dim.HasField("dim_value") and not dim.dim_value else [])
    first = {label: FIRST[index % len(FIRST)] for index, label in enumerate(dims)}
    yield first
    if empty:
        yield {**first, **dict.fromkeys(empty, 0)}
    if not dims:
        return
    groups = _groups(model, infos, list(dims))
    # Of the groups, only those without a size are free. A group with a first axis is a number of samples.
    fixed = {label: size for labels, size in groups for label in labels if size is not None}
    free = [labels for labels, size in groups if size is None]
    batch = [labels for labels in free if any(dims[label] == 0 for label in labels)]
    rest = [labels for labels in free if labels not in batch]
    yield from _unique(_assignments(fixed, free, batch, rest))


def _assignments(
    fixed: Mapping[str, int], free: Sequence[list[str]], batch: Sequence[list[str]], rest: Sequence[list[str]]
) -> Iterator[dict[str, int]]:
    yield {**fixed, **_sizes(free, [FIRST[index % len(FIRST)] for index in range(len(free))])}
    for size in LADDER:
        yield {**fixed, **_sizes(rest, [size] * len(rest)), **_sizes(batch, [1] * len(batch))}
        yield {**fixed, **_sizes(free, [size] * len(free))}
        for chosen in free if len(free) > 1 else ():
            yield {**fixed, **_sizes(free, [size if labels is chosen else 1 for labels in free])}
    for size in LONG:
        yield {**fixed, **_sizes(rest, [size] * len(rest)), **_sizes(batch, [1] * len(batch))}
        for chosen in free:
            yield {**fixed, **_sizes(free, [size if labels is chosen else 1 for labels in free])}


def _sizes(groups: Sequence[list[str]], sizes: Sequence[int]) -> dict[str, int]:
    return {label: size for labels, size in zip(groups, sizes, strict=True) for label in labels}


def _unique(candidates: Iterator[dict[str, int]]) -> Iterator[dict[str, int]]:
    seen: set[tuple[tuple[str, int], ...]] = set()
    for candidate in candidates:
        key = tuple(sorted(candidate.items()))
        if key not in seen:
            seen.add(key)
            yield candidate


def _groups(
    model: onnx.ModelProto, infos: Sequence[onnx.ValueInfoProto], labels: Sequence[str]
) -> list[tuple[list[str], int | None]]:
    """Return groups of equal dimensions, each with its size if an operator fixes it."""
    if len(model.graph.node) > MAX_NODES:
        return [([label], None) for label in labels]
    ties = _Ties()
    for left, right in _constraints(model, infos):
        ties.add(left, right)
    groups: dict[Dim, list[str]] = {}
    for label in labels:
        groups.setdefault(ties.root(label), []).append(label)
    return [(members, root if isinstance(root, int) else None) for root, members in groups.items()]


class _Ties:
    """Dimensions that must be equal: a union-find over symbols and sizes."""

    def __init__(self) -> None:
        self._parent: dict[Dim, Dim] = {}

    def root(self, dim: Dim) -> Dim:
        """Return the size of a dimension, or the symbol of its group."""
        while dim in self._parent:
            dim = self._parent[dim]
        return dim

    def add(self, left: Dim, right: Dim) -> None:
        """Make two dimensions equal; two sizes that differ are left as they are."""
        one, other = self.root(left), self.root(right)
        if one == other or (isinstance(one, int) and isinstance(other, int)):
            return
        if isinstance(one, int):
            one, other = other, one
        self._parent[one] = other


def _constraints(model: onnx.ModelProto, infos: Sequence[onnx.ValueInfoProto]) -> Iterator[tuple[Dim, Dim]]:
    """Iterate over pairs of dimensions that operators require to be equal."""
    graph = ir.from_proto(model).graph
    facts = Facts(graph, 1 << 16, 1 << 20, is_main=True)
    for info in infos:
        value = next((item for item in graph.inputs if item.name == info.name), None)
        # The symbol that the facts give to each dimension, with its label.
        for axis, (dim, symbol) in enumerate(
            zip(info.type.tensor_type.shape.dim, facts.shape(value) or (), strict=False)
        ):
            label = dim_label(info.name, axis, dim)
            yield symbol, dim.dim_value if label is None else label
    for node in graph:
        yield from _node_constraints(node, facts)


def _node_constraints(node: ir.Node, facts: Facts) -> Iterator[tuple[Dim, Dim]]:
    facts.record(node)
    bodies = subgraphs(node)
    if bodies:
        facts.enter_bodies(node)
        for body in bodies:
            for inner in body:
                yield from _node_constraints(inner, facts)
        facts.leave_bodies(node)
    if not is_onnx(node):
        return
    shapes: list[Sequence[Dim]] = [facts.shape(value) or () for value in node.inputs]
    rule = _REQUIRED.get(node.op_type)
    try:
        if rule is not None:
            yield from rule(node, shapes)
    except (IndexError, TypeError, KeyError, ValueError):
        # An operand has no known shape, or the node is not valid.
        return


def _conv(node: ir.Node, shapes: Sequence[Sequence[Dim]]) -> Iterator[tuple[Dim, Dim]]:
    data, weights = shapes[:2]
    group = attributes(node).get("group", 1)
    channels = weights[0] if node.op_type == "ConvTranspose" else weights[1]
    if isinstance(channels, int):
        yield data[1], channels * (1 if node.op_type == "ConvTranspose" else group)


def _normalized(node: ir.Node, shapes: Sequence[Sequence[Dim]]) -> Iterator[tuple[Dim, Dim]]:
    yield shapes[0][-1 if node.op_type == "LayerNormalization" else 1], shapes[1][-1]


def _matmul(node: ir.Node, shapes: Sequence[Sequence[Dim]]) -> Iterator[tuple[Dim, Dim]]:
    left, right = shapes[:2]
    yield left[-1], right[-2] if len(right) > 1 else right[-1]
    yield from _equal_axes(left[:-2], right[:-2])


def _gemm(node: ir.Node, shapes: Sequence[Sequence[Dim]]) -> Iterator[tuple[Dim, Dim]]:
    attrs, (left, right) = attributes(node), shapes[:2]
    yield left[0 if attrs.get("transA", 0) else 1], right[1 if attrs.get("transB", 0) else 0]


def _recurrent(node: ir.Node, shapes: Sequence[Sequence[Dim]]) -> Iterator[tuple[Dim, Dim]]:
    data, weights, recurrence = shapes[:3]
    yield data[2], weights[2]
    for state in shapes[5:7]:
        if state:
            yield from zip(state, (weights[0], data[1], recurrence[2]), strict=True)


def _concat(node: ir.Node, shapes: Sequence[Sequence[Dim]]) -> Iterator[tuple[Dim, Dim]]:
    axis = int(attributes(node)["axis"])
    known = [shape for shape in shapes if shape]
    for shape in known[1:]:
        pairs = enumerate(zip(known[0], shape, strict=True))
        yield from (pair for index, pair in pairs if index != axis % len(shape))


def _equal(node: ir.Node, shapes: Sequence[Sequence[Dim]]) -> Iterator[tuple[Dim, Dim]]:
    known = [shape for shape in shapes if shape]
    for shape in known[1:]:
        yield from _equal_axes(known[0], shape)


def _equal_axes(left: Sequence[Dim], right: Sequence[Dim]) -> Iterator[tuple[Dim, Dim]]:
    """Iterate over the pairs of sizes that are broadcast, except those of 1."""
    for one, other in zip(reversed(left), reversed(right), strict=False):
        if 1 not in (one, other):
            yield one, other


_REQUIRED: Final = {
    "BatchNormalization": _normalized,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv,
    "Gemm": _gemm,
    "GRU": _recurrent,
    "InstanceNormalization": _normalized,
    "LSTM": _recurrent,
    "LayerNormalization": _normalized,
    "MatMul": _matmul,
    "RNN": _recurrent,
    **dict.fromkeys(
        ("Add", "And", "Div", "Equal", "Greater", "Less", "Max", "Min", "Mul", "Or", "Sub", "Where"), _equal
    ),
}
"""Which dimensions of the operands an operator requires to be equal."""
