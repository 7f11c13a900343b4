"""A pass that asks a child process; importable by workers."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from apass import FunctionPass, PassContext
from apass.external import ProcessHelper

Module = dict[str, str]

PROGRAM = """
while True:
    line = input()
    with open({path!r}, "a") as file:
        file.write(line)
    print(line.upper())
"""


class AskChild(FunctionPass[Module, str], opt_level=0):
    """Turns functions into upper case by a child, which counts the questions."""

    path: str

    @asynccontextmanager
    async def open(self, ctx: PassContext) -> AsyncGenerator[ProcessHelper]:
        async with ProcessHelper([sys.executable, "-uc", PROGRAM.format(path=self.path)]) as helper:
            yield helper

    async def transform_function(self, func: str, mod: Module, ctx: PassContext) -> str:
        return await ctx.opened(self.open).ask(func)
