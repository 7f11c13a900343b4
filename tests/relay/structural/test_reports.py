"""What tells of structural equality: the assertion's message, the fingerprint, and both on random and deep programs."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from apass.relay.expr import Call, Constant, Expr, Let, Tuple, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.make import const
from apass.relay.structural.equality import assert_structural_equal, fingerprint, structural_equal
from tests.relay.comparing import FLOAT, OP, Copier, F, chain, equal, lets
from tests.relay.programs import Program, programs


def test_the_assertion_shows_both_sides_of_the_first_difference() -> None:
    x = Var("x", FLOAT)
    lhs, rhs = (Function([x], Let(Var("v"), Call(F, [x, one]), const(3))) for one in (const(1), const(2.0)))
    with pytest.raises(ValueError, match="not structurally equal") as caught:
        assert_structural_equal(lhs, rhs)
    assert str(caught.value).splitlines() == [
        "not structurally equal; the first difference (within Function > Let > Call):",
        "lhs: <relay.Constant int32>",
        "    1",
        "rhs: <relay.Constant float32>",
        "    2f",
    ]


def test_a_difference_in_sharing_is_shown_where_it_is_found() -> None:
    x = Var("x")
    shared = Call(F, [x])
    with pytest.raises(ValueError, match=r"within Tuple\):\nlhs: .*Call(?s:.*)rhs: .*Call(?s:.*)they are alike, but"):
        assert_structural_equal(Tuple([shared, shared]), Tuple([shared, Call(F, [x])]))


def test_a_deep_difference_is_shown_by_its_nearest_surroundings() -> None:
    with pytest.raises(
        ValueError, match=r"\(within Call > Call > Call > Call > Call\):\nlhs: .*int32.*\n.*\nrhs: .*float32"
    ):
        assert_structural_equal(chain(200_000, const(1)), chain(200_000, const(1.0)))


def test_a_fingerprint_goes_by_the_names_of_free_variables() -> None:
    assert fingerprint(Call(OP, [Var("x")])) == fingerprint(Call(OP, [Var("x")]))
    assert fingerprint(Call(OP, [Var("x")])) != fingerprint(Call(OP, [Var("y")]))
    assert fingerprint(Function([x := Var("x")], x)) == fingerprint(Function([y := Var("y")], y))


class Negate(ExprMutator):
    """Changes the first constant that it meets."""

    is_done = False

    def visit_constant(self, const: Constant) -> Expr:
        if self.is_done:
            return const
        self.is_done = True
        return Constant(np.equal(const.data, 0).astype(const.data.dtype))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_a_program_equals_its_copy_and_not_one_with_another_constant(program: Program) -> None:
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
from apass.relay.make import const
from apass.relay.structural.equality import fingerprint
x = Var("x")
print(fingerprint(Function([x], Call(Op(name="test.structural"), [x, Var("y"), const([1.0])])).with_attr("a", 1)))
"""


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    x = Var("x")
    expected = fingerprint(Function([x], Call(OP, [x, Var("y"), const([1.0])])).with_attr("a", 1))
    assert found == {f"{expected}\n"}


@pytest.mark.parametrize("make", [lambda: Function([x := Var("x")], chain(1_000_000, x)), lambda: lets(200_000)])
def test_depth_has_no_limit(make: Callable[[], Expr]) -> None:
    lhs, rhs = make(), make()
    assert structural_equal(lhs, rhs)
    assert fingerprint(lhs) == fingerprint(rhs)
