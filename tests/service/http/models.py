"""Small models and passes for tests of the server."""

import anyio
import onnx_ir as ir

import apass
from apass import PassContext
from tests.helpers.onnx_models import proto_of

__all__ = ["IDENTITY", "OPTIMIZED", "RELU", "Gate", "Params", "named"]

Params = dict[str, str | int | float | bool | None]
"""The query of a request."""


def _bytes_of(graph: str) -> bytes:
    data: bytes = proto_of(graph).SerializeToString()
    return data


IDENTITY = _bytes_of("g (float[4] a) => (float[4] x) { t = Identity(a) x = Relu(t) }")
"""A model with two nodes, one of which `onnx.IdentityElimination` removes."""

RELU = _bytes_of("g (float[4] a) => (float[4] x) { x = Relu(a) }")
"""A model that no pass changes."""

OPTIMIZED = 1
"""Nodes of the result of `IDENTITY`."""


def named(name: str) -> bytes:
    """Return a model that differs from others by its name."""
    return _bytes_of(f"{name} (float[4] a) => (float[4] x) {{ t = Identity(a) x = Relu(t) }}")


class Gate:
    """A pass that waits until the test opens it."""

    def __init__(self) -> None:
        self.entered = anyio.Event()
        """Set when a job runs it."""
        self.opened = anyio.Event()
        """Set it to let all jobs continue."""

        @apass.module_pass(opt_level=0, name="Gate")
        async def wait(mod: ir.Model, ctx: PassContext) -> ir.Model:
            self.entered.set()
            await self.opened.wait()
            return mod

        self.pass_: apass.Pass[ir.Model] = wait
