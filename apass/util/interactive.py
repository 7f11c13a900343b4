"""Definitions of interactive sessions: notebooks, IPython, the prompt of Python."""

import sys
from inspect import currentframe

__all__ = ["definition_in_session", "is_session"]


def is_session() -> bool:
    """Return whether the program is an interactive session.

    Its main module is then what the user types, which no other process can import.
    """
    # Python's prompt sets this variable, and so do IPython and the kernels of notebooks, for programs that ask.
    return hasattr(sys, "ps1")


def definition_in_session(value: object) -> str | None:
    """Return the name of a definition that a cell or a line of the session makes now.

    It is the qualified name of a function or class, and that of the type for other objects. A definition that is
    executed again has the same name. The result is None outside of sessions, and while a module is imported.
    """
    if not is_session() or _executed_module() != "__main__":
        return None
    name: object = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else type(value).__qualname__


def _executed_module() -> object:
    """Return the name of the module whose top level is executed, the innermost one."""
    frame = currentframe()
    # Some versions of IPython rename the code of a cell, so its name does not show that it is a top level.
    while frame is not None and frame.f_locals is not frame.f_globals:
        frame = frame.f_back
    return None if frame is None else frame.f_globals.get("__name__")
