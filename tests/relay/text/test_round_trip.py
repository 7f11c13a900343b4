"""What the printer writes, the parser reads back."""

from hypothesis import given

from apass.relay.expr import Constant
from apass.relay.ir.module import IRModule
from apass.relay.structural.equality import assert_structural_equal, structural_equal
from apass.relay.text.parsing.reader import read_expr, read_module
from apass.relay.type_inference.infer import infer_module
from tests.relay.programs import Program, programs
from tests.relay.text.syntax import constants, modules


@given(modules())
def test_what_is_printed_is_read_back(mod: IRModule) -> None:
    text = mod.astext()
    again = read_module(text)
    assert again.astext() == text
    assert_structural_equal(again, mod, map_free_vars=True)


@given(programs())
def test_a_program_with_types_is_read_back_and_given_them_again(program: Program) -> None:
    mod = infer_module(program[0])
    again = infer_module(read_module(mod.astext()))
    assert again.astext() == mod.astext()
    assert structural_equal(again, mod)


@given(constants())
def test_constants_keep_their_bits(one: Constant) -> None:
    again = read_expr(one.astext())
    assert isinstance(again, Constant)
    assert (again.data.dtype, again.data.shape) == (one.data.dtype, one.data.shape)
    assert again.data.tobytes() == one.data.tobytes()
