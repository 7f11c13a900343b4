"""`TupleWrapper`: the return value of operators with several results."""

import pytest

from apass.relay.expr import Tuple, TupleGetItem, Var
from apass.relay.ir.expr import TupleWrapper

_PAIR = Var("pair")


def test_wrapper_is_unpacked_and_indexed() -> None:
    wrapper = TupleWrapper(_PAIR, 2)
    first, second = wrapper
    items = (first, second, wrapper[1])
    assert [(item.tuple_value, item.index) for item in items] == [(_PAIR, 0), (_PAIR, 1), (_PAIR, 1)]
    assert all(isinstance(item, TupleGetItem) for item in items)


def test_index_out_of_range_raises() -> None:
    with pytest.raises(IndexError, match="tuple of 2 has no field 2; expected 0 to 1"):
        TupleWrapper(_PAIR, 2)[2]


def test_wrapper_returns_expression_and_text() -> None:
    wrapper = TupleWrapper(Tuple([Var("a")]), 1)
    assert wrapper.astuple() is wrapper.tuple_value
    assert wrapper.astext() == str(wrapper.astuple())
    assert repr(TupleWrapper(_PAIR, 2)) == "TupleWrapper(<relay.Var %pair>, 2)"
