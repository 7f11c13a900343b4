"""Names and texts of the files below a folder."""

import re
from pathlib import Path


def files(folder: Path) -> list[str]:
    """Return the files below a folder, also hidden ones, without bytecode."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return sorted(str(path.relative_to(folder)) for path in paths)


def texts_without_times(folder: Path) -> dict[str, str]:
    """Return the texts of all files below a folder, with times replaced by T."""
    texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    return {name: re.sub(r" *\d+\.\d{3}( ms| s|  )", r" T\1", text) for name, text in texts.items()}
