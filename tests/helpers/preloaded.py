"""Imports what warm processes need, for commands and for pages of the docs."""

import gc
from importlib import import_module
from typing import Final

MODULES: Final = (
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "apass.adapters.onnx.passes",
    "apass.adapters.onnx.plugin",
    "apass.adapters.onnx.rewrites",
    "apass.cli.commands.opt",
    "apass.instruments.report",
    "apass.relay.transform",
    "apass.testing",
    "concurrent.futures.thread",
    "hypothesis",
    "pydantic.type_adapter",  # typer imports it if it is there
    "rich.table",
    "sybil.evaluators.python",
)

for _name in MODULES:
    import_module(_name)
# Each process would copy the pages of memory that its collector marks.
gc.collect()
gc.freeze()
