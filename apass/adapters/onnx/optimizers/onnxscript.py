"""The passes `onnxscript.*`: the optimizer of onnxscript and its rewrite rules."""

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from pkgutil import iter_modules
from typing import Any, Final, cast

import onnx_ir as ir

from apass.adapters.onnx.optimizers.foreign_pass import provide
from apass.adapters.onnx.optimizers.isolation import Optimizer
from apass.adapters.onnx.passes.workarounds import GUARDS, is_incomparable, keep_output_types, pin
from apass.errors import AdapterError, MissingExtraError, did_you_mean

try:
    from onnxscript import optimizer as library
    from onnxscript import rewriter
    from onnxscript.rewriter.rules import common
except ImportError as _error:
    raise MissingExtraError(
        f"the passes onnxscript.* need onnxscript ({_error}): pip install 'apass[onnxscript]'"
    ) from _error

__all__ = ["WRONG_RULES", "fold_constants", "fuse_for_onnx", "fuse_for_runtime", "optimize", "rewrite", "rule_sets"]

PREFIX: Final = "onnxscript."
"""The prefix of the names of these passes."""

CAUTION: Final = (
    "Adds metadata to new nodes. Keeps nodes that onnxscript 0.7 would change wrongly: CastLike with attributes, "
    "ScatterND with a reduction, BatchNormalization in training, Gemm and sequences of old models, random nodes, and "
    "bounds in sequence. ONNX's reference evaluator cannot run FlexAttention if its subgraph uses lifted constants."
)
"""The defects that were found on ONNX's test models and on small models of each rule."""

WRONG_RULES: Final = ("successive_clip_relu_rule", "successive_clip_rule", "successive_relu_clip_rule")
"""The rules that are not applied.

They merge bounds in any order: `Relu(Clip(x, max=-1))` becomes -1. They also fail if a bound is not a constant.
"""

_SEPARATED: Final = "apass.separated"

_GEMM_RANK: Final = 2
_AXES_AS_INPUT: Final = 13
"""The version of ONNX since which the axes of Unsqueeze are an input."""
_SPLIT_BY_COUNT: Final = 18
"""The version of ONNX since which Split has the attribute `num_outputs`."""
_OPTIONAL_BIAS: Final = 11
"""The version of ONNX since which the bias of Gemm is optional."""


def optimize(model: ir.Model, *, inline: bool = True, **options: Any) -> ir.Model:
    """Run `onnxscript.optimizer.optimize_ir`."""
    if inline and model.functions:
        # Inlined here, because nodes that are inlined later would not be guarded.
        GUARDS["Inline"](model)
        library.inline(model)
    with _guarded(model):
        library.optimize_ir(model, inline=False, **options)
    return model


def fold_constants(model: ir.Model, **options: Any) -> ir.Model:
    """Run `onnxscript.optimizer.fold_constants`, and remove what it leaves unused."""
    with _guarded(model):
        cast("Any", library).fold_constants(model, **options)
        library.remove_unused_nodes(model)
    return model


def rewrite(model: ir.Model, *, rule_set: str = "", rules: Sequence[str] = ()) -> ir.Model:
    """Apply the rules of a set, or the named rules, or the default rules.

    Raises:
        AdapterError: if onnxscript has no rule of a name.

    """
    known = common.__all__
    for name in rules:
        if name not in known:
            raise AdapterError(f"onnxscript has no rewrite rule {name!r}{did_you_mean(name, known)}")
    named = [getattr(common, name) for name in rules]
    chosen: Any = rule_sets()[rule_set] if rule_set else list(chain.from_iterable(map(_rules_in, named))) or None
    makes_gemm = any("add_to_gemm" in name for name in rules) or rule_set == "MatmulAddToGemm"
    with _guarded(model, _has_wide_addend if makes_gemm else None):
        rewriter.rewrite(model, chosen)
    return model


def fuse_for_onnx(model: ir.Model) -> ir.Model:
    """Run `onnxscript.rewriter.onnx_fusions.fuse`."""
    with _guarded(model):
        # It takes long to import.
        from onnxscript.rewriter import onnx_fusions

        onnx_fusions.fuse(model)
        library.remove_unused_nodes(model)
    return model


def fuse_for_runtime(model: ir.Model) -> ir.Model:
    """Run `onnxscript.rewriter.ort_fusions.optimize_for_ort`."""
    GUARDS["Inline"](model)
    library.inline(model)
    with _guarded(model):
        # It takes long to import.
        from onnxscript.rewriter import ort_fusions

        # It changes the model in place.
        ort_fusions.optimize_for_ort(model)
    return model


@cache
def rule_sets() -> Mapping[str, Any]:
    """Return the rule sets of onnxscript: one for each module of its common rules."""
    sets: dict[str, Any] = {}
    for info in iter_modules(common.__path__):
        rules = list(_rules_of(import_module(f"{common.__name__}.{info.name}")))
        if rules:
            sets["".join(word.capitalize() for word in info.name.strip("_").split("_"))] = rewriter.RewriteRuleSet(
                rules
            )
    return sets


def _rules_of(module: Any) -> Iterator[Any]:
    """Iterate over the rules of a module: those of its sets, or single ones."""
    members = cast("dict[str, Any]", vars(module))
    sets = [member for member in members.values() if isinstance(member, rewriter.RewriteRuleSet)]
    for name, member in members.items():
        is_own_function = inspect.isfunction(member) and member.__module__ == module.__name__
        if is_own_function and name.endswith("_rules") and not name.startswith("_"):
            sets.append(member())
    if sets:
        yield from dict.fromkeys(rule for rule_set in sets for rule in rule_set)
    else:
        yield from (member for member in members.values() if isinstance(member, rewriter.RewriteRule))


def _rules_in(member: Any) -> Iterator[Any]:
    """Iterate over the rules of a rule, a set, or a function that returns a set."""
    if isinstance(member, rewriter.RewriteRule):
        yield member
    else:
        yield from (member if isinstance(member, rewriter.RewriteRuleSet) else member())


@contextmanager
def _guarded(model: ir.Model, is_hidden: Callable[[ir.Node], bool] | None = None) -> Generator[None]:
    """Hide in the block what onnxscript would rewrite wrongly.

    Nodes for which `is_hidden` is true are hidden, too.
    """
    for name in WRONG_RULES:
        rule: Any = getattr(common, name, None)
        if rule is not None:
            # The rules are global objects. This is a worker process, in which nothing else uses them.
            rule.try_rewrite = _never
    separated = _separate_outputs(model.graph)
    nodes = [(node, owner) for owner in _owners(model) for node in owner.all_nodes()]
    hidden = [
        node for node, owner in nodes if _is_mistaken(node, owner, model) or (is_hidden is not None and is_hidden(node))
    ]
    undos = [separated, keep_output_types(model), pin(hidden)]
    yield
    for undo in reversed(undos):
        undo()


def _owners(model: ir.Model) -> list[Any]:
    return [model.graph, *model.functions.values()]


def _never(*_args: object, **_options: object) -> None:
    """Do not rewrite."""


def _separate_outputs(graph: ir.Graph) -> Callable[[], None]:
    """Insert an Identity for each output that is an input.

    onnxscript would rename that input.
    """
    inserted: list[tuple[int, ir.Value]] = []
    for index, output in enumerate(graph.outputs):
        if output.is_graph_input():
            node = ir.node("Identity", inputs=[output], domain=_SEPARATED)
            node.outputs[0].type, node.outputs[0].shape = output.type, output.shape
            node.outputs[0].name = f"{_SEPARATED}.{index}"
            graph.append(node)
            graph.outputs[index] = node.outputs[0]
            inserted.append((index, output))

    def undo() -> None:
        for index, output in inserted:
            node = graph.outputs[index].producer()
            graph.outputs[index] = output
            assert node is not None
            graph.remove(node, safe=True)

    return undo


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
            return _may_differ(node, "reduction", "none")
        case "BatchNormalization":
            # It is fused into the preceding node as if it used the running mean and variance.
            return _may_differ(node, "training_mode", 0) or len(node.outputs) > 1
        case "ConcatFromSequence":
            # The nodes that replace it have the inputs of newer versions.
            return version is not None and version < _AXES_AS_INPUT
        case "SplitToSequence":
            sizes = node.inputs[1] if len(node.inputs) > 1 else None
            is_known = sizes is None or sizes.const_value is not None or (sizes.shape is not None and len(sizes.shape))
            return not is_known or (version is not None and version < _SPLIT_BY_COUNT)
        case "Gemm":
            # A zero bias is removed, but it is optional only since version 11.
            return version is not None and version < _OPTIONAL_BIAS
        case _:
            return is_incomparable(node)


def _may_differ(node: ir.Node, name: str, default: object) -> bool:
    """Return whether an attribute may have another value than `default`."""
    attr = node.attributes.get(name)
    return attr is not None and (attr.is_ref() or attr.value != default)


def _has_wide_addend(node: ir.Node) -> bool:
    """Return whether an addend of a matrix product may be too wide for Gemm."""
    if node.op_type != "Add":
        return False
    addends = [value for value in node.inputs if value is not None and not _is_product(value)]
    return len(addends) == 1 and (addends[0].shape is None or len(addends[0].shape) > _GEMM_RANK)


def _is_product(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "MatMul"


def _optimizer(function: str, **fixed: Any) -> Optimizer:
    return Optimizer("onnxscript", version("onnxscript"), __name__, function, CAUTION, fixed)


def _options_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the options of a function, without those that are functions."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    return [parameter for parameter in parameters if parameter.name != "should_fold"]


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _register_all() -> None:
    folding = import_module("onnxscript.optimizer._constant_folding").fold_constants
    provide(
        f"{PREFIX}Optimize",
        _optimizer("optimize"),
        f"Fold constants, apply the default rewrite rules, and inline functions.\n\n{CAUTION}",
        _options_of(library.optimize_ir),
    )
    provide(
        f"{PREFIX}FoldConstants",
        _optimizer("fold_constants"),
        f"Compute the nodes that depend on constants only.\n\n{CAUTION}",
        _options_of(folding),
    )
    provide(
        f"{PREFIX}Rewrite",
        _optimizer("rewrite"),
        f"Apply the named rewrite rules of onnxscript, or the default ones.\n\n{CAUTION}",
        [_option("rules", tuple[str, ...], ())],
    )
    for name, rule_set in rule_sets().items():
        rules = ", ".join(sorted({str(rule.name) for rule in rule_set if rule.name}))
        doc = f"Apply the {len(rule_set.rules)} rewrite rules {name} of onnxscript."
        named = f"Rules: {rules}. " if rules else ""
        provide(f"{PREFIX}{name}", _optimizer("rewrite", rule_set=name), f"{doc}\n\n{named}{CAUTION}")
    provide(
        f"{PREFIX}FuseForOnnx",
        _optimizer("fuse_for_onnx"),
        f"Fuse nodes into operators of ONNX 23, such as RotaryEmbedding.\n\nChanges models of ONNX 23 only. {CAUTION}",
    )
    provide(
        f"{PREFIX}FuseForRuntime",
        _optimizer("fuse_for_runtime"),
        "Fuse nodes into operators of onnxruntime, such as MultiHeadAttention.\n\n"
        f"The result has operators of the domain com.microsoft, which only onnxruntime can run. {CAUTION}",
    )


_register_all()
