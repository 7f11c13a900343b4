"""Instruments that come with apass: timing, printing and dumping; for `PassContext(instruments=[...])`."""

from apass.instruments.dump_ir import DumpIR
from apass.instruments.print_changed import PrintChanged
from apass.instruments.printing import (
    PassPrintingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIRAfter,
    PrintIRBefore,
)
from apass.instruments.remarks import RemarksInstrument, render_remarks
from apass.instruments.timing import PassTiming, PassTimingInstrument, render_timings

__all__ = [
    "DumpIR",
    "PassPrintingInstrument",
    "PassTiming",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintChanged",
    "PrintIRAfter",
    "PrintIRBefore",
    "RemarksInstrument",
    "render_remarks",
    "render_timings",
]
