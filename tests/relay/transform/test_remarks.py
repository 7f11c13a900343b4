"""The remarks of the Relay passes."""

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
    """Return the kind, name, message, function and line of each remark of a pipeline."""
    remarks = RemarksInstrument()
    context = apass.PassContext(opt_level=3, instruments=[remarks])
    apass.run(apass.parse_pipeline(pipeline), parse(PROGRAM), context=context)
    return [
        (remark.kind.value, remark.name, remark.message, remark.function, remark.span.line if remark.span else None)
        for remark in remarks.remarks
    ]


def test_inline_emits_remarks() -> None:
    reason = "it calls itself, or functions that were not inlined"
    assert set(remarks_of("Inline")) == {
        ("passed", "Inlined", "@square inlined into @main", None, None),
        ("missed", "NotInlined", f"@again not inlined into @main: {reason}", None, None),
        ("missed", "NotInlined", f"@again not inlined into @again: {reason}", None, None),
    }


def test_dead_code_elimination_emits_remarks() -> None:
    assert remarks_of("DeadCodeElimination") == [("passed", "Dropped", "dropped the binding of %dead", "main", 9)]


def test_fold_constant_emits_remarks() -> None:
    assert remarks_of("FoldConstant") == [("passed", "Folded", "add computed: a constant of shape ()", "main", 10)]


def test_eliminate_common_subexpr_emits_remarks() -> None:
    assert remarks_of("EliminateCommonSubexpr") == [
        ("passed", "Merged", "merged 2 calls of multiply on the same arguments", "main", 11)
    ]


def test_fuse_ops_emits_remarks() -> None:
    reason = "no compatible operator is the only user of its result"
    assert remarks_of("DeadCodeElimination,FoldConstant,EliminateCommonSubexpr,FuseOps")[3:] == [
        ("missed", "NotFused", f"multiply not fused: {reason}", "main", 11),
        ("passed", "Fused", "fused 2 operators: add + exp", "main", 16),
        ("missed", "NotFused", f"nn.softmax not fused: {reason}", "main", 17),
        ("missed", "NotFused", f"multiply not fused: {reason}", "square", 3),
    ]
