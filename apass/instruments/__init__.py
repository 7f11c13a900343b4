"""Instruments that come with apass: timing, printing and dumping; for `PassContext(instruments=[...])`."""

from apass.instruments.dump_ir import DumpIR
from apass.instruments.printing import (
    PassPrintingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIRAfter,
    PrintIRBefore,
)
from apass.instruments.timing import PassTiming, PassTimingInstrument, render_timings

__all__ = [
    "DumpIR",
    "PassPrintingInstrument",
    "PassTiming",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintIRAfter",
    "PrintIRBefore",
    "render_timings",
]
