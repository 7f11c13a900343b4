"""Instruments that come with apass: timing, printing and dumping; for `PassContext(instruments=[...])`."""

from apass.instruments.dump_ir import DumpIR
from apass.instruments.honest_change import HonestChangeInstrument
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
from apass.instruments.verify import VerifyInstrument

__all__ = [
    "DumpIR",
    "HonestChangeInstrument",
    "PassPrintingInstrument",
    "PassTiming",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintChanged",
    "PrintIRAfter",
    "PrintIRBefore",
    "RemarksInstrument",
    "VerifyInstrument",
    "render_remarks",
    "render_timings",
]
