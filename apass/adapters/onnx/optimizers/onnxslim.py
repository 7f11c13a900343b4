"""The pass `onnxslim.Slim`."""

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.optimizers.foreign_pass import provide
from apass.adapters.onnx.optimizers.isolation import Optimizer
from apass.adapters.onnx.passes.workarounds import is_incomparable
from apass.adapters.onnx.storage import model_proto
from apass.errors import MissingExtraError

try:
    VERSION: Final = version("onnxslim")
    """The installed version of onnxslim. The library itself is imported in the worker process only."""
except PackageNotFoundError as _error:
    raise MissingExtraError(
        f"the passes onnxslim.* need onnxslim ({_error}): pip install 'apass[onnxslim]'"
    ) from _error

__all__ = ["slim"]

CAUTION: Final = (
    "Fails on models with inputs or outputs of optional types. Keeps random nodes, Dropout in training, and nodes of "
    "other domains, which onnxslim 0.1 takes for constants or for nodes of ONNX. Infers no shapes before ONNX 7. "
    "ONNX's reference evaluator cannot run FlexAttention if its subgraph uses lifted constants."
)
"""The defects that were found on ONNX's test models and on small models."""

_PINNED: Final = "apass.pinned"
_OLDEST_INFERRED: Final = 7
"""The oldest version of ONNX for which onnxslim infers shapes."""

_RANDOM: Final = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators that onnxslim would evaluate as constants."""


def slim(model: ir.Model, *, no_shape_infer: bool = False, **options: Any) -> ir.Model:
    """Run `onnxslim.slim`."""
    undo = _guard(model)
    # Its shape inference returns None for models of older versions, and for models of other domains only.
    has_shapes = model.opset_imports.get("", 0) >= _OLDEST_INFERRED
    proto = model_proto(model)
    library: Any = import_module("onnxslim")
    with _without_folding_of_pinned():
        result = library.slim(proto, no_shape_infer=no_shape_infer or not has_shapes, **options)
    from_proto: Any = ir.from_proto
    optimized: ir.Model = from_proto(result)
    undo(optimized)
    return optimized


def _guard(model: ir.Model) -> Callable[[ir.Model], None]:
    """Hide nodes that onnxslim would change wrongly; return the undo function."""
    owners: list[Any] = [model.graph, *model.functions.values()]
    names: dict[str, tuple[str, str]] = {}
    for node in [node for owner in owners for node in owner.all_nodes()]:
        if is_incomparable(node) or node.op_type in _RANDOM:
            # onnxslim looks at operators only, so the domain alone does not hide a node.
            hidden = f"Pinned{len(names)}"
            names[hidden] = (node.domain, node.op_type)
            node.domain, node.op_type = _PINNED, hidden
        elif node.op_type == "Constant":
            _set_plain_value(node)

    def undo(optimized: ir.Model) -> None:
        owners: list[Any] = [optimized.graph, *optimized.functions.values()]
        for node in [node for owner in owners for node in owner.all_nodes()]:
            if node.domain == _PINNED:
                node.domain, node.op_type = names[node.op_type]

    if names:
        model.opset_imports[_PINNED] = 1
    return undo


def _set_plain_value(node: ir.Node) -> None:
    """Replace the float or the floats of a Constant node by a tensor."""
    # onnxslim would make them float64, as in https://github.com/NVIDIA/TensorRT/pull/4834.
    for name in ("value_float", "value_floats"):
        attr = node.attributes.get(name)
        if attr is not None and not attr.is_ref():
            del node.attributes[name]
            tensor = ir.tensor(np.array(attr.value, np.float32))
            node.attributes["value"] = ir.AttrTensor("value", tensor)


@contextmanager
def _without_folding_of_pinned() -> Generator[None]:
    """Keep pinned nodes out of constant folding."""
    # `onnxslim.slim` has no argument for it, and onnxruntime could evaluate nothing if one operator is unknown.
    graph: Any = import_module("onnxslim.third_party.onnx_graphsurgeon").Graph
    original = graph.fold_constants

    def is_pinned(node: Any) -> bool:
        return bool(node.domain == _PINNED)

    def fold_constants(self: Any, **options: Any) -> Any:
        return original(self, **{**options, "should_exclude_node": is_pinned})

    graph.fold_constants = fold_constants
    try:
        yield
    finally:
        graph.fold_constants = original


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


provide(
    "onnxslim.Slim",
    Optimizer("onnxslim", VERSION, __name__, "slim", CAUTION),
    f"Fold constants, remove and merge nodes, and fuse patterns with onnxslim.\n\n{CAUTION}",
    [
        _option("no_shape_infer", bool, False),
        _option("skip_optimizations", tuple[str, ...], ()),
        _option("skip_fusion_patterns", tuple[str, ...], ()),
        _option("size_threshold", int, 2**24),  # bytes; by default onnxslim has no limit
    ],
)
