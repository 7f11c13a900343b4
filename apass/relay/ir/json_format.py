"""Hooks for `pickle` and `deepcopy` of nodes, which the JSON format registers."""

from collections.abc import Callable

__all__ = ["Reduced", "reduced", "set_json_format"]

Reduced = tuple[Callable[[str], object], tuple[str]]
"""A function that `pickle` calls to restore a node, and its arguments."""

_json_format: list[tuple[Callable[[object], str], Callable[[str], object]]] = []


def set_json_format(save: Callable[[object], str], load: Callable[[str], object]) -> None:
    """Set the functions that convert nodes to JSON and back."""
    _json_format[:] = [(save, load)]


def reduced(node: object) -> Reduced:
    """Return a node as `pickle` stores it. As in TVM, that is its JSON."""
    save, load = _json_format[0]
    return load, (save(node),)
