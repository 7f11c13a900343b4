"""The command line: `apass opt` optimizes models, `apass passes` lists the passes."""

from apass.cli.app import main

__all__ = ["main"]
