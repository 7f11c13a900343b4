"""The ways to watch a run of `apass opt`, each with the options that ask for it."""

from typing import Final

from apass.cli.instruments.base import Run, Watch, WatchOptions
from apass.cli.instruments.dump import DumpingOptions
from apass.cli.instruments.logs import LogOptions
from apass.cli.instruments.memory import MemoryOptions
from apass.cli.instruments.opt_bisect import BisectingOptions
from apass.cli.instruments.otel import OtelOptions
from apass.cli.instruments.print_ir import PrintingOptions
from apass.cli.instruments.progress import ProgressOptions
from apass.cli.instruments.remarks import RemarksOptions
from apass.cli.instruments.report import ReportOptions
from apass.cli.instruments.reproducer import ReproducingOptions
from apass.cli.instruments.statistics import StatisticsOptions
from apass.cli.instruments.timing import TimingOptions
from apass.cli.instruments.trace import TracingOptions
from apass.cli.instruments.verify import VerifyingOptions

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
