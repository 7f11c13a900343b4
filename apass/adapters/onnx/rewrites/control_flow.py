"""Replacement of If and Loop nodes whose condition is constant."""

from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.merging import producer

__all__ = ["BRANCHES", "CONDITIONS", "inline_branch"]


def _choose_branch(node: ir.Node, context: Context) -> bool:
    """Replace an If with a constant condition by the nodes of the branch."""
    condition = context.facts.constant(node.inputs[0])
    if condition is None or condition.size != 1:
        return False
    return inline_branch(node, "then_branch" if condition.reshape(-1)[0] else "else_branch", context)


def _exchange_branches(node: ir.Node, context: Context) -> bool:
    """Exchange the branches instead of negating the condition."""
    before = producer(node.inputs[0], "Not")
    if before is None or before.inputs[0] is None:
        return False
    then_branch, else_branch = (node.attributes[name].as_graph() for name in ("then_branch", "else_branch"))
    context.editor.start_change()
    node.attributes["then_branch"] = ir.AttrGraph("then_branch", else_branch)
    node.attributes["else_branch"] = ir.AttrGraph("else_branch", then_branch)
    context.editor.set_input(node, 0, before.inputs[0])
    return True


def inline_branch(node: ir.Node, name: str, context: Context) -> bool:
    """Replace an If by the nodes of one of its branches, and return True.

    Return False if the branch has inputs, which is not valid.
    """
    branch, editor, graph = node.attributes[name].as_graph(), context.editor, node.graph
    if branch.inputs:  # a branch of a valid model has none
        return False
    editor.start_change()
    assert isinstance(graph, ir.Graph)
    # Before the nodes are moved: names are counted in the model as it is.
    for inner in branch:
        for value in inner.outputs:
            if value.name:
                value.name = editor.inlined_name(value.name)
    outputs = list(branch.outputs)
    branch.outputs.clear()
    for name, value in list(branch.initializers.items()):
        tensor = value.const_value
        assert tensor is not None
        new_name = editor.inlined_name(name)
        branch.initializers.pop(name)
        new = editor.hold(node, tensor, new_name)
        value.replace_all_uses_with(new)
        outputs = [new if output is value else output for output in outputs]
    nodes = list(branch)
    branch.remove(nodes)
    graph.insert_before(node, nodes)
    editor.added += nodes
    editor.replace_outputs(node, outputs)
    return True


def _skip_loop(node: ir.Node, context: Context) -> bool:
    """Replace a Loop without iterations by the initial values."""
    count, condition = (context.facts.constant(node.inputs[index]) for index in (0, 1))
    is_empty = count is not None and count.size == 1 and int(count.reshape(-1)[0]) <= 0
    is_empty = is_empty or (condition is not None and condition.size == 1 and not condition.any())
    carried = node.inputs[2:]
    scanned = node.outputs[len(carried) :]
    if not is_empty or any(value is None for value in carried):
        return False
    if any(value.uses() or value.is_graph_output() for value in scanned):
        return False
    context.editor.replace_outputs(node, [value for value in carried if value is not None])
    return True


BRANCHES: Final[Rules] = {"If": (_choose_branch,), "Loop": (_skip_loop,)}
"""Rules for operators with subgraphs; they run before the nodes of the subgraphs are rewritten."""

CONDITIONS: Final[Rules] = {"If": (_exchange_branches,)}
"""Rules that run after the nodes of the subgraphs are rewritten."""
