"""`View`: an object as notebooks, rich and `print` show it."""

from apass.display.blocks import Block
from apass.display.html import render_html
from apass.display.text import render_text
from apass.util.text import shorten

__all__ = ["View", "not_shown"]


class View:
    """An object as a notebook, rich or `print` shows it.

    - A notebook shows the object as HTML. The HTML loads nothing, has no scripts outside of the frame of a report, and
      escapes every text.
    - `rich.print` shows it with colours (`pip install 'apass[cli]'`).
    - `str` and `print` give plain text.
    """

    def __init__(self, block: Block) -> None:
        self._block = block

    def __str__(self) -> str:
        return render_text(self._block)

    # The prompt of Python, and text outputs of notebooks, show the text, too.
    __repr__ = __str__

    def html(self) -> str:
        """Return the HTML that a notebook shows."""
        return render_html(self._block)

    _repr_html_ = html

    def __rich__(self) -> object:
        # Only rich calls this method, so it is installed.
        from apass.display.terminal import render_rich

        return render_rich(self._block)


def not_shown(obj: object) -> TypeError:
    """Return the error for an object that has no display."""
    advice = "if it is a module, register an adapter for its type with register_adapter"
    if type(obj).__name__ == "ModelProto":  # the class of the package onnx, which passes do not work on
        advice = "convert it with onnx_ir.from_proto(model)"
    return TypeError(
        f"view shows passes, plans, contexts, modules, outcomes and results of instruments, got {shorten(repr(obj))}; "
        f"{advice}"
    )
