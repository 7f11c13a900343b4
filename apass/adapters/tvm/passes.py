"""The registered passes of TVM: `tvm.relax.*`, `tvm.tirx.*`, `tvm.s_tir.*`."""

import enum
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Annotated, Any, Final, Literal, cast, get_args, get_origin

from apass.adapters.tvm.bridge import TVMIsolatedPass, from_tvm, make_pass
from apass.adapters.tvm.execution import CONFIG_PREFIX, TARGET
from apass.adapters.tvm.library import short_reason, tvm
from apass.core.config import provide_config_option
from apass.core.outside import Outside, reviewed
from apass.core.pass_info import PassInfo
from apass.errors import PassDefinitionError
from apass.passes.base import Pass
from apass.passes.registry import get_pass, provide_pass
from apass.passes.sequential import Sequential

__all__ = ["DEFAULT"]

NAMESPACES: Final[Mapping[str, Any]] = {
    "relax": tvm.relax.transform,
    "tirx": tvm.tirx.transform,
    "s_tir": tvm.s_tir.transform,
}
"""The modules with functions that make passes."""

_BASES: Final = frozenset({"DataflowBlockPass", "FunctionPass", "PrimFuncPass"})
_RENAMED: Final = frozenset({"VMBuiltinLower"})
"""Functions that TVM keeps for old programs, with a warning."""

_TYPES: Final = (bool, int, float, str, type(None))
"""The types of options that text can be converted to, and lists and mappings of them."""

DEFAULT: Final = (
    "tvm.relax.CanonicalizeBindings",
    "tvm.relax.EliminateCommonSubexpr",
    "tvm.relax.DeadCodeElimination",
)
"""The passes of `tvm.Default`: they simplify a module, and keep its operators."""

_REACH: Final[Mapping[str, Outside]] = {
    "tvm.pipeline.static_shape_tuning": Outside.PROGRAMS,
    "tvm.relax.MetaScheduleTuneIRMod": Outside.PROGRAMS,
    "tvm.relax.MetaScheduleTuneTIR": Outside.PROGRAMS,
    "tvm.relax.RunCodegen": Outside.PROGRAMS,
}
"""The passes that compile and run programs, such as the candidates of a search."""

_FILES: Final = ("work_dir",)
"""Options that are folders, of any pass."""

_HARMLESS: Final[Mapping[str, str]] = {
    "tvm.relax.BindParams": "func_name",
    "tvm.relax.BindSymbolicVars": "binding_map func_name",
    "tvm.relax.BundleModelParams": "param_tuple_name",
    "tvm.relax.ConvertLayout": "desired_layouts",
    "tvm.relax.DeadCodeElimination": "entry_functions",
    "tvm.relax.DecomposeOpsForInference": "func_name",
    "tvm.relax.DecomposeOpsForTraining": "func_name",
    "tvm.relax.FuseOpsByPattern": "entry_functions",
    "tvm.relax.Gradient": "func_name require_grads",
    "tvm.relax.LazyTransformParams": "fget_item fset_item",
    "tvm.relax.LegalizeOps": "skip_ops",
    "tvm.relax.LiftTransformParams": "shared_transform",
    "tvm.relax.MetaScheduleTuneIRMod": "op_names",
    "tvm.relax.RunCodegen": "entry_functions",
    "tvm.relax.ToMixedPrecision": "fp16_input_names out_dtype",
    "tvm.relax.TopologicalSort": "direction order",
    "tvm.s_tir.HoistIfThenElse": "variant",
    "tvm.s_tir.ThreadSync": "storage_scope",
    "tvm.tirx.FP8ComputeLegalize": "promote_dtype",
}
"""The options that are text, or lists of it, and reach nothing, by pass; read in the sources of TVM."""

_CONFIG_TYPES: Final[Mapping[str, Any]] = {"bool": bool, "int": int, "ir.IntImm": int}


def _makers(namespace: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Iterate over the functions and classes of a namespace that make passes."""
    members = cast("dict[str, Any]", namespace.__dict__)
    for name, value in sorted(members.items(), key=itemgetter(0)):
        module = str(getattr(value, "__module__", ""))
        if not name[0].isupper() or name in _BASES | _RENAMED or not module.startswith(namespace.__name__):
            continue
        if inspect.isclass(value) and (issubclass(value, enum.Enum) or not issubclass(value, tvm.transform.Pass)):
            continue
        yield name, value


def _option(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter with a type that text can be converted to."""
    annotation: Any = parameter.annotation
    default = parameter.default
    if annotation is parameter.empty:
        known = default is not parameter.empty and default is not None
        annotation = cast("Any", type(default) if known else Any)
    return parameter.replace(annotation=annotation if _is_readable(annotation) else Any)


def _is_readable(annotation: Any) -> bool:
    return annotation in _TYPES or (
        get_origin(annotation) is not Literal
        and bool(get_args(annotation))
        and all(map(_is_readable, get_args(annotation)))
    )


def _signature(maker: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(maker).parameters.values()
    named = [item for item in parameters if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    try:
        hints = typing.get_type_hints(maker.__init__ if inspect.isclass(maker) else maker)
    except (NameError, TypeError):
        # An annotation may use names that are imported for type checkers only.
        hints = {}
    return [_option(item.replace(annotation=hints.get(item.name, item.annotation))) for item in named]


def _documentation(maker: Callable[..., Any]) -> str:
    """Return the docstring without the sections about parameters and results."""
    return inspect.cleandoc(maker.__doc__ or "").partition("\nParameters\n")[0].partition("\nReturns\n")[0].strip()


def _provide(name: str, maker: Callable[..., Any], doc: str) -> None:
    """Register the pass that a function of TVM makes."""

    def factory(**options: Any) -> Pass[Any]:
        return _make(name, maker, options)

    reviews = dict.fromkeys(_HARMLESS.get(name, "").split()) | dict.fromkeys(_FILES, Outside.FILES)
    provide_pass(name, options=[reviewed(option, reviews) for option in _signature(maker)], doc=doc)(factory)


def _make(name: str, maker: Callable[..., Any], options: Mapping[str, Any]) -> Pass[Any]:
    """Return the pass `name` with options."""
    try:
        target = maker(**options)
    except Exception as error:  # TVM raises errors of many types
        raise PassDefinitionError(f"TVM cannot make pass {name!r}: {short_reason(error)}") from None
    if isinstance(target, tvm.transform.Sequential):
        sequence = cast("Sequential[Any]", from_tvm(target))
        for step in _descendants(sequence):
            step.runs_alone = False
        return Sequential(sequence.passes, sequence.info.opt_level, name, sequence.info.required)
    info = PassInfo(int(target.info.opt_level), name, [str(required) for required in target.info.required])
    # The pipelines run FoldConstant.
    pass_: Any = TVMIsolatedPass(target, info) if name.startswith("tvm.pipeline.") else make_pass(target, info)
    pass_.cacheable = True
    pass_.version = f"apache-tvm {tvm.__version__}"
    pass_.outside = _REACH.get(name)
    made: Pass[Any] = pass_
    return made


def _descendants(pass_: Pass[Any]) -> Iterator[Pass[Any]]:
    for child in pass_.children():
        yield child
        yield from _descendants(child)


def _register_all() -> None:
    for prefix, namespace in NAMESPACES.items():
        for short_name, maker in _makers(namespace):
            _provide(f"tvm.{prefix}.{short_name}", maker, _documentation(maker))
    for pipeline, maker in tvm.relax.pipeline.PIPELINE_MAP.items():
        _provide(f"tvm.pipeline.{pipeline}", maker, f"Run the pipeline {pipeline!r} of `tvm.relax.get_pipeline`.")

    def default() -> Sequential[Any]:
        """Simplify bindings: canonical forms, common subexpressions, dead code."""
        return Sequential([get_pass(name) for name in DEFAULT], name="tvm.Default")

    provide_pass("tvm.Default")(default)
    for key, facts in sorted(tvm.transform.PassContext.list_configs().items()):
        # Records of options, such as `tirx.transform.UnrollLoopConfig`, have numbers only.
        unknown = Any if str(facts["type"]).endswith("Config") else Annotated[Any, Outside.UNKNOWN]
        kind = _CONFIG_TYPES.get(str(facts["type"]), unknown)
        provide_config_option(f"{CONFIG_PREFIX}{key}", kind, doc=f"the option {key} of TVM ({facts['type']})")
    # A target takes options of LLVM, of which some name files.
    target_type: Any = Annotated[str, Outside.FILES]
    provide_config_option(TARGET, target_type, doc="the target of TVM that passes generate code for, such as llvm")


_register_all()
