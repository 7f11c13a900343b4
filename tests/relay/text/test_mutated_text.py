"""Mutated texts: the result is a module or an `ApassError`, in every step."""

import warnings
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings

import apass
from apass import relay
from apass.errors import ApassError
from apass.relay.integration.adapter import ADAPTER
from apass.relay.ir.module import IRModule
from apass.relay.text.parsing.reader import read_module
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount
from tests.relay.text.mutations import mutated

R = TypeVar("R")

PROGRAMS = [
    """def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, strides=[1, 1], padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %1 = nn.max_pool2d(nn.relu(%0), pool_size=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0]);
  nn.softmax(reshape(%1, newshape=[1, -1]), axis=1)
}""",
    """type List[A] { Cons(A, List[A]), Nil, }
def @length[A](%l: List[A]) -> int32 {
  match (%l) { Cons(_, %rest) => { 1 + @length(%rest) }, Nil => { 0 }, }
}
def @main(%c: bool, %t: (int32, (float32, bool))) -> int32 {
  let %f = fn (%a: int32, %b: int32) -> int32 { if (%a < %b) { %a } else { %b * 2 } };
  let %r = ref(%t.0);
  ref_write(%r, %f(@length(Cons(1, Nil)), 3));
  ref_read(%r)
}""",
    """def @main(%x: Tensor[(4, 5), float32], Primitive=1, Compiler="x\\n", s=[[1, 2], "a"], d=None) {
  %0 = split(%x, indices_or_sections=[2], axis=1);
  %1 = (%0.0, strided_slice(%x, begin=[0, 2], end=[4, 5], strides=[1, 1]));
  %2 = concatenate(%1, axis=1);
  let %y: Tensor[(5, ?), float32] = transpose(%2, axes=[1, 0]);
  add(sum(%y, axis=[0], keepdims=True), cast(2i64, dtype="float32"))
}""",
]


def with_metadata() -> str:
    """Return the text of a module that has metadata."""
    x = relay.var("x", shape=(2, 2))
    constant = relay.const([[1.0, 2.0], [3.0, 4.0]])
    body = relay.add(relay.nn.dense(x, constant), relay.const([1.0, 2.0]))
    return IRModule.from_expr(relay.Function([x], body).with_attr("map", {"a": (1, 2.5), "b": "text"})).astext()


TEXTS = [*PROGRAMS, with_metadata()]
DEFAULT = apass.parse_pipeline("relay.Default")


def attempt(step: Callable[..., R], *args: object) -> R | None:
    """Return the result, or None for an `ApassError` of bounded length."""
    try:
        return step(*args)
    except ApassError as error:
        message = str(error)
    assert len(message) < 50_000
    return None


def optimize(mod: IRModule) -> IRModule:
    """Return the module after the default passes."""
    result: IRModule = apass.run(DEFAULT, mod, context=apass.PassContext(opt_level=4))
    return result


def check_all_steps(text: str) -> None:
    """Check that each step gives a result or an `ApassError`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns of overflows in kernels
        mod = attempt(read_module, text)
        if mod is None:
            return
        # A graph variable may be printed outside of the scope of a variable that it contains; the parser rejects that.
        again = attempt(ADAPTER.loads, ADAPTER.dumps(mod))
        assert again is None or ADAPTER.equal(again, mod)
        ADAPTER.to_text(mod)
        attempt(ADAPTER.verify, mod)
        typed = attempt(infer_module, mod)
        if typed is not None:
            attempt(ADAPTER.loads, ADAPTER.dumps(typed))
            attempt(optimize, typed)


@pytest.mark.parametrize("text", TEXTS)
def test_text_before_mutation_is_valid(text: str) -> None:
    typed = infer_module(read_module(text))
    assert optimize(typed) is not None


@given(mutated(TEXTS))
@settings(max_examples=amount(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_text_is_a_module_or_an_error(text: str) -> None:
    check_all_steps(text)


@pytest.mark.slow
@given(mutated(TEXTS))
@settings(max_examples=amount(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_many_mutated_texts_are_modules_or_errors(text: str) -> None:
    check_all_steps(text)
