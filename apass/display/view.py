"""`View`: an object as notebooks, rich and `print` show it."""

from apass.display.blocks import Block
from apass.display.html import render_html
from apass.display.text import render_text

__all__ = ["View"]


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

    def _repr_html_(self) -> str:
        return render_html(self._block)

    def __rich__(self) -> object:
        # Only rich calls this method, so it is installed.
        from apass.display.terminal import render_rich

        return render_rich(self._block)
