"""What an operator with several results returns."""

import pytest

from apass.relay.expr import Tuple, TupleGetItem, Var
from apass.relay.tuple_wrapper import TupleWrapper

_PAIR = Var("pair")


def test_it_is_unpacked_and_indexed() -> None:
    wrapper = TupleWrapper(_PAIR, 2)
    first, second = wrapper
    assert [(one.tuple_value, one.index) for one in (first, second, wrapper[1])] == [(_PAIR, 0), (_PAIR, 1), (_PAIR, 1)]
    assert isinstance(first, TupleGetItem)
    assert len(wrapper) == wrapper.size == 2


def test_there_is_no_field_beyond_its_size() -> None:
    with pytest.raises(IndexError, match="there is no field 2 in a tuple of 2; give one from 0 to 1"):
        TupleWrapper(_PAIR, 2)[2]


def test_it_gives_the_expression_and_its_text() -> None:
    wrapper = TupleWrapper(Tuple([Var("a")]), 1)
    assert wrapper.astuple() is wrapper.tuple_value
    assert wrapper.astext() == str(wrapper.astuple())
    assert repr(TupleWrapper(_PAIR, 2)) == "TupleWrapper(<relay.Var %pair>, 2)"
