"""The tree of passes: states, passes to come, and passes that begin between them."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest

import apass
from apass import PassContext, Sequential
from apass.cli.debugger.pass_tree import MARKS, PassNode, PassTree
from tests.helpers.pauses import Add, Square

pytestmark = pytest.mark.anyio

Module = dict[str, int]


@apass.register_pass
@apass.module_pass(opt_level=0, name="tree.Needed")
def Needed(mod: Module, ctx: PassContext) -> Module:
    return mod


@apass.module_pass(opt_level=0, required=["tree.Needed"])
def Needs(mod: Module, ctx: PassContext) -> Module:
    return mod


@apass.module_pass(opt_level=0)
def Fail(mod: Module, ctx: PassContext) -> Module:
    raise ValueError


@apass.function_pass(opt_level=0)
async def Nest(func: int, mod: Module, ctx: PassContext) -> int:
    return (await Add()({"f": func}))["f"]


def lines(node: PassNode, depth: int = 0) -> Iterator[str]:
    """Iterate over the tree as indented lines."""
    yield f"{'  ' * depth}{MARKS[node.state]} {node.label}"
    for child in node.children:
        yield from lines(child, depth + 1)


async def tree_of(pipeline: apass.Pass[Any], **options: Any) -> list[str]:
    """Return the lines of the tree after a run."""
    tree = PassTree(["m"])
    with suppress(ValueError):
        await pipeline.run({"f": 2}, name="m", ctx=PassContext(instruments=[tree], **options))
    return list(lines(tree.roots["m"]))[1:]


async def test_passes_have_states() -> None:
    pipeline = Sequential([Add(), Sequential([Needed, Fail, Square()], name="inner"), Add()])
    assert await tree_of(pipeline) == [
        "  ✗ sequential",
        "    ✓ pauses.Add",
        "    ✗ inner",
        "      = tree.Needed",
        "      ✗ Fail",
        "      - pauses.Square",
        "    - pauses.Add",
    ]


async def test_cancelled_pass_has_not_failed() -> None:
    @apass.module_pass(opt_level=0)
    async def Wait(mod: Module, ctx: PassContext) -> Module:
        await anyio.sleep_forever()
        return mod

    assert await tree_of(apass.Race([Wait, Add()])) == ["  ✓ Race", "    - Wait", "    ✓ pauses.Add"]


async def test_required_pass_is_before_its_owner() -> None:
    assert await tree_of(Sequential([Add(), Needs])) == [
        "  ✓ sequential",
        "    ✓ pauses.Add",
        "    = tree.Needed",
        "    = Needs",
    ]


async def test_passes_in_bodies_name_their_function() -> None:
    assert await tree_of(Nest) == ["  ✓ Nest", "    ✓ pauses.Add @f"]


async def test_disabled_pass_is_left_out() -> None:
    assert await tree_of(Sequential([Add(), Needed]), disabled_pass=["tree.Needed"]) == [
        "  ✓ sequential",
        "    ✓ pauses.Add",
    ]


async def test_passes_to_come_are_shown_at_once() -> None:
    shown: list[list[str]] = []

    def note(_node: PassNode) -> None:
        shown.append(list(lines(tree.roots["m"])))

    tree = PassTree(["m"], note)
    async with PassContext(instruments=[tree]):
        await Sequential([Add(), Square()]).run({"f": 2}, name="m")
    tree.end("m", failed=False)
    assert ["> m", "  > sequential", "    > pauses.Add", "    · pauses.Square"] in shown
    assert shown[-1] == ["✓ m", "  ✓ sequential", "    ✓ pauses.Add", "    ✓ pauses.Square"]


async def test_module_without_name_has_a_node() -> None:
    tree = PassTree()
    async with PassContext(instruments=[tree]):
        await Add()({"f": 1})
    assert list(lines(tree.roots["module"])) == ["> module", "  ✓ pauses.Add"]
