"""The instruments of apass, such as timing, printing and dumping.

Install them with `PassContext(instruments=[...])`.
"""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.core.instrument import ObservingInstrument, PassWork
    from apass.core.questions import Answer, Question
    from apass.core.run_settings import RunSettings
    from apass.executors.instrument_twins import PortableInstrument
    from apass.external.answers.recorder import AnswerRecorder
    from apass.external.answers.replayer import AnswerReplayer
    from apass.instruments.debug.instrument import DebugInstrument
    from apass.instruments.dump.flat import DumpIR
    from apass.instruments.dump.tree import DumpTree
    from apass.instruments.event_stream import EventStream, events
    from apass.instruments.exec_on_change import ExecOnChange
    from apass.instruments.honest_change import HonestChangeInstrument
    from apass.instruments.logs import LoggingInstrument
    from apass.instruments.memory import PassMemory, PassMemoryInstrument
    from apass.instruments.opt_bisect import BisectInstrument, BisectStep, parse_intervals
    from apass.instruments.pause.breakpoints import (
        Breakpoint,
        ChangedBreakpoint,
        ErrorBreakpoint,
        FunctionBreakpoint,
        ModuleBreakpoint,
        PassBreakpoint,
        TextBreakpoint,
        WaitBreakpoint,
        parse_breakpoint,
    )
    from apass.instruments.pause.instrument import PauseInstrument
    from apass.instruments.pause.pause import Pause, PauseStage
    from apass.instruments.print_changed import PrintChanged
    from apass.instruments.print_ir import (
        PassPrintingInstrument,
        PrintAfterAll,
        PrintBeforeAll,
        PrintIRAfter,
        PrintIRBefore,
        PrintIRFailed,
    )
    from apass.instruments.provenance.history import FunctionHistory, NodeHistory, Provenance, Touch
    from apass.instruments.provenance.instrument import ProvenanceInstrument
    from apass.instruments.provenance.locations import LocationCheckInstrument, PassLocations
    from apass.instruments.remarks import RemarksInstrument, render_remarks
    from apass.instruments.report.instrument import ReportInstrument
    from apass.instruments.reproducer.instrument import ReproducerInstrument
    from apass.instruments.snapshots import SnapshotInstrument
    from apass.instruments.statistics import PassStatistic, StatisticsInstrument
    from apass.instruments.support.events import Event, EventInstrument, EventKind
    from apass.instruments.timing.functions import FunctionTimingInstrument
    from apass.instruments.timing.passes import PassTimingInstrument
    from apass.instruments.timing.tables import (
        FunctionTiming,
        PassTiming,
        render_functions,
        render_modules,
        render_passes,
        render_timings,
        timings_as_json,
        timings_by_module,
        timings_by_pass,
    )
    from apass.instruments.trace.instrument import TraceInstrument
    from apass.instruments.verify import VerifyInstrument
    from apass.instruments.verify_outputs import VerifyOutputsInstrument
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.core.instrument": ["ObservingInstrument", "PassWork"],
            "apass.executors.instrument_twins": ["PortableInstrument"],
            "apass.core.questions": ["Answer", "Question"],
            "apass.core.run_settings": ["RunSettings"],
            "apass.external.answers.recorder": ["AnswerRecorder"],
            "apass.external.answers.replayer": ["AnswerReplayer"],
            "apass.instruments.debug.instrument": ["DebugInstrument"],
            "apass.instruments.dump.flat": ["DumpIR"],
            "apass.instruments.dump.tree": ["DumpTree"],
            "apass.instruments.event_stream": ["EventStream", "events"],
            "apass.instruments.exec_on_change": ["ExecOnChange"],
            "apass.instruments.honest_change": ["HonestChangeInstrument"],
            "apass.instruments.logs": ["LoggingInstrument"],
            "apass.instruments.memory": ["PassMemory", "PassMemoryInstrument"],
            "apass.instruments.opt_bisect": ["BisectInstrument", "BisectStep", "parse_intervals"],
            "apass.instruments.pause.breakpoints": [
                "Breakpoint",
                "ChangedBreakpoint",
                "ErrorBreakpoint",
                "FunctionBreakpoint",
                "ModuleBreakpoint",
                "PassBreakpoint",
                "TextBreakpoint",
                "WaitBreakpoint",
                "parse_breakpoint",
            ],
            "apass.instruments.pause.instrument": ["PauseInstrument"],
            "apass.instruments.pause.pause": ["Pause", "PauseStage"],
            "apass.instruments.print_changed": ["PrintChanged"],
            "apass.instruments.print_ir": [
                "PassPrintingInstrument",
                "PrintAfterAll",
                "PrintBeforeAll",
                "PrintIRAfter",
                "PrintIRBefore",
                "PrintIRFailed",
            ],
            "apass.instruments.provenance.history": ["FunctionHistory", "NodeHistory", "Provenance", "Touch"],
            "apass.instruments.provenance.instrument": ["ProvenanceInstrument"],
            "apass.instruments.provenance.locations": ["LocationCheckInstrument", "PassLocations"],
            "apass.instruments.remarks": ["RemarksInstrument", "render_remarks"],
            "apass.instruments.report.instrument": ["ReportInstrument"],
            "apass.instruments.reproducer.instrument": ["ReproducerInstrument"],
            "apass.instruments.snapshots": ["SnapshotInstrument"],
            "apass.instruments.statistics": ["PassStatistic", "StatisticsInstrument"],
            "apass.instruments.support.events": ["Event", "EventInstrument", "EventKind"],
            "apass.instruments.timing.functions": ["FunctionTimingInstrument"],
            "apass.instruments.timing.passes": ["PassTimingInstrument"],
            "apass.instruments.timing.tables": [
                "FunctionTiming",
                "PassTiming",
                "render_functions",
                "render_modules",
                "render_passes",
                "render_timings",
                "timings_as_json",
                "timings_by_module",
                "timings_by_pass",
            ],
            "apass.instruments.trace.instrument": ["TraceInstrument"],
            "apass.instruments.verify": ["VerifyInstrument"],
            "apass.instruments.verify_outputs": ["VerifyOutputsInstrument"],
        },
    )

__all__ = [
    "Answer",
    "AnswerRecorder",
    "AnswerReplayer",
    "BisectInstrument",
    "BisectStep",
    "Breakpoint",
    "ChangedBreakpoint",
    "DebugInstrument",
    "DumpIR",
    "DumpTree",
    "ErrorBreakpoint",
    "Event",
    "EventInstrument",
    "EventKind",
    "EventStream",
    "ExecOnChange",
    "FunctionBreakpoint",
    "FunctionHistory",
    "FunctionTiming",
    "FunctionTimingInstrument",
    "HonestChangeInstrument",
    "LocationCheckInstrument",
    "LoggingInstrument",
    "ModuleBreakpoint",
    "NodeHistory",
    "ObservingInstrument",
    "PassBreakpoint",
    "PassLocations",
    "PassMemory",
    "PassMemoryInstrument",
    "PassPrintingInstrument",
    "PassStatistic",
    "PassTiming",
    "PassTimingInstrument",
    "PassWork",
    "Pause",
    "PauseInstrument",
    "PauseStage",
    "PortableInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintChanged",
    "PrintIRAfter",
    "PrintIRBefore",
    "PrintIRFailed",
    "Provenance",
    "ProvenanceInstrument",
    "Question",
    "RemarksInstrument",
    "ReportInstrument",
    "ReproducerInstrument",
    "RunSettings",
    "SnapshotInstrument",
    "StatisticsInstrument",
    "TextBreakpoint",
    "Touch",
    "TraceInstrument",
    "VerifyInstrument",
    "VerifyOutputsInstrument",
    "WaitBreakpoint",
    "events",
    "parse_breakpoint",
    "parse_intervals",
    "render_functions",
    "render_modules",
    "render_passes",
    "render_remarks",
    "render_timings",
    "timings_as_json",
    "timings_by_module",
    "timings_by_pass",
]
