"""Consecutive passes of xDSL, which run on one private copy."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

import apass
from apass.adapters.xdsl import ADAPTER, XdslAdapter
from apass.adapters.xdsl.contents import same_contents
from apass.adapters.xdsl.passes import XdslFunctionPass, XdslPass, wrappers
from apass.adapters.xdsl.symbols import copy_of
from apass.runner.changes import CHANGES, ChangeLog
from apass.testing import RecordingInstrument
from tests.helpers.xdsl_modules import CALLS, SUMS, module, rename_values, sums


class Copies:
    """Counts the copies of modules that passes make."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        isolate = XdslAdapter.isolate

        def counted(adapter: XdslAdapter, mod: ModuleOp, names: Iterable[str]) -> ModuleOp:
            self.count += 1
            return isolate(adapter, mod, names)

        def forbidden(mod: ModuleOp, names: Iterable[str]) -> ModuleOp:
            pytest.fail("a function was copied")

        monkeypatch.setattr(XdslAdapter, "isolate", counted)
        monkeypatch.setattr(wrappers, "module_of", forbidden)


class Spoil(ModulePass):
    """Fail, or remove the terminator, in functions with the attribute `spoil`."""

    name = "spoil"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Change the module."""
        for func in op.body.ops:
            mark = func.attributes.get("spoil")
            if mark == StringAttr("fail"):
                raise ValueError("cannot spoil")
            block = func.regions[0].blocks[0]
            if mark is not None and block.last_op is not None:
                block.erase_op(block.last_op)


class Repair(ModulePass):
    """Add the terminator that functions lack."""

    name = "repair"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Change the module."""
        for func in op.body.ops:
            block = func.regions[0].blocks[0]
            if not isinstance(block.last_op, ReturnOp):
                block.add_op(ReturnOp(block.args[0]))


def marked(value: str) -> ModuleOp:
    """Return three functions, of which the second has the attribute `spoil`."""
    mod = sums(3)
    ADAPTER.get(mod, "sums1").attributes["spoil"] = StringAttr(value)
    return mod


@pytest.mark.anyio
@pytest.mark.parametrize("middle", ["licm", "lower-affine"])
async def test_consecutive_passes_share_one_copy(middle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mod = sums(3)
    before = ADAPTER.exact_fingerprint(mod)
    copies = Copies(monkeypatch)
    result = await apass.parse_pipeline(f"xdsl.canonicalize,xdsl.{middle},xdsl.cse")(mod)
    assert copies.count == 1
    assert ADAPTER.to_text(result).count("arith.addi") == 6
    assert ADAPTER.exact_fingerprint(mod) == before
    assert await apass.parse_pipeline(f"xdsl.canonicalize,xdsl.{middle},xdsl.cse")(result) is result


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [XdslFunctionPass, XdslPass])
async def test_result_that_a_later_pass_repairs_is_invalid(kind: Any) -> None:
    pipeline = apass.Sequential([kind(Spoil()), kind(Repair())])
    with pytest.raises(apass.errors.VerifyError, match="the result of pass spoil of xDSL is invalid:"):
        await pipeline(marked("break"))


@pytest.mark.anyio
async def test_merged_passes_skip_marked_functions() -> None:
    for text in (SUMS, f"{SUMS}\nbuiltin.module @inner {{}}"):
        mod = module(text)
        ADAPTER.get(mod, "sums").attributes["SkipOptimization"] = UnitAttr()
        assert await apass.parse_pipeline("xdsl.canonicalize,xdsl.cse")(mod) is mod


@pytest.mark.anyio
async def test_change_log_has_each_pass() -> None:
    token = CHANGES.set(ChangeLog())
    try:
        await apass.parse_pipeline("xdsl.canonicalize,xdsl.licm,xdsl.cse")(sums(2))
        log = CHANGES.get()
    finally:
        CHANGES.reset(token)
    assert log is not None
    assert log.changed == {"xdsl.canonicalize": 1, "xdsl.cse": 1}


@pytest.mark.anyio
async def test_observed_passes_give_the_same_result() -> None:
    mod = module(CALLS.partition("builtin.module")[0])
    pipeline = apass.parse_pipeline("xdsl.canonicalize,xdsl.convert-scf-to-cf,xdsl.cse")
    recorder = RecordingInstrument()
    async with apass.PassContext(instruments=[recorder]):
        observed = await pipeline(mod)
    assert ADAPTER.to_text(observed) == ADAPTER.to_text(await pipeline(mod))


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["xdsl.canonicalize", "xdsl.convert-scf-to-cf", None])
async def test_failure_names_pass_and_function(first: str | None) -> None:
    passes = [apass.get_pass(first)] if first else []
    pipeline = apass.Sequential([*passes, XdslFunctionPass(Spoil())])
    with pytest.raises(
        apass.errors.AdapterError, match="pass spoil of xDSL failed with ValueError:\ncannot spoil"
    ) as caught:
        await pipeline(marked("fail"))
    assert caught.value.__notes__ == ["in pass 'sequential > xdsl.spoil', function 'sums1'"]
    with pytest.raises(apass.errors.VerifyError, match="the result of pass spoil of xDSL is invalid:"):
        await pipeline(marked("break"))


@pytest.mark.anyio
async def test_failed_module_pass_leaves_its_input() -> None:
    mod = marked("break")
    before = ADAPTER.exact_fingerprint(mod)
    pipeline = apass.Sequential([apass.get_pass("xdsl.canonicalize"), XdslPass(Spoil())])
    with pytest.raises(apass.errors.VerifyError, match="the result of pass spoil of xDSL is invalid:"):
        await pipeline(mod)
    assert ADAPTER.exact_fingerprint(mod) == before


@pytest.mark.parametrize("text", [SUMS, CALLS])
def test_copy_has_the_same_contents(text: str) -> None:
    mod = module(text)
    assert same_contents(mod, copy_of(mod))
    assert not same_contents(mod, ADAPTER.isolate(mod, []))


def _swap(op: Operation) -> None:
    op.operands = tuple(reversed(op.operands))


def _erase(op: Operation) -> None:
    block = op.parent
    assert block is not None
    last = block.last_op
    assert last is not None
    block.erase_op(last)


def _set_name(op: Operation) -> None:
    op.results[0].name_hint = "other"


def _set_location(op: Operation) -> None:
    op.location = FileLineColLoc(StringAttr("kernel.c"), IntAttr(3), IntAttr(4))


def _set_attribute(op: Operation) -> None:
    op.attributes["mark"] = UnitAttr()


def _rename_block(op: Operation) -> None:
    assert op.parent is not None
    op.parent.name_hint = "start"


@pytest.mark.parametrize("change", [_swap, _erase, _set_name, _set_location, _set_attribute, _rename_block])
def test_each_change_is_a_difference(change: Callable[[Operation], None]) -> None:
    mod = module(SUMS)
    copy = copy_of(mod)
    (sum_,) = (op for op in copy.walk() if op.results and op.results[0].name_hint == "y")
    change(sum_)
    assert not same_contents(mod, copy)
    assert not same_contents(copy, mod)


def test_renamed_values_are_a_difference() -> None:
    mod = module(SUMS)
    copy = copy_of(mod)
    rename_values(copy)
    assert ADAPTER.equal(mod, copy)
    assert not same_contents(mod, copy)
