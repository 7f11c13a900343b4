"""Observers of a run of `apass opt`, each with the options that enable it."""

from typing import Final

from apass.cli.instruments.base import DataOptions, ObserverOptions, RunObserver, RunPlan
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

__all__ = ["OBSERVER_OPTIONS", "DataOptions", "ObserverOptions", "RunObserver", "RunPlan"]

OBSERVER_OPTIONS: Final[tuple[type[ObserverOptions], ...]] = (
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
"""The options of all observers, in the order of `--help`. Their instruments are called in this order."""
