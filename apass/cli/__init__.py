"""The command line: `apass opt` optimizes models, `apass passes` lists what there is to run."""

from apass.cli.app import main

__all__ = ["main"]
