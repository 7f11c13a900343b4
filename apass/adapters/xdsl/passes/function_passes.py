"""The passes of xDSL that stay within a function."""

from typing import Final

__all__ = ["FUNCTION_PASSES"]

FUNCTION_PASSES: Final = frozenset(
    {
        "canonicalize",
        "cse",
        "dce",
        "licm",
    }
)
"""The passes that read and change one function at a time.

Each looks at an operation, its operands, its users and its block only, and none looks up or creates a symbol.
"""
