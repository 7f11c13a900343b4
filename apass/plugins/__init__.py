"""Names for authors of plug-ins: adapters, passes, extensions of pipelines.

A program that only runs passes needs none of these names. They load when they are first used.
"""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.adapters.base import BaseAdapter
    from apass.adapters.nodes import Node, with_locations, with_names
    from apass.concurrency.limits import NO_LIMIT, Slots, usable_cores
    from apass.concurrency.measuring import Measurement, ProgramRun
    from apass.concurrency.processes.command import complete_process
    from apass.concurrency.processes.pool import LostCall, call_in_worker, run_in_worker
    from apass.concurrency.run_locals import RunLocal
    from apass.concurrency.single_flight import SingleFlight
    from apass.core.adapter import FunctionKind
    from apass.core.analysis_manager import AnalysisManager
    from apass.core.config import Config, provide_config_option
    from apass.core.context import expect_pass_names, has_hooks, is_yield_due, yield_if_due
    from apass.core.declarations import Caching, Contract, Execution
    from apass.core.displayed import Displayed
    from apass.core.executor import in_executor
    from apass.core.ir_plugin import Comparison, GivenInputs, Measures, Proof
    from apass.core.outside import Outside, reviewed
    from apass.core.pass_factories import add_alias
    from apass.display.view import View
    from apass.external.solver import NotEncodedError, counterexample, prove_in_worker
    from apass.passes.alternatives import Alternatives
    from apass.passes.draft import Draft, offer_draft, take_draft
    from apass.passes.registry import provide_pass
    from apass.pipelines.extensions import PipelineExtension
    from apass.pipelines.languages import Element, Language, Option
    from apass.runner.changes import can_merge_passes, tentative_changes, without_changes
    from apass.util.array_difference import ArrayDifference, array_difference
    from apass.util.dull_outputs import changed_input, dull_outputs
    from apass.util.files import PartFile, Prepared, write_whole
    from apass.util.fingerprint import fingerprint_value
    from apass.util.late_modules import imported_late
    from apass.util.other_inputs import OtherInputs, same_value
    from apass.util.paired_times import AlternatingRounds, PairedTimes
    from apass.util.tagged_json import reachable_types, read_tagged, write_tagged
    from apass.util.text import raising_line, short_reason, text_of_error
    from apass.util.typed_values import Bare
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.adapters.base": ["BaseAdapter"],
            "apass.concurrency.limits": ["NO_LIMIT", "Slots", "usable_cores"],
            "apass.concurrency.measuring": ["Measurement", "ProgramRun"],
            "apass.concurrency.processes.command": ["complete_process"],
            "apass.concurrency.processes.pool": ["LostCall", "call_in_worker", "run_in_worker"],
            "apass.concurrency.run_locals": ["RunLocal"],
            "apass.concurrency.single_flight": ["SingleFlight"],
            "apass.core.adapter": ["FunctionKind"],
            "apass.core.analysis_manager": ["AnalysisManager"],
            "apass.runner.changes": ["can_merge_passes", "tentative_changes", "without_changes"],
            "apass.core.config": ["Config", "provide_config_option"],
            "apass.core.declarations": ["Caching", "Contract", "Execution"],
            "apass.core.context": ["expect_pass_names", "has_hooks", "is_yield_due", "yield_if_due"],
            "apass.core.displayed": ["Displayed"],
            "apass.core.pass_factories": ["add_alias"],
            "apass.passes.alternatives": ["Alternatives"],
            "apass.passes.draft": ["Draft", "offer_draft", "take_draft"],
            "apass.core.executor": ["in_executor"],
            "apass.core.ir_plugin": ["Comparison", "GivenInputs", "Measures", "Proof"],
            "apass.adapters.nodes": ["Node", "with_locations", "with_names"],
            "apass.core.outside": ["Outside", "reviewed"],
            "apass.display.view": ["View"],
            "apass.external.solver": ["NotEncodedError", "counterexample", "prove_in_worker"],
            "apass.passes.registry": ["provide_pass"],
            "apass.pipelines.extensions": ["PipelineExtension"],
            "apass.pipelines.languages": ["Element", "Language", "Option"],
            "apass.util.array_difference": ["ArrayDifference", "array_difference"],
            "apass.util.dull_outputs": ["changed_input", "dull_outputs"],
            "apass.util.files": ["PartFile", "Prepared", "write_whole"],
            "apass.util.fingerprint": ["fingerprint_value"],
            "apass.util.late_modules": ["imported_late"],
            "apass.util.other_inputs": ["OtherInputs", "same_value"],
            "apass.util.paired_times": ["AlternatingRounds", "PairedTimes"],
            "apass.util.tagged_json": ["reachable_types", "read_tagged", "write_tagged"],
            "apass.util.text": ["raising_line", "short_reason", "text_of_error"],
            "apass.util.typed_values": ["Bare"],
        },
    )

__all__ = [
    "NO_LIMIT",
    "AlternatingRounds",
    "Alternatives",
    "AnalysisManager",
    "ArrayDifference",
    "Bare",
    "BaseAdapter",
    "Caching",
    "Comparison",
    "Config",
    "Contract",
    "Displayed",
    "Draft",
    "Element",
    "Execution",
    "FunctionKind",
    "GivenInputs",
    "Language",
    "LostCall",
    "Measurement",
    "Measures",
    "Node",
    "NotEncodedError",
    "Option",
    "OtherInputs",
    "Outside",
    "PairedTimes",
    "PartFile",
    "PipelineExtension",
    "Prepared",
    "ProgramRun",
    "Proof",
    "RunLocal",
    "SingleFlight",
    "Slots",
    "View",
    "add_alias",
    "array_difference",
    "call_in_worker",
    "can_merge_passes",
    "changed_input",
    "complete_process",
    "counterexample",
    "dull_outputs",
    "expect_pass_names",
    "fingerprint_value",
    "has_hooks",
    "imported_late",
    "in_executor",
    "is_yield_due",
    "offer_draft",
    "prove_in_worker",
    "provide_config_option",
    "provide_pass",
    "raising_line",
    "reachable_types",
    "read_tagged",
    "reviewed",
    "run_in_worker",
    "same_value",
    "short_reason",
    "take_draft",
    "tentative_changes",
    "text_of_error",
    "usable_cores",
    "with_locations",
    "with_names",
    "without_changes",
    "write_tagged",
    "write_whole",
    "yield_if_due",
]
