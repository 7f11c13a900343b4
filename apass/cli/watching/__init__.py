"""The ways to watch a run of `apass opt`, each with the options that ask for it."""

from typing import Final

from apass.cli.watching.bisecting import BisectingOptions
from apass.cli.watching.dumping import DumpingOptions
from apass.cli.watching.logs import LogOptions
from apass.cli.watching.memory import MemoryOptions
from apass.cli.watching.otel import OtelOptions
from apass.cli.watching.printing import PrintingOptions
from apass.cli.watching.progress import ProgressOptions
from apass.cli.watching.remarks import RemarksOptions
from apass.cli.watching.report import ReportOptions
from apass.cli.watching.reproducing import ReproducingOptions
from apass.cli.watching.statistics import StatisticsOptions
from apass.cli.watching.timing import TimingOptions
from apass.cli.watching.tracing import TracingOptions
from apass.cli.watching.verifying import VerifyingOptions
from apass.cli.watching.watch import Run, Watch, WatchOptions

__all__ = ["WATCHES", "Run", "Watch", "WatchOptions"]

WATCHES: Final[tuple[type[WatchOptions], ...]] = (
    PrintingOptions,
    TimingOptions,
    MemoryOptions,
    StatisticsOptions,
    TracingOptions,
    OtelOptions,
    ProgressOptions,
    LogOptions,
    RemarksOptions,
    ReportOptions,
    VerifyingOptions,
    ReproducingOptions,
    BisectingOptions,
    DumpingOptions,
)
"""Every way to watch, in the order of `--help`; their instruments are called in this order."""
