"""What is known of each pass of onnx_ir: its level, what it does, what to beware of; and the default pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT", "TABLE", "Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one pass beside its class."""

    opt_level: int
    """0: a change of form, asked for by name; 1: a cheap clean-up; 2: sharing of what is equal; 3: the costly ones."""
    doc: str
    """What it does, in one line."""
    caution: str = ""
    """What to know before using it, and why it is not in `onnx.Default` if it is not."""


TABLE: Final[Mapping[str, Entry]] = {
    "AddDefaultAttributes": Entry(
        0,
        "Write out the attributes that a node leaves to their defaults.",
        "Makes models bigger; the reference evaluator knows no `round_mode` on Cast, which this one adds.",
    ),
    "AddInitializersToInputs": Entry(
        0,
        "List every initializer of the main graph as an input, as IR version 3 wants it.",
        "Changes the model's inputs.",
    ),
    "Checker": Entry(0, "Run `onnx.checker`, and fail if the model is not valid.", "Changes nothing."),
    "ClearMetadataAndDocString": Entry(
        0,
        "Drop the metadata and doc strings of nodes, graphs and functions, but for the mark `SkipOptimization`.",
        "Loses what people wrote.",
    ),
    "CommonSubexpressionElimination": Entry(
        2,
        "Share the result of nodes that compute the same.",
        "Only in the main graph; what may be random, is not defined by ONNX, or has -0.0 in an attribute, is kept.",
    ),
    "DeduplicateHashedInitializers": Entry(3, "Share equal initializers of any size, found by their hashes."),
    "DeduplicateInitializers": Entry(2, "Share equal initializers of up to 1024 elements."),
    "IdentityElimination": Entry(
        1,
        "Drop Identity nodes.",
        "Kept are those that give a model's output a second name, or hand an outer value out of a subgraph.",
    ),
    "Inline": Entry(3, "Put the bodies of model-local functions in the places of their calls, and drop the functions."),
    "LiftConstantsToInitializers": Entry(
        2,
        "Make initializers of Constant nodes.",
        "Fails on models of IR version 3, where an initializer has to be an input; saves nothing by itself.",
    ),
    "LiftSubgraphInitializersToMainGraph": Entry(
        2,
        "Move the initializers of subgraphs to the main graph.",
        "The reference evaluator cannot run FlexAttention with a subgraph that reads the main graph; saves nothing.",
    ),
    "NameFix": Entry(0, "Give every node and value a name of its own.", "A change of form."),
    "OutputFix": Entry(
        0,
        "Put an Identity where an input of a graph is its output too.",
        "Gives that input of the model another name, for two values cannot share one.",
    ),
    "RemoveInitializersFromInputs": Entry(
        0,
        "Take initializers out of the inputs, so that nobody can override them.",
        "Changes the model's inputs; fails on models of IR version 3, where an initializer has to be an input.",
    ),
    "RemoveUnusedFunctions": Entry(1, "Drop model-local functions that nothing calls."),
    "RemoveUnusedNodes": Entry(1, "Drop nodes, optional outputs and initializers that nothing uses."),
    "RemoveUnusedOpsets": Entry(1, "Drop imports of operator sets that nothing uses."),
    "ShapeInference": Entry(
        0,
        "Fill in the types and shapes of values with `onnx.shape_inference`.",
        "Takes longer than the other passes together, and none of them needs it.",
    ),
    "TopologicalSort": Entry(
        0, "Put the nodes in an order in which each comes after what it uses.", "A change of form."
    ),
}
"""The passes by name, without `onnx.`; one that a newer onnx_ir brings is registered too, at level 0."""

DEFAULT: Final = (
    "Inline",
    "IdentityElimination",
    "DeduplicateInitializers",
    "DeduplicateHashedInitializers",
    "CommonSubexpressionElimination",
    "RemoveUnusedNodes",
    "RemoveUnusedFunctions",
    "RemoveUnusedOpsets",
)
"""What `onnx.Default` consists of: everything that makes a model smaller, leaves its meaning and its interface."""
