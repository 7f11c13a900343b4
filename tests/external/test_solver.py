"""Searches for proofs in worker processes."""

import sys
from importlib.machinery import PathFinder

import pytest

import apass
from apass import relay
from apass.core.ir_plugin import plugin_for, prove_equal

pytestmark = pytest.mark.anyio


def shifted(op: relay.Expr) -> relay.IRModule:
    x = relay.var("x", shape=(2,), dtype="int32")
    return relay.IRModule.from_expr(relay.Function([x], relay.Call(op, [x, relay.const(1)])))


@pytest.mark.process
@pytest.mark.slow
async def test_proofs_run_in_workers() -> None:
    before, after = shifted(relay.op.get("trunc_divide")), shifted(relay.op.get("right_shift"))
    plugin = plugin_for(before)
    assert (await prove_equal(plugin, before, before)).equal is True
    assert (await prove_equal(plugin, before, after)).equal is False


@pytest.mark.process
@pytest.mark.slow
async def test_unsupported_operator_is_no_proof() -> None:
    mod = shifted(relay.op.get("take"))
    proof = await prove_equal(plugin_for(mod), mod, mod)
    assert proof == apass.plugins.Proof(None, "not encoded for the solver: operator take")


async def test_missing_solver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str, *_: object) -> None:
        """Find no module."""

    monkeypatch.delitem(sys.modules, "z3", raising=False)
    monkeypatch.setattr(PathFinder, "find_spec", find_spec)
    mod = shifted(relay.op.get("take"))
    with pytest.raises(apass.errors.MissingExtraError, match="proofs need z3-solver: pip install 'apass\\[prove\\]'"):
        await prove_equal(plugin_for(mod), mod, mod)


async def test_ir_without_proofs_is_undecided() -> None:
    assert await prove_equal(plugin_for({"f": 1}), {"f": 1}, {"f": 1}) == apass.plugins.Proof(
        None, "the IR plug-in has no proofs"
    )
