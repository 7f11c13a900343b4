"""Installed distributions with entry points, without an installation."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apass.loading.entry_points import all_plugins

__all__ = ["installed", "write_distribution"]


def write_distribution(folder: Path, name: str, points: str, *, version: str = "1.0", requires: str = "") -> None:
    """Write the metadata of a distribution.

    Parameters:
        folder: the folder of distributions.
        name: the name.
        points: the text of `entry_points.txt`.
        version: the version.
        requires: a requirement; none if empty.

    """
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    requirement = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}")
    (info / "entry_points.txt").write_text(points)


@contextmanager
def installed(*folders: Path) -> Generator[None]:
    """Use the distributions in some folders within the block."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "path", [*map(str, folders), *sys.path])
            all_plugins.cache_clear()
            yield
    finally:
        all_plugins.cache_clear()
