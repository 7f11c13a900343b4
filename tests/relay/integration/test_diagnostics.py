"""Diagnostics of passes over Relay: origin and source text."""

from typing import cast

import anyio.lowlevel
import pytest

import apass
from apass import relay
from apass.core.diagnostics import Span
from apass.core.executor import ExecutorChoice

pytestmark = pytest.mark.anyio

TEXT = '#[version = "0.0.5"]\ndef @main(%x: float32) {{\n  {body}\n}}\n'


@apass.function_pass(opt_level=0)
def RefuseBody(func: relay.Function, mod: relay.IRModule, ctx: apass.PassContext) -> relay.Function:
    ctx.diag_ctx.warning("no such body", func.body.span)
    ctx.diag_ctx.help("write another one")
    return func


@apass.module_pass(opt_level=0)
async def RefuseModule(mod: relay.IRModule, ctx: apass.PassContext) -> relay.IRModule:
    await anyio.lowlevel.checkpoint()
    ctx.diag_ctx.warning("no such module", cast("Span", mod["main"].body.span))
    return mod


def excerpt(message: str, body: str, origin: str, span: Span | None, after: str = "") -> str:
    """Return the rendered diagnostic about a body."""
    assert span is not None
    mark = "^" * (span.end_column - span.column)
    return (
        f"warning: {message}\n --> m.relay:3:3\n  |\n3 |   {body}\n  |   {mark}\n  |\n  = in {origin}\n{after}".rstrip()
    )


@pytest.mark.process
@pytest.mark.parametrize("executor", ["inline", "thread", "process"])
async def test_diagnostic_of_function_pass_shows_line_and_origin(executor: ExecutorChoice) -> None:
    mod = relay.parse(TEXT.format(body="exp(%x)"), "m.relay")
    async with apass.PassContext(executor=executor) as ctx:
        await apass.Sequential([RefuseBody])(mod)
    origin = "pass RefuseBody, function main"
    after = f"help: write another one\n  = in {origin}"
    # A worker process sees the text that it received.
    rendered = ctx.diag_ctx.render().replace("from_bytes", "m.relay").replace(" /* ty=float32 */", "")
    assert rendered == excerpt("no such body", "exp(%x)", origin, mod["main"].body.span, after)


async def test_modules_of_one_source_name_show_their_lines() -> None:
    bodies = {"a": "exp(%x)", "b": "tanh(%x)"}
    modules = {name: relay.parse(TEXT.format(body=body), "m.relay") for name, body in bodies.items()}
    async with apass.PassContext() as ctx:
        await apass.optimize_all(modules, apass.Sequential([RefuseModule]))
    expected = [
        excerpt("no such module", body, f"pass RefuseModule, module {name}", modules[name]["main"].body.span)
        for name, body in bodies.items()
    ]
    assert ctx.diag_ctx.render() == "\n\n".join(expected)
