"""Named spaces of pipelines for ONNX models, over which a search goes."""

from typing import Final

from apass.adapters.onnx.optimizers.best import installed_peers
from apass.adapters.onnx.passes import PREFIX

__all__ = ["passes", "tools"]

MOST_TOOLS: Final = 5
"""Maximum number of optimizers in a sequence. An optimizer may run again on the result of another one."""

MOST_PASSES: Final = 12
"""Maximum number of passes in a sequence, as many as `onnx.Default` has."""

TOOL_OPTIONS: Final = {"onnxoptimizer.Optimize": "fixed_point=?"}
"""The options of optimizers that are chosen."""

CHOSEN: Final = {
    "CommonSubexpressionElimination": "size_limit=?1..1024:log",
    "DeduplicateHashedInitializers": "",
    "DeduplicateInitializers": "size_limit=?1..65536:log",
    "EvaluateConstants": "max_bytes=?1024..1048576:log",
    "FuseNodes": "max_bytes=?1024..1048576:log",
    "IdentityElimination": "",
    "Inline": "",
    "LiftConstantsToInitializers": "lift_all_constants=?,size_limit=?1..1024:log",
    "LiftSubgraphInitializersToMainGraph": "",
    "RemoveUnusedFunctions": "",
    "RemoveUnusedNodes": "",
    "RemoveUnusedOpsets": "process_functions=?",
    "Simplify": "max_bytes=?1024..1048576:log",
    "TopologicalSort": "",
}
"""The passes of `passes`, with holes for options that a user may want to choose."""

LEFT_OUT: Final = {
    "AddDefaultAttributes": "it makes models larger",
    "AddInitializersToInputs": "it changes the model's inputs",
    "Checker": "it changes nothing",
    "ClearMetadataAndDocString": "it deletes what the user wrote",
    "NameFix": "it changes only names",
    "OutputFix": "it renames an input",
    "RemoveInitializersFromInputs": "it changes the model's inputs",
    "ShapeInference": "no other pass needs it",
}
"""The passes that are not in `passes`, with the reasons."""


def tools() -> str:
    """Return the space of sequences of the installed optimizers.

    These are `onnx.Default` and the optimizers of other libraries that `onnx.Best` runs.
    """
    names = [f"{PREFIX}Default", *(peer.info.name for peer in installed_peers())]
    return _sequence(MOST_TOOLS, {name: TOOL_OPTIONS.get(name, "") for name in names})


def passes() -> str:
    """Return the space of sequences of the passes `onnx.*`, with their options.

    They keep the results and the interface of a model.
    """
    return _sequence(MOST_PASSES, {f"{PREFIX}{name}": options for name, options in CHOSEN.items()})


def _sequence(most: int, options: dict[str, str]) -> str:
    texts = [f"{name}{{{chosen}}}" if chosen else name for name, chosen in options.items()]
    return f"?{{1..{most}}}({'|'.join(texts)})"
