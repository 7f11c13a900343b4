"""The byte format of stored results: modules and functions."""

import json
from typing import Any, Final

from apass.core.adapter import adapter_by_name, adapter_for, extract_into, facts_of, load_with_facts, type_name

__all__ = ["SAME", "STORED", "function_bytes", "module_bytes", "read_function", "read_module"]

SAME: Final = b"same"
"""Stored for a result that is the input itself."""
STORED: Final = b"key:"
"""The start of a result that is stored under another key, which follows."""
_OTHER: Final = b"new:"
"""The start of the header of any other stored result, and of the function in it."""


def function_bytes(adapter: Any, mod: Any, name: str, func: Any) -> bytes:
    """Return a function as bytes: its name, and a module that holds nothing else."""
    isolated = adapter.isolate(adapter.replace(mod, {name: func}), [name])
    return _with_head(name, module_bytes(adapter, isolated))


def read_function(adapter: Any, data: bytes, mod: Any) -> Any:
    """Return the function as one of `mod`, None if no adapter knows its type."""
    name, body = _split_head(data)
    sub = read_module(adapter, body)
    return None if sub is None else extract_into(adapter, sub, [name], mod)[name]


def module_bytes(adapter: Any, mod: Any) -> bytes:
    """Return a module as bytes, with a header of its type and facts.

    Facts are what the `dumps` of its adapter omits. The type is null if `adapter` reads it; a pass may return a module
    of another IR.
    """
    module_adapter: Any = adapter_for(mod)
    kind = None if module_adapter is adapter else type_name(mod)
    return _with_head([kind, facts_of(module_adapter, mod)], module_adapter.dumps(mod))


def read_module(adapter: Any, data: bytes) -> Any:
    """Return the module, None if no adapter knows its type.

    Raises:
        Exception: any error, if `data` is not what `module_bytes` returned.

    """
    (kind, facts), body = _split_head(data)
    module_adapter: Any = adapter if kind is None else adapter_by_name(kind)
    if module_adapter is None:
        return None
    return load_with_facts(module_adapter, body, facts)


def _with_head(head: object, data: bytes) -> bytes:
    text = json.dumps(head).encode()
    return b"".join((_OTHER, len(text).to_bytes(4, "big"), text, data))


def _split_head(data: bytes) -> tuple[Any, bytes]:
    start = len(_OTHER) + 4
    if not data.startswith(_OTHER) or len(data) < start:
        raise ValueError("the value has no header")
    end = start + int.from_bytes(data[len(_OTHER) : start], "big")
    return json.loads(data[start:end]), data[end:]
