"""The run of a pass on some functions of a module, in a private module."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from apass.adapters.llvm.module import Function
from apass.adapters.llvm.skeleton import NODES, Skeleton, closure, rename, split, tokens

__all__ = ["changed_functions"]


def changed_functions(
    funcs: Sequence[Function], run: Callable[[str], str], also: Iterable[str] = (), *, in_order: bool = True
) -> list[Function]:
    """Return functions after a pass; unchanged ones are returned themselves.

    The pass runs on a private module: the functions, and what they use. LLVM numbers attribute groups and metadata in
    the order of use, so the private module lists its metadata nodes in a named one. After the pass, the list has their
    new numbers in the same order.

    If the pass changes anything else than the functions, the first result has it in `outside`.

    Parameters:
        funcs: functions of one module, with its skeleton.
        run: runs the pass on a text, and returns what LLVM prints.
        also: symbols of the module that the pass may use as well.
        in_order: whether a changed header of a function is a change of something else, which later functions see.

    """
    base = funcs[0].skeleton
    used = dict(base.always)
    for func in funcs:
        used.update(func.entries)
        used[func.token] = func.header
    for token in also:
        line = base.find(token) or ""
        used.update({token: line, **closure(line, base)})
    before = base.only(used)
    nodes = list(before.nodes)
    if nodes:
        before = before.replaced(named={**before.named, NODES: f"{NODES} = !{{{', '.join(nodes)}}}"})
    after, definitions = split(run(before.text({func.token: func.definition for func in funcs})))
    names = _old_numbers(base, after, nodes)
    outside, new = _changes(base, before, after, names)
    if not in_order:
        for func in funcs:
            outside.pop(func.token, None)
    results: list[Function] = []
    for func in funcs:
        definition = rename(definitions[func.token], names)
        extra: dict[str, str] = {}
        if new:
            reached = closure(definition, base, new.get)
            extra = {token: line for token, line in new.items() if token in reached}
        if definition == func.definition and not extra:
            results.append(func)
        else:
            results.append(Function(func.token, definition, base, extra))
    # LLVM keeps a declaration that a pass added, also if no function uses it in the end.
    unused = {token: line for token, line in new.items() if line.startswith("declare ")}
    for result in results:
        unused = {token: line for token, line in unused.items() if token not in result.extra}
    if unused or outside:
        first = results[0]
        results[0] = Function(first.token, first.definition, base, {**first.extra, **unused}, outside)
    return results


def _old_numbers(base: Skeleton, after: Skeleton, nodes: list[str]) -> Mapping[str, str]:
    """Return the number before the pass, or a new one, for each number after the pass."""
    listed = tokens(after.named[NODES].partition(" = ")[2]) if nodes else []
    names = dict(zip(listed, nodes, strict=True))
    groups, free = count(base.free_group), count(base.free_node)
    for token, line in after.attributes.items():
        names[token] = base.groups.get(line.partition(" = ")[2]) or f"#{next(groups)}"
    for token in after.nodes:
        if token not in names:
            names[token] = f"!{next(free)}"
    return names


def _changes(
    base: Skeleton, before: Skeleton, after: Skeleton, names: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the entries that the pass changed outside of functions, and new ones.

    A change that has no line, such as a removal, has "". If the module already has what the pass added, the entry has
    the line of the module.
    """
    outside: dict[str, str] = {}
    new: dict[str, str] = {}
    for token, line in after.attributes.items():
        if names[token] not in base.attributes:
            new[names[token]] = rename(line, names)
    for token, line in after.nodes.items():
        number, line = names[token], rename(line, names)
        if number not in before.nodes:
            new[number] = line
        elif line != before.nodes[number]:
            outside[number] = ""
    for old, table in ((before.variables, after.variables), (before.functions, after.functions)):
        outside.update((token, "") for token in old if token not in table)
        for token, line in table.items():
            line = rename(line, names)
            # A declaration that the pass added may be in the module already.
            known = old.get(token) or base.find(token)
            if known is not None:
                if line != known:
                    # LLVM would have used the one of the module. Another run gets it.
                    outside[token] = line if token in old else known
            elif line.startswith("declare "):
                new[token] = line
            else:
                # LLVM names it after those that exist in the whole module.
                outside[token] = ""
    used = {token for line in outside.values() for token in tokens(line)}
    outside.update((token, new[token]) for token in used if token in new and token[0] in "#!")
    new.update((token, line) for token, line in after.types.items() if base.find(token) is None)
    return outside, new
