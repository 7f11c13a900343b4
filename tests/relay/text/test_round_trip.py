"""The parser accepts the printer's output and returns an equal program."""

import pytest
from hypothesis import given

from apass.relay.expr import Constant
from apass.relay.ir.module import IRModule
from apass.relay.structural.equality import assert_structural_equal, structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.text.parsing.reader import read_expr, read_module
from apass.relay.type_inference.infer import infer_module
from tests.relay.text.syntax import constants, modules


@pytest.mark.slow
@given(modules())
def test_printed_module_round_trips(mod: IRModule) -> None:
    text = mod.astext()
    again = read_module(text)
    assert again.astext() == text
    assert_structural_equal(again, mod, map_free_vars=True)


@pytest.mark.slow
@given(programs())
def test_printed_typed_program_round_trips(program: Program) -> None:
    mod = infer_module(program[0])
    again = infer_module(read_module(mod.astext()))
    assert again.astext() == mod.astext()
    assert structural_equal(again, mod)


@given(constants())
def test_printed_constant_keeps_its_bits(constant: Constant) -> None:
    again = read_expr(constant.astext())
    assert isinstance(again, Constant)
    assert (again.data.dtype, again.data.shape) == (constant.data.dtype, constant.data.shape)
    assert again.data.tobytes() == constant.data.tobytes()
