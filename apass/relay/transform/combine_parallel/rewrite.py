"""How calls of one operator on one tensor become a single call; TVM's `combine_parallel_op.cc`.

`combine_parallel_conv2d` and `combine_parallel_dense` say what can be combined, and how.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from apass.relay.expr import Call, Expr, Op
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.calls import op_name, tensor_type
from apass.relay.ir.post_order import post_order
from apass.relay.op.define.registry import OpPattern
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.combine_parallel.independence import Places
from apass.relay.transform.combine_parallel.join import Joining
from apass.relay.ty import TensorType

__all__ = ["Branch", "Combination", "combine_parallel"]

Branch: TypeAlias = list[Call]
"""A call, followed by elementwise and broadcasting calls, each the only user of the one before."""


class Combination(Protocol):
    """What can be combined, and how. A Protocol: the two that there are share no code."""

    @property
    def op(self) -> str:
        """The operator of the calls that are combined."""
        ...

    def fits(self, call: Call) -> bool:
        """Tell whether a call can be combined at all."""
        ...

    def alike(self, one: Call, other: Call) -> bool:
        """Tell whether two calls on the same tensor can be combined."""
        ...

    def combine(self, calls: Sequence[Call]) -> Call:
        """Return the one call that computes what all of them do."""
        ...

    def joining(self, call: Call) -> Joining:
        """Return how the results of the calls stand in the combined one."""
        ...


def combine_parallel(func: Function, how: Combination, min_num_branches: int) -> Function:
    """Return a typed function in which groups of at least so many parallel calls are one call each."""
    order = list(post_order(func))
    if sum(op_name(node) == how.op for node in order) < min_num_branches:
        return func
    users: dict[Expr, list[Expr]] = defaultdict(list)
    for node in order:
        for child in node.children:
            users[child].append(node)
    places = Places(func, order)
    replaced: dict[Expr, Expr] = {}
    for data in order:
        for group in _groups(data, users, how, places):
            if len(group) >= min_num_branches:
                replaced |= _combine_group([_branch(call, users) for call in group], how, places)
    return rewrite_function(_Substitution(replaced), func) if replaced else func


def _groups(data: Expr, users: Mapping[Expr, Sequence[Expr]], how: Combination, places: Places) -> list[list[Call]]:
    """Return the calls that take `data` as their first operand, by what can be combined."""
    groups: list[list[Call]] = []
    for call in dict.fromkeys(users.get(data, ())):
        if not isinstance(call, Call) or op_name(call) != how.op or call.args[0] is not data or not how.fits(call):
            continue
        group = next((one for one in groups if how.alike(one[0], call) and places.may_join(one, call)), None)
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


def _combine_group(branches: Sequence[Branch], how: Combination, places: Places) -> dict[Expr, Expr]:
    """Combine the first calls of the branches, and those behind them as far as they are alike in all branches."""
    combined: Expr = how.combine([branch[0] for branch in branches])
    joining = how.joining(branches[0][0])
    last = 0
    for depth in range(1, min(map(len, branches))):
        level = [branch[depth] for branch in branches]
        place = _common_place(branches, depth)
        if place is None or not _level_fits(level, place, joining):
            break
        if not all(places.may_join([one for one in level if one is not call], call, place) for call in level):
            break
        args = [combined if at == place else joining.join_operands(level, at) for at in range(len(level[0].args))]
        combined = Call(level[0].op, args, level[0].attrs)
        last = depth
    ends = [branch[last] for branch in branches]
    return dict(zip(ends, joining.parts(combined, ends), strict=True))


def _common_place(branches: Sequence[Branch], depth: int) -> int | None:
    """Return at which place the calls take what comes before them; None if it is not the same for all."""
    places = {branch[depth].args.index(branch[depth - 1]) for branch in branches}
    return places.pop() if len(places) == 1 else None


def _level_fits(level: Sequence[Call], place: int, joining: Joining) -> bool:
    first = level[0]
    for call in level:
        if call.op is not first.op or call.attrs != first.attrs or len(call.args) != len(first.args):
            return False
        # What makes the result larger may have the axis elsewhere.
        if (
            not isinstance(call.checked_type, TensorType)
            or call.checked_type.shape != tensor_type(call.args[place]).shape
        ):
            return False
        if not all(joining.operand_fits(first, call, at) for at in range(len(call.args)) if at != place):
            return False
    return True


class _Substitution(ExprMutator):
    def __init__(self, replaced: Mapping[Expr, Expr]) -> None:
        super().__init__()
        self.replaced = replaced

    def visit_call(self, call: Call) -> Expr:
        found = self.replaced.get(call)
        return super().visit_call(call) if found is None else self.visit(found)
