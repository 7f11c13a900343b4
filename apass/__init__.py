"""Async compiler passes over any IR: TVM's pass infrastructure with concurrency."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass import batch as batch
    from apass import debugging as debugging
    from apass import errors as errors
    from apass import executors as executors
    from apass import external as external
    from apass import instruments as instruments
    from apass import plugins as plugins
    from apass import relay as relay
    from apass import stores as stores
    from apass import testing as testing
    from apass.adapters.tvm.bridge import from_tvm, to_tvm
    from apass.batch.optimize import optimize_all
    from apass.batch.stream import optimize_stream
    from apass.concurrency.measuring import MeasurementLane
    from apass.core.adapter import IRAdapter, adapter_for, register_adapter
    from apass.core.analysis import Analysis, analysis
    from apass.core.config import ConfigOption, register_config_option
    from apass.core.context import PassContext, waiting_for
    from apass.core.diagnostic_context import DiagnosticContext
    from apass.core.diagnostics import Diagnostic, DiagnosticLevel, Span
    from apass.core.instrument import PassInstrument, pass_instrument
    from apass.core.ir_plugin import IRPlugin, register_plugin
    from apass.core.named_callables import list_callables, register_callable, unregister_callable
    from apass.core.pass_info import PassInfo
    from apass.core.position import Position
    from apass.core.properties import Property, list_properties, register_property
    from apass.core.remarks import Remark, RemarkKind
    from apass.core.run import Run, current_module_name, current_run
    from apass.core.view import diff, view
    from apass.debugging.bisect import bisect
    from apass.debugging.reduce import reduce, reduce_module
    from apass.debugging.replay import replay
    from apass.debugging.run_diff.pipelines import diff_pipelines
    from apass.debugging.stress import stress
    from apass.errors import ApassError, DiagnosticError
    from apass.external.answers.asking import answer_of
    from apass.instruments.reproducer.folder import read_reproducer
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
    from apass.passes.registry import get_pass, list_passes, pass_options, register_pass, unregister_pass
    from apass.passes.repeat import Repeat
    from apass.passes.sequential import Sequential
    from apass.passes.while_ import While
    from apass.pipelines.cache_explanation import explain_cache
    from apass.pipelines.extensions import extend_pipeline
    from apass.pipelines.parser import parse_pipeline
    from apass.pipelines.plan import Decision, PlannedPass, plan
    from apass.pipelines.resume import rest_of
    from apass.sync import run
    from apass.util.version import __version__ as __version__
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass": [
                "batch",
                "debugging",
                "errors",
                "executors",
                "external",
                "instruments",
                "plugins",
                "relay",
                "stores",
                "testing",
            ],
            "apass.adapters.tvm.bridge": ["from_tvm", "to_tvm"],
            "apass.batch.optimize": ["optimize_all"],
            "apass.batch.stream": ["optimize_stream"],
            "apass.concurrency.measuring": ["MeasurementLane"],
            "apass.core.adapter": ["IRAdapter", "adapter_for", "register_adapter"],
            "apass.core.analysis": ["Analysis", "analysis"],
            "apass.core.config": ["ConfigOption", "register_config_option"],
            "apass.core.context": ["PassContext", "waiting_for"],
            "apass.core.diagnostic_context": ["DiagnosticContext"],
            "apass.core.diagnostics": ["Diagnostic", "DiagnosticLevel", "Span"],
            "apass.core.pass_info": ["PassInfo"],
            "apass.core.instrument": ["PassInstrument", "pass_instrument"],
            "apass.core.ir_plugin": ["IRPlugin", "register_plugin"],
            "apass.core.named_callables": ["list_callables", "register_callable", "unregister_callable"],
            "apass.core.position": ["Position"],
            "apass.core.properties": ["Property", "list_properties", "register_property"],
            "apass.core.remarks": ["Remark", "RemarkKind"],
            "apass.core.run": ["Run", "current_module_name", "current_run"],
            "apass.core.view": ["diff", "view"],
            "apass.debugging.bisect": ["bisect"],
            "apass.debugging.reduce": ["reduce", "reduce_module"],
            "apass.debugging.replay": ["replay"],
            "apass.debugging.run_diff.pipelines": ["diff_pipelines"],
            "apass.debugging.stress": ["stress"],
            "apass.errors": ["ApassError", "DiagnosticError"],
            "apass.external.answers.asking": ["answer_of"],
            "apass.instruments.reproducer.folder": ["read_reproducer"],
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
            "apass.passes.registry": ["get_pass", "list_passes", "pass_options", "register_pass", "unregister_pass"],
            "apass.passes.repeat": ["Repeat"],
            "apass.passes.sequential": ["Sequential"],
            "apass.passes.while_": ["While"],
            "apass.pipelines.cache_explanation": ["explain_cache"],
            "apass.pipelines.extensions": ["extend_pipeline"],
            "apass.pipelines.parser": ["parse_pipeline"],
            "apass.pipelines.plan": ["Decision", "PlannedPass", "plan"],
            "apass.pipelines.resume": ["rest_of"],
            "apass.sync": ["run"],
            "apass.util.version": ["__version__"],
        },
        elsewhere=["apass.plugins", "apass.instruments", "apass.debugging", "apass.batch", "apass.errors"],
    )

__all__ = [
    "Analysis",
    "ApassError",
    "ConfigOption",
    "Decision",
    "Diagnostic",
    "DiagnosticContext",
    "DiagnosticError",
    "DiagnosticLevel",
    "First",
    "FunctionPass",
    "IRAdapter",
    "IRPlugin",
    "If",
    "InPlacePass",
    "MeasurementLane",
    "MinimumPoint",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PassInstrument",
    "PassOptions",
    "PlannedPass",
    "Position",
    "PrimFuncPass",
    "PrintIR",
    "Property",
    "Race",
    "Remark",
    "RemarkKind",
    "Repeat",
    "Run",
    "Sequential",
    "Span",
    "While",
    "adapter_for",
    "analysis",
    "answer_of",
    "bisect",
    "current_module_name",
    "current_run",
    "diff",
    "diff_pipelines",
    "explain_cache",
    "extend_pipeline",
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
    "read_reproducer",
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
]
