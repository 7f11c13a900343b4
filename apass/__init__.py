"""apass: compiler passes that wait. TVM's pass infrastructure on structured concurrency, over any IR."""

from apass import instruments
from apass.batch.journal import Journal
from apass.batch.optimize import Outcome, optimize_all, optimize_stream
from apass.combinators import If, Race, Repeat
from apass.core.adapter import IRAdapter, adapter_for, register_adapter
from apass.core.analysis import Analysis, analysis
from apass.core.config import register_config_option
from apass.core.context import PassContext
from apass.core.diagnostics import Diagnostic, DiagnosticContext, DiagnosticLevel, Span
from apass.core.info import PassInfo
from apass.core.instrument import PassInstrument, pass_instrument
from apass.core.position import Position
from apass.core.remarks import Remark, RemarkKind
from apass.core.run import Run, current_run
from apass.debugging.bisect import Bisected, bisect
from apass.debugging.reduce import Reduced, reduce
from apass.debugging.replay import Replay, Verdict, replay
from apass.errors import (
    AdapterError,
    AnalysisError,
    ApassError,
    BisectError,
    BudgetExceededError,
    CircuitOpenError,
    ConfigTypeError,
    CyclicRequirementError,
    DiagnosticError,
    ExecutorError,
    HelperError,
    JournalError,
    JournalWarning,
    MissingExtraError,
    PassCancelledError,
    PassContextError,
    PassDefinitionError,
    PassRegistrationError,
    PassResultError,
    PassTimeoutError,
    PipelineCycleError,
    PipelineSyntaxError,
    RemoteError,
    ReproducerError,
    ResumeError,
    ServiceTimeoutError,
    UnknownConfigError,
    UnknownPassError,
    UnmatchedPassNameWarning,
    VerifyError,
    WorkerLostError,
)
from apass.instruments.reproducer.folder import Failure, Reproducer, read_reproducer
from apass.passes.base import FunctionPass, ModulePass, Pass, PrimFuncPass
from apass.passes.decorators import function_pass, module_pass, prim_func_pass
from apass.passes.print_ir import PrintIR
from apass.passes.registry import get_pass, list_passes, register_pass, unregister_pass
from apass.passes.sequential import Sequential
from apass.pipelines.parser import parse_pipeline
from apass.pipelines.plan import Decision, PlannedPass, plan
from apass.pipelines.resume import rest_of
from apass.sync import run
from apass.waits import waiting_for

__all__ = [
    "AdapterError",
    "Analysis",
    "AnalysisError",
    "ApassError",
    "BisectError",
    "Bisected",
    "BudgetExceededError",
    "CircuitOpenError",
    "ConfigTypeError",
    "CyclicRequirementError",
    "Decision",
    "Diagnostic",
    "DiagnosticContext",
    "DiagnosticError",
    "DiagnosticLevel",
    "ExecutorError",
    "Failure",
    "FunctionPass",
    "HelperError",
    "IRAdapter",
    "If",
    "Journal",
    "JournalError",
    "JournalWarning",
    "MissingExtraError",
    "ModulePass",
    "Outcome",
    "Pass",
    "PassCancelledError",
    "PassContext",
    "PassContextError",
    "PassDefinitionError",
    "PassInfo",
    "PassInstrument",
    "PassRegistrationError",
    "PassResultError",
    "PassTimeoutError",
    "PipelineCycleError",
    "PipelineSyntaxError",
    "PlannedPass",
    "Position",
    "PrimFuncPass",
    "PrintIR",
    "Race",
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
    "Sequential",
    "ServiceTimeoutError",
    "Span",
    "UnknownConfigError",
    "UnknownPassError",
    "UnmatchedPassNameWarning",
    "Verdict",
    "VerifyError",
    "WorkerLostError",
    "adapter_for",
    "analysis",
    "bisect",
    "current_run",
    "function_pass",
    "get_pass",
    "instruments",
    "list_passes",
    "module_pass",
    "optimize_all",
    "optimize_stream",
    "parse_pipeline",
    "pass_instrument",
    "plan",
    "prim_func_pass",
    "read_reproducer",
    "reduce",
    "register_adapter",
    "register_config_option",
    "register_pass",
    "replay",
    "rest_of",
    "run",
    "unregister_pass",
    "waiting_for",
]
