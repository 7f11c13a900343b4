"""`HARD_PROGRAMS`: programs that careless passes break, with arguments for `main`."""

from collections.abc import Mapping
from typing import Final

import numpy as np

__all__ = ["HARD_PROGRAMS"]

HARD_PROGRAMS: Final[Mapping[str, tuple[str, tuple[object, ...]]]] = {
    "a cell is read between two writes": (
        """
        def @main(%x: float32) {
          let %r = ref(%x);
          let %a = ref_read(%r);
          let %u = ref_write(%r, add(%a, 1f));
          let %b = ref_read(%r);
          let %v = ref_write(%r, multiply(%b, 2f));
          (%a, %b, ref_read(%r))
        }
        """,
        (3.0,),
    ),
    "a closure counts its calls": (
        """
        def @counter() {
          let %r = ref(0);
          fn () {
            let %u = ref_write(%r, add(ref_read(%r), 1));
            ref_read(%r)
          }
        }
        def @main() {
          let %f = @counter();
          let %g = @counter();
          let %a = %f();
          let %dead = %f();
          let %b = %f();
          (%a, %b, %g())
        }
        """,
        (),
    ),
    "a branch and a clause write": (
        """
        type Choice { This, That, }
        def @main(%x: float32) {
          let %r = ref(%x);
          let %u = match (This) { This => ref_write(%r, 2f), That => () };
          let %v = if (less(%x, 5f)) { ref_write(%r, add(ref_read(%r), 1f)) } else { () };
          ref_read(%r)
        }
        """,
        (1.0,),
    ),
    "arguments are evaluated from left to right": (
        """
        def @main(%x: float32) {
          let %r = ref(%x);
          let %twice = fn () { let %u = ref_write(%r, multiply(ref_read(%r), 2f)); ref_read(%r) };
          let %f = fn (%a: float32, %b: float32) { subtract(%a, %b) };
          (%f(%twice(), %twice()), subtract(%twice(), ref_read(%r)), (%twice(), %twice()).0)
        }
        """,
        (1.0,),
    ),
    "an inlined function has effects and shadows names": (
        """
        def @h(%a: float32, %b: float32, Inline=1) -> float32 {
          let %x = add(%a, %a);
          let %y = fn (%a: float32) { multiply(%a, %x) };
          %y(%b)
        }
        def @main(%x: float32) {
          let %y = ref(%x);
          let %z = @h(ref_read(%y), { let %u = ref_write(%y, 4f); ref_read(%y) });
          (%z, @h(%x, @h(%z, %x)), ref_read(%y))
        }
        """,
        (3.0,),
    ),
    "functions and constructors are values": (
        """
        type Box[A] { Box(A), }
        def @apply[A, B](%f: fn(A) -> B, %x: A) -> B { %f(%x) }
        def @g(%x: float32, Inline=1) -> float32 { exp(%x) }
        def @main(%c: bool, %x: float32) {
          let %t = (@g, %x, fn (%y: float32) -> float32 { negative(%y) });
          let %f = if (%c) { @g } else { %t.2 };
          match (@apply(Box, %x)) { Box(%k) => (%k, %t.0(%t.1), %f(%x), @apply(@g, %x)) }
        }
        """,
        (True, 1.0),
    ),
    "a recursion goes through a cell": (
        """
        def @main(%x: float32) {
          let %r = ref(fn (%y: float32) -> float32 { %y });
          let %u = ref_write(%r, fn (%y: float32) -> float32 {
            if (less(%y, 1f)) { %x } else { ref_read(%r)(subtract(%y, 1f)) }
          });
          ref_read(%r)(5f)
        }
        """,
        (2.0,),
    ),
    "two functions are mutually recursive, and one calls itself": (
        """
        def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
        def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
        def @main(%n: int32) {
          let %f = fn (%k: int32) -> int32 { if (less_equal(%k, 0)) { %n } else { add(%k, %f(subtract(%k, 1))) } };
          (@even(%n), @odd(%n), %f(3), %f(%n))
        }
        """,
        (7,),
    ),
    "lists are mapped and matched": (
        """
        type List[A] { Nil, Cons(A, List[A]), }
        def @map[A, B](%f: fn(A) -> B, %l: List[A]) -> List[B] {
          match (%l) { Nil => Nil, Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)) }
        }
        def @sum(%l: List[int32]) -> int32 { match (%l) { Nil => 0, Cons(%h, %t) => add(%h, @sum(%t)) } }
        def @main(%x: int32) {
          let %l = Cons(%x, Cons(2, Cons(3, Nil)));
          @sum(@map(fn (%y: int32) -> int32 { multiply(%y, %x) }, %l))
        }
        """,
        (5,),
    ),
    "patterns are nested": (
        """
        type Option[A] { None, Some(A), }
        def @f(%o: Option[(int32, Option[int32])]) -> int32 {
          match (%o) { Some((%a, Some(%b))) => add(%a, %b), Some((%a, None)) => %a, None => 0 }
        }
        def @main(%x: int32) { (@f(Some((%x, Some(3)))), @f(Some((%x, None))), @f(None)) }
        """,
        (5,),
    ),
    "shared nodes are used in branches and in a function": (
        """
        def @main(%c: bool, %x: float32) {
          %0 = exp(%x);
          %1 = add(%0, 1f);
          %2 = fn (%y: float32) { add(%y, %0) };
          let %e = exp(%x);
          if (%c) { multiply(%1, %2(%0)) } else { let %k = add(%1, %e); multiply(%k, %2(%k)) }
        }
        """,
        (False, 1.0),
    ),
    "tuples are nested": (
        """
        def @main(%x: Tensor[(2, 3), float32]) {
          let %t = ((%x, (negative(%x), ())), %x);
          let %u = %t.0;
          let %v = %u.1;
          (%v.0, (%t.1, %u), %v)
        }
        """,
        (np.arange(6, dtype="float32").reshape(2, 3),),
    ),
    "NaN and infinity are computed": (
        """
        def @main() {
          (divide(0f, 0f), divide(1f, 0f), sqrt(-1f), log(0f), maximum(divide(0f, 0f), 1f), add(-0f, 0f))
        }
        """,
        (),
    ),
    "integers are divided by zero, or overflow": (
        """
        def @main(%x: int32) {
          let %guarded = if (equal(%x, 0)) { 7 } else { divide(10, %x) };
          (%guarded, divide(1, 0), mod(5, 0), floor_divide(-7, 2), floor_mod(-7, 2), divide(-7, 2),
           add(2147483647, 1), abs(-2147483648), cast(300, dtype="int8"), cast(-1, dtype="uint8"))
        }
        """,
        (0,),
    ),
    "casts lose digits": (
        """
        def @main(%x: Tensor[(2), int64]) {
          (cast(cast(%x, dtype="float64"), dtype="int64"), cast(cast(%x, dtype="int8"), dtype="int64"),
           cast(cast(cast(%x, dtype="bool"), dtype="int32"), dtype="float32"))
        }
        """,
        (np.array([2**53 + 1, 300], "int64"),),
    ),
    "tensors are filled, or empty": (
        """
        def @main(%x: Tensor[(3), float32], %y: Tensor[(2, 0), float32], %z: Tensor[(0, 5), float32]) {
          (add(%x, full(1, shape=[3], dtype="float32")), add(%x, zeros(shape=[2, 3], dtype="float32")),
           subtract(zeros_like(%x), %x), reshape_like(%y, %z), reshape(reshape_like(%y, %z), newshape=[-1]))
        }
        """,
        (np.array([1, 2, 3], "float32"), np.zeros((2, 0), "float32"), np.zeros((0, 5), "float32")),
    ),
    "a dimension is unknown": (
        """
        def @main(%x: Tensor[(?, 3), float32]) {
          let %z = add(%x, %x);
          (shape_of(%x, dtype="int32"), reshape(%x, newshape=[-1]), concatenate((%z, %x)), zeros_like(%x),
           squeeze(expand_dims(%x, axis=0), axis=[0]), transpose(transpose(%x)), add(%x, zeros_like(%x)),
           reshape_like(%x, %z), nn.bias_add(%x, ones(shape=[3], dtype="float32")))
        }
        """,
        (np.arange(6, dtype="float32").reshape(2, 3),),
    ),
    "scales are negative, or zero": (
        """
        def @main(%x: Tensor[(1, 2, 5, 5), float32], %w: Tensor[(2, 2, 3, 3), float32],
                  %s: Tensor[(2, 1, 1), float32]) {
          %0 = nn.conv2d(nn.relu(multiply(%x, -2f)), %w);
          %1 = multiply(add(%0, 1f), 3f);
          %2 = nn.conv2d(subtract(%1, 1f), %w);
          (multiply(nn.relu(%0), %s), nn.relu(multiply(%2, 0f)), multiply(2f, subtract(1f, %2)))
        }
        """,
        (
            np.linspace(-1, 1, 50, dtype="float32").reshape(1, 2, 5, 5),
            np.linspace(-2, 1, 36, dtype="float32").reshape(2, 2, 3, 3),
            np.array([-1, 0], "float32").reshape(2, 1, 1),
        ),
    ),
    "a dropout follows a dropout": (
        """
        def @main(%x: Tensor[(2, 3), float32]) {
          let %d = nn.dropout(%x, rate=0.9f);
          add(%d.0, nn.dropout(%d.0).0)
        }
        """,
        (np.arange(6, dtype="float32").reshape(2, 3),),
    ),
}
"""The programs, by the reason why they are hard."""
