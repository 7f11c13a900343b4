"""Async compiler passes over any IR: TVM's pass infrastructure with concurrency."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass import errors as errors
    from apass import executors as executors
    from apass import external as external
    from apass import instruments
    from apass import plugins as plugins
    from apass import relay as relay
    from apass import stores as stores
    from apass import testing as testing
    from apass.adapters.base import BaseAdapter
    from apass.adapters.tvm.bridge import from_tvm, to_tvm
    from apass.batch.journal import Journal
    from apass.batch.optimize import optimize_all
    from apass.batch.stream import Outcome, OutcomeStream, optimize_stream
    from apass.concurrency.interleaving import Schedule
    from apass.concurrency.single_flight import SingleFlight
    from apass.core.adapter import FunctionKind, IRAdapter, adapter_for, register_adapter
    from apass.core.analysis import Analysis, analysis
    from apass.core.analysis_manager import AnalysisManager
    from apass.core.config import Config, ConfigOption, provide_config_option, register_config_option
    from apass.core.context import PassContext, waiting_for
    from apass.core.diagnostic_context import DiagnosticContext
    from apass.core.diagnostics import Diagnostic, DiagnosticLevel, Span
    from apass.core.displayed import Displayed
    from apass.core.info import PassInfo
    from apass.core.instrument import PassInstrument, PassWork, pass_instrument
    from apass.core.ir_plugin import Comparison, IRPlugin, Measures, Proof, register_plugin
    from apass.core.named_callables import list_callables, register_callable, unregister_callable
    from apass.core.nodes import Node, with_locations
    from apass.core.outside import Outside
    from apass.core.portable import PortableInstrument
    from apass.core.position import Position
    from apass.core.properties import Property, list_properties, register_property
    from apass.core.questions import Answer, Question
    from apass.core.remarks import Remark, RemarkKind
    from apass.core.run import Run, current_module_name, current_run
    from apass.core.view import diff, view
    from apass.debugging.bisect import Bisected, bisect
    from apass.debugging.reduce import reduce, reduce_module
    from apass.debugging.reduction import Reduced
    from apass.debugging.replay import Replay, Verdict, replay
    from apass.debugging.run_diff.diff import RunDiff
    from apass.debugging.run_diff.pipelines import diff_pipelines
    from apass.debugging.run_diff.reading import read_run
    from apass.debugging.run_diff.recorded_run import RecordedRun
    from apass.debugging.stress import Stressed, stress
    from apass.display.view import View
    from apass.errors import (
        AdapterError,
        AnalysisError,
        AnswersError,
        ApassError,
        BisectError,
        BreakpointError,
        BudgetExceededError,
        CircuitOpenError,
        ConfigTypeError,
        CyclicRequirementError,
        DebugError,
        DebugWarning,
        DiagnosticError,
        ExecutorError,
        HelperError,
        InputError,
        JournalError,
        JournalWarning,
        MissingExtraError,
        OutputsChangedError,
        PassCancelledError,
        PassContextError,
        PassDefinitionError,
        PassExitedError,
        PassNotAllowedError,
        PassOrderError,
        PassRegistrationError,
        PassResultError,
        PassTimeoutError,
        PauseError,
        PipelineCycleError,
        PipelineSyntaxError,
        PluginError,
        PluginWarning,
        PropertyError,
        RemoteError,
        ReproducerError,
        ResumeError,
        ServiceTimeoutError,
        UnknownAnswerError,
        UnknownCallableError,
        UnknownConfigError,
        UnknownNodeError,
        UnknownPassError,
        UnknownPropertyError,
        UnmatchedPassNameWarning,
        VerifyError,
        WorkerLostError,
    )
    from apass.external.answers.asking import answer_of
    from apass.instruments.event_stream import events
    from apass.instruments.reproducer.folder import ContextSettings, Failure, Reproducer, read_reproducer
    from apass.passes.base import ModulePass, Pass
    from apass.passes.conditional import If
    from apass.passes.decorators import function_pass, module_pass, prim_func_pass
    from apass.passes.first import First
    from apass.passes.function_pass import FunctionPass, PrimFuncPass
    from apass.passes.in_place import InPlacePass
    from apass.passes.minimum_point import MinimumPoint
    from apass.passes.options import PassOptions
    from apass.passes.print_ir import PrintIR
    from apass.passes.race import Race
    from apass.passes.registry import get_pass, list_passes, pass_options, provide_pass, register_pass, unregister_pass
    from apass.passes.repeat import Repeat
    from apass.passes.sequential import Sequential
    from apass.passes.while_ import While
    from apass.pipelines.cache_explanation import CacheExplanation, CacheState, explain_cache
    from apass.pipelines.extensions import PipelineExtension, extend_pipeline
    from apass.pipelines.parser import parse_pipeline
    from apass.pipelines.plan import Decision, PlannedPass, plan
    from apass.pipelines.resume import rest_of
    from apass.sync import run
    from apass.util.fingerprint import fingerprint_value
    from apass.util.version import __version__ as __version__
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass": ["errors", "executors", "external", "instruments", "plugins", "relay", "stores", "testing"],
            "apass.adapters.base": ["BaseAdapter"],
            "apass.adapters.tvm.bridge": ["from_tvm", "to_tvm"],
            "apass.batch.journal": ["Journal"],
            "apass.batch.optimize": ["optimize_all"],
            "apass.batch.stream": ["Outcome", "OutcomeStream", "optimize_stream"],
            "apass.concurrency.single_flight": ["SingleFlight"],
            "apass.core.adapter": ["FunctionKind", "IRAdapter", "adapter_for", "register_adapter"],
            "apass.core.analysis": ["Analysis", "analysis"],
            "apass.core.analysis_manager": ["AnalysisManager"],
            "apass.core.questions": ["Answer", "Question"],
            "apass.external.answers.asking": ["answer_of"],
            "apass.core.config": ["Config", "ConfigOption", "provide_config_option", "register_config_option"],
            "apass.core.context": ["PassContext", "waiting_for"],
            "apass.core.diagnostic_context": ["DiagnosticContext"],
            "apass.core.diagnostics": ["Diagnostic", "DiagnosticLevel", "Span"],
            "apass.core.info": ["PassInfo"],
            "apass.core.instrument": ["PassInstrument", "PassWork", "pass_instrument"],
            "apass.core.ir_plugin": ["Comparison", "IRPlugin", "Measures", "Proof", "register_plugin"],
            "apass.core.named_callables": ["list_callables", "register_callable", "unregister_callable"],
            "apass.core.nodes": ["Node", "with_locations"],
            "apass.core.portable": ["PortableInstrument"],
            "apass.core.position": ["Position"],
            "apass.core.outside": ["Outside"],
            "apass.core.properties": ["Property", "list_properties", "register_property"],
            "apass.core.remarks": ["Remark", "RemarkKind"],
            "apass.core.run": ["Run", "current_module_name", "current_run"],
            "apass.core.view": ["diff", "view"],
            "apass.debugging.bisect": ["Bisected", "bisect"],
            "apass.debugging.reduce": ["reduce", "reduce_module"],
            "apass.debugging.reduction": ["Reduced"],
            "apass.concurrency.interleaving": ["Schedule"],
            "apass.debugging.run_diff.diff": ["RunDiff"],
            "apass.debugging.run_diff.pipelines": ["diff_pipelines"],
            "apass.debugging.run_diff.reading": ["read_run"],
            "apass.debugging.run_diff.recorded_run": ["RecordedRun"],
            "apass.debugging.stress": ["Stressed", "stress"],
            "apass.debugging.replay": ["Replay", "Verdict", "replay"],
            "apass.display.view": ["View"],
            "apass.errors": [
                "AdapterError",
                "AnalysisError",
                "AnswersError",
                "ApassError",
                "BisectError",
                "BreakpointError",
                "BudgetExceededError",
                "CircuitOpenError",
                "ConfigTypeError",
                "CyclicRequirementError",
                "DebugError",
                "DebugWarning",
                "DiagnosticError",
                "ExecutorError",
                "HelperError",
                "InputError",
                "JournalError",
                "JournalWarning",
                "MissingExtraError",
                "OutputsChangedError",
                "PassCancelledError",
                "PassExitedError",
                "PassContextError",
                "PassDefinitionError",
                "PassNotAllowedError",
                "PassOrderError",
                "PassRegistrationError",
                "PassResultError",
                "PassTimeoutError",
                "PauseError",
                "PipelineCycleError",
                "PipelineSyntaxError",
                "PluginError",
                "PluginWarning",
                "PropertyError",
                "RemoteError",
                "ReproducerError",
                "ResumeError",
                "ServiceTimeoutError",
                "UnknownAnswerError",
                "UnknownCallableError",
                "UnknownConfigError",
                "UnknownNodeError",
                "UnknownPassError",
                "UnknownPropertyError",
                "UnmatchedPassNameWarning",
                "VerifyError",
                "WorkerLostError",
            ],
            "apass.instruments.reproducer.folder": ["ContextSettings", "Failure", "Reproducer", "read_reproducer"],
            "apass.instruments.event_stream": ["events"],
            "apass.passes.base": ["ModulePass", "Pass"],
            "apass.passes.conditional": ["If"],
            "apass.passes.decorators": ["function_pass", "module_pass", "prim_func_pass"],
            "apass.passes.first": ["First"],
            "apass.passes.function_pass": ["FunctionPass", "PrimFuncPass"],
            "apass.passes.in_place": ["InPlacePass"],
            "apass.passes.minimum_point": ["MinimumPoint"],
            "apass.passes.options": ["PassOptions"],
            "apass.passes.print_ir": ["PrintIR"],
            "apass.passes.race": ["Race"],
            "apass.passes.registry": [
                "get_pass",
                "list_passes",
                "pass_options",
                "provide_pass",
                "register_pass",
                "unregister_pass",
            ],
            "apass.passes.repeat": ["Repeat"],
            "apass.passes.sequential": ["Sequential"],
            "apass.passes.while_": ["While"],
            "apass.pipelines.cache_explanation": ["CacheExplanation", "CacheState", "explain_cache"],
            "apass.pipelines.extensions": ["PipelineExtension", "extend_pipeline"],
            "apass.pipelines.parser": ["parse_pipeline"],
            "apass.pipelines.plan": ["Decision", "PlannedPass", "plan"],
            "apass.pipelines.resume": ["rest_of"],
            "apass.sync": ["run"],
            "apass.core.displayed": ["Displayed"],
            "apass.util.fingerprint": ["fingerprint_value"],
            "apass.util.version": ["__version__"],
        },
    )

__all__ = [
    "AdapterError",
    "Analysis",
    "AnalysisError",
    "AnalysisManager",
    "Answer",
    "AnswersError",
    "ApassError",
    "BaseAdapter",
    "BisectError",
    "Bisected",
    "BreakpointError",
    "BudgetExceededError",
    "CacheExplanation",
    "CacheState",
    "CircuitOpenError",
    "Comparison",
    "Config",
    "ConfigOption",
    "ConfigTypeError",
    "ContextSettings",
    "CyclicRequirementError",
    "DebugError",
    "DebugWarning",
    "Decision",
    "Diagnostic",
    "DiagnosticContext",
    "DiagnosticError",
    "DiagnosticLevel",
    "Displayed",
    "ExecutorError",
    "Failure",
    "First",
    "FunctionKind",
    "FunctionPass",
    "HelperError",
    "IRAdapter",
    "IRPlugin",
    "If",
    "InPlacePass",
    "InputError",
    "Journal",
    "JournalError",
    "JournalWarning",
    "Measures",
    "MinimumPoint",
    "MissingExtraError",
    "ModulePass",
    "Node",
    "Outcome",
    "OutcomeStream",
    "OutputsChangedError",
    "Outside",
    "Pass",
    "PassCancelledError",
    "PassContext",
    "PassContextError",
    "PassDefinitionError",
    "PassExitedError",
    "PassInfo",
    "PassInstrument",
    "PassNotAllowedError",
    "PassOptions",
    "PassOrderError",
    "PassRegistrationError",
    "PassResultError",
    "PassTimeoutError",
    "PassWork",
    "PauseError",
    "PipelineCycleError",
    "PipelineExtension",
    "PipelineSyntaxError",
    "PlannedPass",
    "PluginError",
    "PluginWarning",
    "PortableInstrument",
    "Position",
    "PrimFuncPass",
    "PrintIR",
    "Proof",
    "Property",
    "PropertyError",
    "Question",
    "Race",
    "RecordedRun",
    "Reduced",
    "Remark",
    "RemarkKind",
    "RemoteError",
    "Repeat",
    "Replay",
    "Reproducer",
    "ReproducerError",
    "ResumeError",
    "Run",
    "RunDiff",
    "Schedule",
    "Sequential",
    "ServiceTimeoutError",
    "SingleFlight",
    "Span",
    "Stressed",
    "UnknownAnswerError",
    "UnknownCallableError",
    "UnknownConfigError",
    "UnknownNodeError",
    "UnknownPassError",
    "UnknownPropertyError",
    "UnmatchedPassNameWarning",
    "Verdict",
    "VerifyError",
    "View",
    "While",
    "WorkerLostError",
    "adapter_for",
    "analysis",
    "answer_of",
    "bisect",
    "current_module_name",
    "current_run",
    "diff",
    "diff_pipelines",
    "events",
    "explain_cache",
    "extend_pipeline",
    "fingerprint_value",
    "from_tvm",
    "function_pass",
    "get_pass",
    "instruments",
    "list_callables",
    "list_passes",
    "list_properties",
    "module_pass",
    "optimize_all",
    "optimize_stream",
    "parse_pipeline",
    "pass_instrument",
    "pass_options",
    "plan",
    "prim_func_pass",
    "provide_config_option",
    "provide_pass",
    "read_reproducer",
    "read_run",
    "reduce",
    "reduce_module",
    "register_adapter",
    "register_callable",
    "register_config_option",
    "register_pass",
    "register_plugin",
    "register_property",
    "replay",
    "rest_of",
    "run",
    "stress",
    "to_tvm",
    "unregister_callable",
    "unregister_pass",
    "view",
    "waiting_for",
    "with_locations",
]
