"""The passes of llvmlite, and their names in LLVM."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apass.adapters.llvm.library import HAS_LLVMLITE, llvm

__all__ = ["LEFT_OUT", "METHODS", "PassEntry", "function_passes", "module_passes"]


@dataclass(frozen=True, slots=True)
class PassEntry:
    """A pass of llvmlite."""

    name: str
    """LLVM's name of the pass, such as `instcombine`."""
    class_name: str
    """The name of LLVM's class without `Pass`."""
    method: str
    """The method of the pass managers of llvmlite that adds the pass."""
    options: tuple[inspect.Parameter, ...] = ()
    """The options of the method."""


METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "add_aggressive_dce_pass": ("adce", "ADCE"),
    "add_aggressive_instcombine_pass": ("aggressive-instcombine", "AggressiveInstCombine"),
    "add_always_inliner_pass": ("always-inline", "AlwaysInliner"),
    "add_argument_promotion_pass": ("argpromotion", "ArgumentPromotion"),
    "add_break_critical_edges_pass": ("break-crit-edges", "BreakCriticalEdges"),
    "add_constant_merge_pass": ("constmerge", "ConstantMerge"),
    "add_dead_arg_elimination_pass": ("deadargelim", "DeadArgumentElimination"),
    "add_dead_code_elimination_pass": ("dce", "DCE"),
    "add_dead_store_elimination_pass": ("dse", "DSE"),
    "add_global_dead_code_eliminate_pass": ("globaldce", "GlobalDCE"),
    "add_global_opt_pass": ("globalopt", "GlobalOpt"),
    "add_instruction_combine_pass": ("instcombine", "InstCombine"),
    "add_instruction_namer_pass": ("instnamer", "InstructionNamer"),
    "add_internalize_pass": ("internalize", "Internalize"),
    "add_ipsccp_pass": ("ipsccp", "IPSCCP"),
    "add_jump_threading_pass": ("jump-threading", "JumpThreading"),
    "add_lcssa_pass": ("lcssa", "LCSSA"),
    "add_loop_deletion_pass": ("loop-deletion", "LoopDeletion"),
    "add_loop_extract_pass": ("loop-extract", "LoopExtractor"),
    "add_loop_rotate_pass": ("loop-rotate", "LoopRotate"),
    "add_loop_simplify_pass": ("loop-simplify", "LoopSimplify"),
    "add_loop_strength_reduce_pass": ("loop-reduce", "LoopStrengthReduce"),
    "add_loop_unroll_and_jam_pass": ("loop-unroll-and-jam", "LoopUnrollAndJam"),
    "add_loop_unroll_pass": ("loop-unroll", "LoopUnroll"),
    "add_lower_atomic_pass": ("lower-atomic", "LowerAtomic"),
    "add_lower_invoke_pass": ("lower-invoke", "LowerInvoke"),
    "add_lower_switch_pass": ("lower-switch", "LowerSwitch"),
    "add_mem_copy_opt_pass": ("memcpyopt", "MemCpyOpt"),
    "add_merge_functions_pass": ("mergefunc", "MergeFunctions"),
    "add_new_gvn_pass": ("newgvn", "NewGVN"),
    "add_partial_inliner_pass": ("partial-inliner", "PartialInliner"),
    "add_post_order_function_attributes_pass": ("function-attrs", "PostOrderFunctionAttrs"),
    "add_reassociate_pass": ("reassociate", "Reassociate"),
    "add_refprune_pass": ("refprune", "RefPrune"),
    "add_register_to_memory_pass": ("reg2mem", "RegToMem"),
    "add_rpo_function_attrs_pass": ("rpo-function-attrs", "ReversePostOrderFunctionAttrs"),
    "add_sccp_pass": ("sccp", "SCCP"),
    "add_simplify_cfg_pass": ("simplifycfg", "SimplifyCFG"),
    "add_sinking_pass": ("sink", "Sinking"),
    "add_sroa_pass": ("sroa", "SROA"),
    "add_strip_dead_debug_info_pass": ("strip-dead-debug-info", "StripDeadDebugInfo"),
    "add_strip_dead_prototype_pass": ("strip-dead-prototypes", "StripDeadPrototypes"),
    "add_strip_debug_declare_pass": ("strip-debug-declare", "StripDebugDeclare"),
    "add_strip_non_debug_symbols_pass": ("strip-nondebug", "StripNonDebugSymbols"),
    "add_strip_symbols_pass": ("strip", "StripSymbols"),
    "add_tail_call_elimination_pass": ("tailcallelim", "TailCallElim"),
    "add_unify_function_exit_nodes_pass": ("mergereturn", "UnifyFunctionExitNodes"),
}
"""LLVM's name of each pass, and the class without `Pass`.

LLVM prints the class, as in `*** IR Dump After InstCombinePass on f ***`, so pipelines may name it as well. `refprune`
is a pass of llvmlite itself.
"""

_GRAPHS: Final = ("cfg", "cfg_only", "dom", "dom_only", "post_dom", "post_dom_only", "dot_call_graph")

LEFT_OUT: Final[Mapping[str, str]] = {
    "add_verifier": "it aborts the process for an invalid module; `llvm.Verifier` raises VerifyError",
    "add_aa_eval_pass": "it prints a report to standard error",
    "add_module_debug_info_pass": "it prints to standard output",
    **dict.fromkeys((f"add_{kind}_printer_pass" for kind in _GRAPHS), "it writes files to the working directory"),
    **dict.fromkeys((f"add_{kind}_viewer_pass" for kind in _GRAPHS), "it opens windows"),
}
"""The methods for which there is no pass, each with the reason."""


def _entries(manager: Any) -> dict[str, PassEntry]:
    methods = [name for name in dir(manager) if name.startswith("add_") and name not in LEFT_OUT]
    entries = [PassEntry(*METHODS[name], name, _options(getattr(manager, name))) for name in methods if name in METHODS]
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def _options(method: Any) -> tuple[inspect.Parameter, ...]:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return tuple(
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=int(one.default), annotation=int)
        for one in parameters
    )


def function_passes() -> Mapping[str, PassEntry]:
    """Return the passes over one function, by name; none without llvmlite."""
    return _entries(llvm.FunctionPassManager) if HAS_LLVMLITE else {}


def module_passes() -> Mapping[str, PassEntry]:
    """Return the passes over a module that are not passes over a function, by name."""
    functions = function_passes()
    entries = _entries(llvm.ModulePassManager) if HAS_LLVMLITE else {}
    return {name: entry for name, entry in entries.items() if name not in functions}
