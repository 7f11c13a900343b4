"""The passes with level, summary and caution; the default pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT", "TABLE", "PassEntry"]


@dataclass(frozen=True, slots=True)
class PassEntry:
    """Facts about one pass that its class does not have."""

    opt_level: int
    """The level of the pass.

    - 0: changes the form of a model; runs only if it is named.
    - 1: a cheap clean-up.
    - 2: computes and shares values, with equal results.
    - 3: an expensive pass, or one that changes last digits.
    """
    doc: str
    """The summary, in one line."""
    caution: str = ""
    """Limits and side effects; for a pass that is not in `onnx.Default`, the reason."""


TABLE: Final[Mapping[str, PassEntry]] = {
    "AddDefaultAttributes": PassEntry(
        0,
        "Add the default values of attributes to all nodes.",
        "Makes models larger; adds `round_mode` to Cast, which the reference evaluator does not support.",
    ),
    "AddInitializersToInputs": PassEntry(
        0,
        "List every initializer of the main graph as an input, as IR version 3 requires.",
        "Changes the model's inputs.",
    ),
    "Checker": PassEntry(0, "Run `onnx.checker`, and fail if the model is not valid.", "Changes nothing."),
    "ClearMetadataAndDocString": PassEntry(
        0,
        "Remove metadata and doc strings, except the mark `SkipOptimization`.",
        "Deletes documentation.",
    ),
    "CommonSubexpressionElimination": PassEntry(
        2,
        "Share the results of nodes that compute the same value.",
        "Only in the main graph; keeps nodes that may be random, are not from ONNX, or have -0.0 in an attribute.",
    ),
    "DeduplicateHashedInitializers": PassEntry(3, "Share equal initializers of any size; compares hashes."),
    "DeduplicateInitializers": PassEntry(2, "Share equal initializers of up to 1024 elements."),
    "EvaluateConstants": PassEntry(
        3,
        "Compute constant values with onnxruntime, or else the reference evaluator, in a worker process.",
        "Another evaluator may compute other last digits. Emits a warning if the evaluation fails.",
    ),
    "FuseNodes": PassEntry(
        3,
        "Move constant scales and shifts into weights, and restore operators such as Gemm, Clip and HardSwish.",
        "Changes last digits; a Clip may replace NaN by a bound.",
    ),
    "IdentityElimination": PassEntry(
        1,
        "Remove Identity nodes.",
        "Keeps nodes that give an output a second name, or return an outer value from a subgraph.",
    ),
    "Inline": PassEntry(
        2,
        "Replace calls of model-local functions by their bodies, and remove the functions.",
        "Fails if the calls expand to more than `max_nodes` nodes.",
    ),
    "LiftConstantsToInitializers": PassEntry(
        2,
        "Replace Constant nodes by initializers.",
        "Fails on models of IR version 3, where an initializer must be an input; reduces no size by itself.",
    ),
    "LiftSubgraphInitializersToMainGraph": PassEntry(
        2,
        "Move the initializers of subgraphs to the main graph.",
        "The reference evaluator cannot run FlexAttention if its subgraph uses the main graph; reduces no size.",
    ),
    "NameFix": PassEntry(0, "Give every node and value a unique name.", "Changes only the form."),
    "OutputFix": PassEntry(
        0,
        "Insert an Identity where an input of a graph is also its output.",
        "Renames that input of the model, because two values cannot have one name.",
    ),
    "RemoveInitializersFromInputs": PassEntry(
        0,
        "Remove initializers from the inputs, so that callers cannot override them.",
        "Changes the model's inputs; fails on models of IR version 3, where an initializer must be an input.",
    ),
    "RemoveUnusedFunctions": PassEntry(1, "Remove model-local functions that are not called."),
    "RemoveUnusedNodes": PassEntry(1, "Remove unused nodes, optional outputs and initializers."),
    "RemoveUnusedOpsets": PassEntry(1, "Remove imports of unused operator sets."),
    "ShapeInference": PassEntry(
        0,
        "Infer the types and shapes of values with `onnx.shape_inference`.",
        "Takes longer than all other passes together, and no other pass needs it. "
        "Fails if calls expand to more than `max_nodes` nodes. "
        "Propagates no data if a value could exceed `max_propagated` elements.",
    ),
    "Simplify": PassEntry(
        2,
        "Fold constants and shapes, remove nodes without effect, and merge nodes; the results are equal bit by bit.",
        "Trusts the declared shapes of inputs; reads and computes no constant of more than `max_bytes` bytes. "
        "The sign of a NaN may change.",
    ),
    "TopologicalSort": PassEntry(0, "Sort the nodes so that each follows the nodes it uses.", "Changes only the form."),
}
"""The passes by name, without `onnx.`. Passes of a newer onnx_ir are also registered, at level 0."""

DEFAULT: Final = (
    "Inline",
    "IdentityElimination",
    "Simplify",
    "DeduplicateInitializers",
    "DeduplicateHashedInitializers",
    "CommonSubexpressionElimination",
    "Simplify",
    "EvaluateConstants",
    "FuseNodes",
    "RemoveUnusedNodes",
    "RemoveUnusedFunctions",
    "RemoveUnusedOpsets",
)
"""The passes of `onnx.Default`: they make a model smaller, and keep its meaning and its interface.

`Simplify` runs again after equal values are shared, which no further round improves for any model of the ONNX corpus.
"""
