"""Instruments that come with apass: timing, printing, dumping and so on; for `PassContext(instruments=[...])`."""

from apass.instruments.dump_ir import DumpIR
from apass.instruments.dump_tree import DumpTree
from apass.instruments.function_timing import FunctionTimingInstrument
from apass.instruments.honest_change import HonestChangeInstrument
from apass.instruments.logs import LoggingInstrument
from apass.instruments.memory import PassMemory, PassMemoryInstrument
from apass.instruments.opt_bisect import BisectInstrument, BisectStep, parse_intervals
from apass.instruments.print_changed import PrintChanged
from apass.instruments.printing import (
    PassPrintingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIRAfter,
    PrintIRBefore,
)
from apass.instruments.remarks import RemarksInstrument, render_remarks
from apass.instruments.report import ReportInstrument
from apass.instruments.reproducing import ReproducerInstrument
from apass.instruments.statistics import PassStatistic, StatisticsInstrument
from apass.instruments.timing import PassTimingInstrument
from apass.instruments.trace import TraceInstrument
from apass.instruments.verify import VerifyInstrument
from apass.timings import (
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

__all__ = [
    "BisectInstrument",
    "BisectStep",
    "DumpIR",
    "DumpTree",
    "FunctionTiming",
    "FunctionTimingInstrument",
    "HonestChangeInstrument",
    "LoggingInstrument",
    "PassMemory",
    "PassMemoryInstrument",
    "PassPrintingInstrument",
    "PassStatistic",
    "PassTiming",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintChanged",
    "PrintIRAfter",
    "PrintIRBefore",
    "RemarksInstrument",
    "ReportInstrument",
    "ReproducerInstrument",
    "StatisticsInstrument",
    "TraceInstrument",
    "VerifyInstrument",
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
