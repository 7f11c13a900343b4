"""The passes `onnxscript.*`: the optimizer of onnxscript and its rewrite rules."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from typing import Any, Final, cast

import onnx_ir as ir

from apass.adapters.onnx.calls import MAX_EXPANDED, expanded_nodes
from apass.adapters.onnx.optimizers.foreign_pass import provide
from apass.adapters.onnx.optimizers.isolation import Optimizer
from apass.adapters.onnx.passes.workarounds import GUARDS, is_incomparable, keep_output_types, pin
from apass.errors import AdapterError, MissingExtraError

try:
    from onnxscript import optimizer as library
    from onnxscript import rewriter
    from onnxscript.rewriter.rules import common
except ImportError as _error:
    raise MissingExtraError(
        f"the passes onnxscript.* need onnxscript ({_error}): pip install 'apass[onnxscript]'"
    ) from _error

__all__ = ["fold_constants", "fuse_for_onnx", "fuse_for_runtime", "optimize", "rewrite", "rule_sets"]

PREFIX: Final = "onnxscript."
"""The prefix of the names of these passes."""

CAUTION: Final = "Adds metadata to new nodes; keeps the interface."

_OPTIONAL_BIAS: Final = 11
"""The version of ONNX since which the bias of Gemm is optional."""

ShouldFold = Callable[[ir.Node], bool | None]
"""Returns whether a node of constants is computed; None for the rules of onnxscript."""


def optimize(
    model: ir.Model, *, inline: bool = True, max_nodes: int = MAX_EXPANDED, should_fold: Any = None, **options: Any
) -> ir.Model:
    """Run `onnxscript.optimizer.optimize_ir`.

    Raises:
        AdapterError: if the calls of functions expand to more than `max_nodes` nodes.

    """
    if inline and model.functions:
        _check_calls(model, max_nodes)
        # Inlined here, because nodes that are inlined later would not be guarded.
        GUARDS["Inline"](model)
        library.inline(model)
    undos = _guard(model)
    library.optimize_ir(model, inline=False, should_fold=_foldable(should_fold), **options)
    for undo in reversed(undos):
        undo()
    return model


def fold_constants(model: ir.Model, *, should_fold: Any = None, **options: Any) -> ir.Model:
    """Run `onnxscript.optimizer.fold_constants`, and remove what it leaves unused."""
    undos = _guard(model)
    library.fold_constants(model, should_fold=_foldable(should_fold), **options)
    library.remove_unused_nodes(model)
    for undo in reversed(undos):
        undo()
    return model


def rewrite(model: ir.Model, *, rule_set: str = "", rules: Sequence[str] = ()) -> ir.Model:
    """Apply the rules of a set, or the named rules, or the default rules."""
    chosen: Any = rule_sets()[rule_set] if rule_set else [getattr(common, name) for name in rules] or None
    undos = _guard(model)
    rewriter.rewrite(model, chosen)
    for undo in reversed(undos):
        undo()
    return model


def fuse_for_onnx(model: ir.Model) -> ir.Model:
    """Run `onnxscript.rewriter.onnx_fusions.fuse`."""
    undos = _guard(model)
    import_module("onnxscript.rewriter.onnx_fusions").fuse(model)
    library.remove_unused_nodes(model)
    for undo in reversed(undos):
        undo()
    return model


def fuse_for_runtime(model: ir.Model, *, max_nodes: int = MAX_EXPANDED) -> ir.Model:
    """Run `onnxscript.rewriter.ort_fusions.optimize_for_ort`.

    Raises:
        AdapterError: if the calls of functions expand to more than `max_nodes` nodes.

    """
    _check_calls(model, max_nodes)
    GUARDS["Inline"](model)
    library.inline(model)
    undos = _guard(model)
    result, _ = import_module("onnxscript.rewriter.ort_fusions").optimize_for_ort(model)
    for undo in reversed(undos):
        undo()
    return cast("ir.Model", result)


@cache
def rule_sets() -> Mapping[str, Any]:
    """Return the rule sets of the installed onnxscript: one for each module of its common rules."""
    sets: dict[str, Any] = {}
    for info in iter_modules(common.__path__):
        rules = list(_rules_of(import_module(f"{common.__name__}.{info.name}")))
        if rules:
            sets["".join(word.capitalize() for word in info.name.strip("_").split("_"))] = rewriter.RewriteRuleSet(
                rules
            )
    return sets


def _rules_of(module: Any) -> Iterator[Any]:
    """Iterate over the rules of a module: those of its sets if it has any, or single ones."""
    members = vars(module)
    sets = [member for member in members.values() if isinstance(member, rewriter.RewriteRuleSet)]
    for name, member in members.items():
        is_own_function = inspect.isfunction(member) and member.__module__ == module.__name__
        if is_own_function and name.endswith("_rules") and not name.startswith("_"):
            sets.append(member())
    if sets:
        yield from dict.fromkeys(rule for rule_set in sets for rule in rule_set)
    else:
        yield from (member for member in members.values() if isinstance(member, rewriter.RewriteRule))


def _check_calls(model: ir.Model, limit: int) -> None:
    count = expanded_nodes(model)
    if count > limit:
        shown = f"{count:,}" if count.bit_length() < 64 else f"about 2^{count.bit_length() - 1}"
        raise AdapterError(
            f"the calls of functions expand to {shown} nodes, expected at most {limit:,}; raise the option max_nodes"
        )


def _guard(model: ir.Model) -> list[Callable[[], None]]:
    """Hide the nodes that onnxscript would rewrite wrongly; return functions that undo it."""
    owners: list[Any] = [model.graph, *model.functions.values()]
    nodes = [node for owner in owners for node in owner.all_nodes() if _is_mistaken(node, owner, model)]
    return [keep_output_types(model), pin(nodes)]


def _is_mistaken(node: ir.Node, owner: Any, model: ir.Model) -> bool:
    version = owner.opset_imports.get(node.domain)
    if version != model.opset_imports.get(node.domain):
        # In functions, onnxscript uses the versions of the model.
        return True
    match node.op_type:
        case "CastLike":
            # The Cast that replaces it has no attribute but `to`.
            return bool(node.attributes)
        case "ScatterND":
            # https://github.com/microsoft/onnxscript/pull/3049
            return node.attributes.get_string("reduction", "none") != "none"
        case "Gemm":
            # A zero bias is removed, but it is optional only since version 11.
            return version is not None and version < _OPTIONAL_BIAS
        case _:
            return is_incomparable(node)


def _foldable(user: ShouldFold | None) -> ShouldFold:
    """Return a function that answers as `user` does."""
    return user or (lambda node: None)


def _register_all() -> None:
    def made(function: str) -> Optimizer:
        return Optimizer("onnxscript", version("onnxscript"), __name__, function, CAUTION)

    def options_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        return [
            parameter.replace(default=None, annotation=ShouldFold | None)
            if parameter.name == "should_fold"
            else parameter
            for parameter in parameters
        ]

    max_nodes = inspect.Parameter("max_nodes", inspect.Parameter.KEYWORD_ONLY, default=MAX_EXPANDED, annotation=int)
    provide(
        f"{PREFIX}Optimize",
        made("optimize"),
        f"Fold constants, apply the default rewrite rules, and inline functions.\n\n{CAUTION}",
        [*options_of(library.optimize_ir), max_nodes],
    )
    provide(
        f"{PREFIX}FoldConstants",
        made("fold_constants"),
        f"Compute what depends on constants only.\n\n{CAUTION}",
        options_of(import_module("onnxscript.optimizer._constant_folding").fold_constants),
    )
    rules = inspect.Parameter("rules", inspect.Parameter.KEYWORD_ONLY, default=(), annotation=tuple[str, ...])
    provide(f"{PREFIX}Rewrite", made("rewrite"), f"Apply named or all default rewrite rules.\n\n{CAUTION}", [rules])


_register_all()
