"""`Displayed`: the base class of objects with a rich display."""

from typing import Any

__all__ = ["Displayed"]


class Displayed:
    """A base class that gives an object the display of `apass.view`.

    A notebook shows the object as HTML, and `rich.print` shows it in a terminal. Derive the module class of an IR from
    it: the functions of the module are then shown by the text of its adapter, or the whole by `str` if there is none.

    >>> import apass
    >>> class Program(apass.plugins.Displayed):
    ...     def __str__(self):
    ...         return "a program"
    >>> print(apass.view(Program()))
    a program

    """

    # Without slots here, no subclass could do without a `__dict__`.
    __slots__ = ()

    def __block__(self) -> object:
        """Return what is shown of the object: one of the blocks of `apass.display.blocks`."""
        # Here and below: the display takes long to import, and most programs never show an object.
        from apass.core.view import module_or_text

        return module_or_text(self)

    def _repr_html_(self) -> str:
        # See above.
        from apass.core.view import view

        return view(self).html()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # See above.
        from apass.core.view import view

        # IPython in a terminal. The addresses that Python shows by default are of no use there either.
        has_address = type(self).__repr__ is object.__repr__ and not cycle
        printer.text(str(view(self)) if has_address else repr(self))

    def __rich__(self) -> object:
        # See above.
        from apass.core.view import view

        return view(self).__rich__()
