"""Messages of `assert_structural_equal`; fingerprints of random and deep programs."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from apass.relay.expr import Call, Constant, Expr, Let, Tuple, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.expr import const
from apass.relay.structural.equality import assert_structural_equal, fingerprint, structural_equal
from apass.relay.testing.programs import Program, programs
from tests.helpers.amounts import amount, levels
from tests.helpers.relay.comparing import FLOAT, OP, Copier, F, chain, equal, lets


def test_assertion_shows_first_difference() -> None:
    x = Var("x", FLOAT)
    lhs, rhs = (Function([x], Let(Var("v"), Call(F, [x, arg]), const(3))) for arg in (const(1), const(2.0)))
    with pytest.raises(ValueError, match="not structurally equal") as caught:
        assert_structural_equal(lhs, rhs)
    assert str(caught.value).splitlines() == [
        "not structurally equal; first difference (within Function > Let > Call):",
        "lhs: <relay.Constant int32>",
        "    1",
        "rhs: <relay.Constant float32>",
        "    2f",
    ]


def test_assertion_shows_difference_in_sharing() -> None:
    x = Var("x")
    shared = Call(F, [x])
    with pytest.raises(
        ValueError, match=r"within Tuple\):\nlhs: .*Call(?s:.*)rhs: .*Call(?s:.*)the nodes are alike, but"
    ):
        assert_structural_equal(Tuple([shared, shared]), Tuple([shared, Call(F, [x])]))


def test_assertion_shows_nearest_ancestors_of_difference() -> None:
    depth = levels(200_000)
    with pytest.raises(
        ValueError, match=r"\(within Call > Call > Call > Call > Call\):\nlhs: .*int32.*\n.*\nrhs: .*float32"
    ):
        assert_structural_equal(chain(depth, const(1)), chain(depth, const(1.0)))


def test_fingerprint_depends_on_free_variable_names() -> None:
    assert fingerprint(Call(OP, [Var("x")])) == fingerprint(Call(OP, [Var("x")]))
    assert fingerprint(Call(OP, [Var("x")])) != fingerprint(Call(OP, [Var("y")]))
    assert fingerprint(Function([x := Var("x")], x)) == fingerprint(Function([y := Var("y")], y))


class Negate(ExprMutator):
    """Changes the first constant."""

    is_done = False

    def visit_constant(self, const: Constant) -> Expr:
        if self.is_done:
            return const
        self.is_done = True
        return Constant(np.equal(const.data, 0).astype(const.data.dtype))


@pytest.mark.slow
@settings(max_examples=amount(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_program_equals_copy_but_not_changed_program(program: Program) -> None:
    mod = program[0]
    copy, other, negate = mod.copy(), mod.copy(), Negate()
    for gvar, func in mod.functions.items():
        copy[gvar] = Copier().visit(func)
        other[gvar] = negate.visit(func)
    assert equal(mod, copy)
    assert fingerprint(mod) == fingerprint(copy)
    assert equal(mod, other) != negate.is_done
    assert (fingerprint(mod) == fingerprint(other)) != negate.is_done


SCRIPT = """
from apass.relay.expr import Call, Op, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const
from apass.relay.structural.equality import fingerprint
x = Var("x")
print(fingerprint(Function([x], Call(Op(name="test.structural"), [x, Var("y"), const([1.0])])).with_attr("a", 1)))
"""


@pytest.mark.process
@pytest.mark.slow
def test_fingerprint_is_same_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    x = Var("x")
    expected = fingerprint(Function([x], Call(OP, [x, Var("y"), const([1.0])])).with_attr("a", 1))
    assert outputs == {f"{expected}\n"}


@pytest.mark.parametrize(
    "make", [lambda: Function([x := Var("x")], chain(levels(200_000), x)), lambda: lets(levels(50_000))]
)
def test_deep_programs_are_compared(make: Callable[[], Expr]) -> None:
    lhs, rhs = make(), make()
    assert structural_equal(lhs, rhs)
    assert fingerprint(lhs) == fingerprint(rhs)
