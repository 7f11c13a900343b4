"""The panels of `--help`, which group options by purpose, in their order."""

from typing import Final

__all__ = ["MEASURE", "OUTPUT", "PANELS", "PIPELINE", "PRINT", "RECORD", "REPRODUCE", "RUN", "VERIFY"]

PIPELINE: Final = "Pipeline"
"""Which passes run, with which options."""
OUTPUT: Final = "Output"
"""Where results go, and what the command prints about them."""
PRINT: Final = "Print"
"""The IR around passes."""
MEASURE: Final = "Measure"
"""Times, memory and counters."""
VERIFY: Final = "Verify"
"""Checks of modules and passes."""
REPRODUCE: Final = "Reproduce"
"""Failures and wrong results."""
RECORD: Final = "Record"
"""What passes did and which answers they got, for later."""
RUN: Final = "Run"
"""Concurrency, limits and storage."""

PANELS: Final = (PIPELINE, OUTPUT, PRINT, MEASURE, VERIFY, REPRODUCE, RECORD, RUN)
"""The panels that several commands have."""
