"""The folder of the repository, for commands and files of tests."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
