"""What passes of Relay say of their work."""

import apass
from apass.instruments import RemarksInstrument
from apass.relay.parser import parse

PROGRAM = """#[version = "0.0.5"]
def @square(%x: Tensor[(2, 3), float32], Inline=1) -> Tensor[(2, 3), float32] {
  multiply(%x, %x)
}
def @again(%x: Tensor[(2, 3), float32], Inline=1) -> Tensor[(2, 3), float32] {
  @again(%x)
}
def @main(%x: Tensor[(2, 3), float32]) {
  let %dead = negative(%x);
  %0 = add(2f, 3f);
  %1 = multiply(%x, %0);
  %2 = multiply(%x, %0);
  %3 = @square(%1);
  %4 = @again(%3);
  %5 = add(%4, %2);
  %6 = exp(%5);
  nn.softmax(%6)
}
"""


def remarks_of(pipeline: str) -> list[tuple[str, str, str, str | None, int | None]]:
    """Return kind, name, message, function and line of each remark that a pipeline makes on the program."""
    remarks = RemarksInstrument()
    context = apass.PassContext(opt_level=3, instruments=[remarks])
    apass.run(apass.parse_pipeline(pipeline), parse(PROGRAM), context=context)
    return [
        (one.kind.value, one.name, one.message, one.function, one.span.line if one.span else None)
        for one in remarks.remarks
    ]


def test_inline_says_what_it_put_where_and_what_it_could_not() -> None:
    reason = "it calls itself, or others that remain"
    assert set(remarks_of("Inline")) == {
        ("passed", "Inlined", "@square inlined into @main", None, None),
        ("missed", "NotInlined", f"@again not inlined into @main: {reason}", None, None),
        ("missed", "NotInlined", f"@again not inlined into @again: {reason}", None, None),
    }


def test_dead_code_elimination_says_what_it_dropped() -> None:
    assert remarks_of("DeadCodeElimination") == [("passed", "Dropped", "the binding of %dead is gone", "main", 9)]


def test_fold_constant_says_what_it_computed() -> None:
    assert remarks_of("FoldConstant") == [("passed", "Folded", "add computed: a constant of shape ()", "main", 10)]


def test_eliminate_common_subexpr_says_what_it_made_one() -> None:
    assert remarks_of("EliminateCommonSubexpr") == [
        ("passed", "Merged", "2 calls of multiply on the same arguments are one", "main", 11)
    ]


def test_fuse_ops_says_what_it_put_together_and_what_stands_alone() -> None:
    alone = "stands alone: nothing that uses its result alone fits to it"
    assert remarks_of("DeadCodeElimination,FoldConstant,EliminateCommonSubexpr,FuseOps")[3:] == [
        ("missed", "NotFused", f"multiply {alone}", "main", 11),
        ("passed", "Fused", "2 in one: add + exp", "main", 16),
        ("missed", "NotFused", f"nn.softmax {alone}", "main", 17),
        ("missed", "NotFused", f"multiply {alone}", "square", 3),
    ]
