"""Calls between the functions of an ONNX model."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

import onnx_ir as ir

from apass.errors import AdapterError

__all__ = ["MAX_EXPANDED", "Calls", "call_order", "cycle_text", "expanded_nodes", "function_name"]

Calls = Mapping[ir.OperatorIdentifier, Iterable[ir.OperatorIdentifier]]
"""The functions that each function calls."""

MAX_EXPANDED: Final = 100_000
"""Maximum number of nodes to which calls are expanded by default.

onnx_ir takes seconds for so many calls of one function, because it searches for unused names.
"""

_SHOWN: Final = 5
"""Maximum number of parts of a cycle in a message."""


def call_order(calls: Calls) -> list[ir.OperatorIdentifier]:
    """Return the functions so that each follows the functions it calls.

    Raises:
        AdapterError: if functions call each other in a cycle.

    """
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        cycle = cycle_text([function_name(name) for name in error.args[1]])
        raise AdapterError(f"functions call each other in a cycle: {cycle}") from None


def expanded_nodes(model: ir.Model) -> int:
    """Return the number of nodes in the bodies of functions, once for each call.

    The time is linear in the size of the model.

    Raises:
        AdapterError: if functions call each other in a cycle.

    """
    called = {
        name: [node.op_identifier() for node in func.all_nodes() if node.op_identifier() in model.functions]
        for name, func in model.functions.items()
    }
    sizes: dict[ir.OperatorIdentifier, int] = {}
    for name in call_order(called):
        own = sum(1 for _ in model.functions[name].all_nodes())
        sizes[name] = own + sum(sizes[inner] for inner in called[name])
    return sum(sizes.get(node.op_identifier(), 0) for node in model.graph.all_nodes())


def function_name(identifier: ir.OperatorIdentifier) -> str:
    """Return `domain::name` or `domain::name:overload` of a model-local function."""
    domain, name, overload = identifier
    return f"{domain}::{name}" + (f":{overload}" if overload else "")


def cycle_text(names: list[str]) -> str:
    """Return the parts of a cycle with arrows; of many parts, the first and last.

    >>> cycle_text(["a", "b", "a"])
    'a -> b -> a'
    """
    shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], f"... ({len(names) - _SHOWN} more)", names[-1]]
    return " -> ".join(shown)
