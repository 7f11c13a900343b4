"""The rewrite that combines parallel calls; TVM's `combine_parallel_op.cc`.

Each CombineParallel pass gives a `Combination`: which calls can be combined, and how.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.registry import OpPattern
from apass.relay.transform.combine_parallel.independence import IndependenceChecker
from apass.relay.transform.combine_parallel.join import Joining
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["Branch", "Combination", "combine_parallel"]

Branch: TypeAlias = list[Call]
"""A call, followed by elementwise and broadcasting calls, each the only user of the previous one."""


class Combination(Protocol):
    """Which calls can be combined, and how.

    This is a Protocol because its implementations share no code.
    """

    @property
    def op(self) -> str:
        """The operator of the calls that are combined."""
        ...

    def fits(self, call: Call) -> bool:
        """Return whether a call can be combined at all."""
        ...

    def alike(self, first: Call, second: Call) -> bool:
        """Return whether two calls on the same tensor can be combined."""
        ...

    def combine(self, calls: Sequence[Call]) -> Call:
        """Return one call that computes the results of all the calls."""
        ...

    def joining(self, call: Call) -> Joining:
        """Return how the results of the calls are joined in the combined call."""
        ...


def combine_parallel(func: Function, combination: Combination, min_num_branches: int) -> Function:
    """Return the function with each group of parallel calls combined into one call.

    The function must be typed. A group has at least `min_num_branches` calls.
    """
    order = list(post_order(func))
    if sum(op_name(node) == combination.op for node in order) < min_num_branches:
        return func
    users: dict[Expr, list[Expr]] = defaultdict(list)
    for node in order:
        for child in node.children:
            users[child].append(node)
    checker = IndependenceChecker(func, order)
    replacements: dict[Expr, Expr] = {}
    for data in order:
        for group in _groups(data, users, combination, checker):
            if len(group) >= min_num_branches:
                replacements |= _combine_group([_branch(call, users) for call in group], combination, checker)
    return rewrite_function(_Substitution(replacements), func) if replacements else func


def _groups(
    data: Expr, users: Mapping[Expr, Sequence[Expr]], combination: Combination, checker: IndependenceChecker
) -> list[list[Call]]:
    """Return the calls whose first operand is `data`, in groups that can be combined."""
    groups: list[list[Call]] = []
    for call in dict.fromkeys(users.get(data, ())):
        if not isinstance(call, Call) or op_name(call) != combination.op:
            continue
        if call.args[0] is not data or not combination.fits(call):
            continue
        matches = (group for group in groups if combination.alike(group[0], call) and checker.may_join(group, call))
        group = next(matches, None)
        if group is None:
            groups.append([call])
        else:
            group.append(call)
    return groups


def _branch(call: Call, users: Mapping[Expr, Sequence[Expr]]) -> Branch:
    branch = [call]
    while len(users[branch[-1]]) == 1:
        (user,) = users[branch[-1]]
        if not isinstance(user, Call) or not isinstance(user.op, Op):
            break
        pattern = user.op.get_attr("TOpPattern")
        if not isinstance(pattern, OpPattern) or pattern > OpPattern.BROADCAST:
            break
        branch.append(user)
    return branch


def _combine_group(
    branches: Sequence[Branch], combination: Combination, checker: IndependenceChecker
) -> dict[Expr, Expr]:
    """Combine the first calls of the branches, and equal calls that follow them.

    Return the replacement of the last combined call of each branch.
    """
    combined: Expr = combination.combine([branch[0] for branch in branches])
    joining = combination.joining(branches[0][0])
    last = 0
    for depth in range(1, min(map(len, branches))):
        level = [branch[depth] for branch in branches]
        index = _common_index(branches, depth)
        if index is None or not _level_fits(level, index, joining):
            break
        if not all(checker.may_join([other for other in level if other is not call], call, index) for call in level):
            break
        args = [combined if i == index else joining.join_operands(level, i) for i in range(len(level[0].args))]
        combined = Call(level[0].op, args, level[0].attrs)
        last = depth
    ends = [branch[last] for branch in branches]
    return dict(zip(ends, joining.parts(combined, ends), strict=True))


def _common_index(branches: Sequence[Branch], depth: int) -> int | None:
    """Return the operand that continues the branch; None if branches differ."""
    indices = {branch[depth].args.index(branch[depth - 1]) for branch in branches}
    return indices.pop() if len(indices) == 1 else None


def _level_fits(level: Sequence[Call], index: int, joining: Joining) -> bool:
    first = level[0]
    for call in level:
        if call.op is not first.op or call.attrs != first.attrs or len(call.args) != len(first.args):
            return False
        # A call that broadcasts its operand to a larger shape may have the joined axis elsewhere.
        if not isinstance(call.checked_type, TensorType) or not joining.result_fits(call, index):
            return False
        if not all(joining.operand_fits(first, call, i) for i in range(len(call.args)) if i != index):
            return False
    return True


class _Substitution(ExprMutator):
    def __init__(self, replacements: Mapping[Expr, Expr]) -> None:
        super().__init__()
        self.replacements = replacements

    def visit_call(self, call: Call) -> Expr:
        replacement = self.replacements.get(call)
        return super().visit_call(call) if replacement is None else self.visit(replacement)
