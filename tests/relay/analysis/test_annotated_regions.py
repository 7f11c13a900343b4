"""AnnotatedRegionSet: regions between marks for compilers."""

import pytest

from apass.relay.analysis import AnnotatedRegionSet
from apass.relay.errors import AnnotationError
from apass.relay.expr import Call, Expr, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.expr import var
from apass.relay.op.annotation import compiler_begin, compiler_end
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.math import exp

X = var("x", shape=(4,))
BEGIN, END = Op.get("annotation.compiler_begin"), Op.get("annotation.compiler_end")


def regions_of(expr: Expr) -> AnnotatedRegionSet:
    return AnnotatedRegionSet(expr, BEGIN, END)


def test_region_has_nodes_between_its_marks() -> None:
    first, second = compiler_begin(X, "a"), compiler_begin(X, "a")
    total = add(first, second)
    end = compiler_end(total, "a")
    (region,) = regions_of(Function([X], end))
    assert (region.id, region.target, region.name) == (0, "a", "default")
    assert set(region.nodes) == {first, second, total, end}
    assert (region.args, region.rets) == ((first, second), (end,))
    assert repr(region) == "<relay.AnnotatedRegion 0 for a>"


def test_number_is_that_of_first_open_operand() -> None:
    # As in TVM: each begin gets a number, and joined regions keep the number of the first operand.
    inner = exp(compiler_begin(X, "a"))
    regions = regions_of(compiler_end(add(compiler_begin(X, "a"), inner), "a"))
    (region,) = regions
    assert region.id == 0
    assert [arg is not inner for arg in region.args] == [True, True]
    outer = compiler_begin(compiler_end(exp(compiler_begin(X, "a")), "a"), "b")
    numbers = [one.id for one in regions_of(compiler_end(Tuple([outer, compiler_begin(X, "b")]), "b"))]
    assert numbers == [0, 1]


def test_nodes_outside_of_regions_have_none() -> None:
    end = compiler_end(TupleGetItem(Tuple([compiler_begin(X, "a")]), 0), "a")
    outside = exp(end)
    regions = regions_of(outside)
    assert len(regions) == 1
    assert regions.get_region(outside) is None
    assert regions.get_region(X) is None
    assert regions.get_region(end) is regions.get_region(end.args[0])


def test_marks_between_merged_regions_are_inner() -> None:
    first = compiler_end(exp(begin := compiler_begin(X, "a")), "a")
    second = compiler_end(exp(compiler_begin(first, "a")), "a")
    regions = regions_of(second)
    parent, child = regions
    regions.merge_regions(parent, child)
    assert list(regions) == [child]
    assert regions.get_region(first) is child
    assert (child.args, child.rets) == ((begin,), (second,))
    regions.merge_regions(parent, child)
    assert len(regions) == 1


def test_call_of_composite_function_is_in_region() -> None:
    func = Function([p := var("p", shape=(4,))], exp(p))
    call = Call(func, [compiler_begin(X, "a")])
    regions = regions_of(compiler_end(call, "a"))
    assert regions.get_region(call) is not None
    assert regions.get_region(func) is None


def test_end_without_begin_is_an_error() -> None:
    with pytest.raises(AnnotationError, match="which is in no region"):
        regions_of(compiler_end(exp(X), "a"))
