"""`Displayed`: the base class of objects with a rich display."""

from importlib import import_module
from typing import Any

__all__ = ["Displayed"]


class Displayed:
    """A base class that gives an object the display of `apass.view`.

    A notebook shows the object as HTML, and `rich.print` shows it in a terminal. Derive the module class of an IR from
    it: the functions of the module are then shown by the text of its adapter, or the whole by `str` if there is none.

    >>> import apass
    >>> class Program(apass.Displayed):
    ...     def __str__(self):
    ...         return "a program"
    >>> print(apass.view(Program()))
    a program

    """

    # The display takes long to import, and most programs never show an object.
    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(import_module("apass.display.view").view(self)._repr_html_())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # IPython in a terminal. The addresses that Python shows by default are of no use there either.
        has_address = type(self).__repr__ is object.__repr__ and not cycle
        printer.text(str(import_module("apass.display.view").view(self)) if has_address else repr(self))

    def __rich__(self) -> object:
        return import_module("apass.display.view").view(self).__rich__()
