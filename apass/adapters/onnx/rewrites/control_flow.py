"""Replacement of If and Loop nodes whose condition is constant."""

from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.engine import Context, Rules

__all__ = ["BRANCHES"]


def _inline_branch(node: ir.Node, context: Context) -> bool:
    """Replace an If with a constant condition by the nodes of the branch."""
    condition = context.facts.constant(node.inputs[0])
    if condition is None or condition.size != 1:
        return False
    attr = node.attributes["then_branch" if condition.reshape(-1)[0] else "else_branch"]
    branch, editor, graph = attr.as_graph(), context.editor, node.graph
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


BRANCHES: Final[Rules] = {"If": (_inline_branch,), "Loop": (_skip_loop,)}
"""Rules for operators with subgraphs; they run before the nodes of the subgraphs are rewritten."""
