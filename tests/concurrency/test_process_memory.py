"""The memory of processes."""

import sys

import pytest

from apass.concurrency.processes.memory import PeakMeter

MEGABYTES = 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not reset the peak of a process")
def test_peak_counts_memory_that_was_freed() -> None:
    meter = PeakMeter()
    assert len(bytearray(64 * MEGABYTES)) == 64 * MEGABYTES
    assert 60 * MEGABYTES < meter.used() < 80 * MEGABYTES
    assert PeakMeter().used() < 4 * MEGABYTES
