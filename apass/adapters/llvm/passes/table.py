"""The passes of llvmlite, and their names in apass."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apass.adapters.llvm.library import llvm

__all__ = ["LEFT_OUT", "PassEntry", "function_passes", "module_passes"]


@dataclass(frozen=True, slots=True)
class PassEntry:
    """A pass of llvmlite."""

    name: str
    """The name of LLVM's class without `Pass`."""
    method: str
    """The method of the pass managers of llvmlite that adds the pass."""
    options: tuple[inspect.Parameter, ...] = ()
    """The options of the method."""


_NAMES: Final[Mapping[str, str]] = {
    "add_aggressive_dce_pass": "ADCE",
    "add_aggressive_instcombine_pass": "AggressiveInstCombine",
    "add_dead_arg_elimination_pass": "DeadArgumentElimination",
    "add_dead_code_elimination_pass": "DCE",
    "add_dead_store_elimination_pass": "DSE",
    "add_global_dead_code_eliminate_pass": "GlobalDCE",
    "add_instruction_combine_pass": "InstCombine",
    "add_ipsccp_pass": "IPSCCP",
    "add_lcssa_pass": "LCSSA",
    "add_loop_extract_pass": "LoopExtractor",
    "add_mem_copy_opt_pass": "MemCpyOpt",
    "add_new_gvn_pass": "NewGVN",
    "add_post_order_function_attributes_pass": "PostOrderFunctionAttrs",
    "add_refprune_pass": "RefPrune",
    "add_register_to_memory_pass": "RegToMem",
    "add_rpo_function_attrs_pass": "ReversePostOrderFunctionAttrs",
    "add_sccp_pass": "SCCP",
    "add_simplify_cfg_pass": "SimplifyCFG",
    "add_sroa_pass": "SROA",
    "add_strip_dead_prototype_pass": "StripDeadPrototypes",
    "add_tail_call_elimination_pass": "TailCallElim",
}
"""LLVM's names where they are not those of the methods."""

_GRAPHS: Final = ("cfg", "cfg_only", "dom", "dom_only", "post_dom", "post_dom_only", "dot_call_graph")

LEFT_OUT: Final[Mapping[str, str]] = {
    "add_verifier": "it aborts the process for an invalid module; `llvm.Verifier` raises VerifyError",
    "add_aa_eval_pass": "it prints a report to standard error",
    "add_module_debug_info_pass": "it prints to standard output",
    **dict.fromkeys((f"add_{kind}_printer_pass" for kind in _GRAPHS), "it writes files to the working directory"),
    **dict.fromkeys((f"add_{kind}_viewer_pass" for kind in _GRAPHS), "it opens windows"),
}
"""The methods for which there is no pass, each with the reason."""


def _name(method: str) -> str:
    """Return the name of a pass, such as `LoopRotate` for `add_loop_rotate_pass`."""
    if method in _NAMES:
        return _NAMES[method]
    words = re.sub(r"^add_|_pass$", "", method).split("_")
    return "".join(word[:1].upper() + word[1:] for word in words)


def _entries(manager: Any) -> dict[str, PassEntry]:
    methods = [name for name in dir(manager) if name.startswith("add_") and name not in LEFT_OUT]
    entries = [PassEntry(_name(name), name, _options(getattr(manager, name))) for name in methods]
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def _options(method: Any) -> tuple[inspect.Parameter, ...]:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return tuple(
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=int(one.default), annotation=int)
        for one in parameters
    )


def function_passes() -> Mapping[str, PassEntry]:
    """Return the passes over one function, by name."""
    return _entries(llvm.FunctionPassManager)


def module_passes() -> Mapping[str, PassEntry]:
    """Return the passes over a module that are not passes over a function, by name."""
    functions = function_passes()
    return {name: entry for name, entry in _entries(llvm.ModulePassManager).items() if name not in functions}
