"""Consoles of rich that print to memory."""

import io

from rich.console import Console


def console(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=terminal, width=100, height=20, color_system=None), file
