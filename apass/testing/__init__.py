"""The testing kit for authors of passes, adapters and instruments."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.testing.adapter_laws import check_adapter
    from apass.testing.event_loops import idle_clock, interleave, scheduled
    from apass.testing.pass_laws import check_pass
    from apass.testing.running import assert_rewrites, assert_unchanged, parse_module, run_pass
    from apass.testing.trace import FUNCTION_HOOKS, PASS_HOOKS, RecordingInstrument, assert_trace
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.testing.adapter_laws": ["check_adapter"],
            "apass.testing.event_loops": ["idle_clock", "interleave", "scheduled"],
            "apass.testing.pass_laws": ["check_pass"],
            "apass.testing.running": ["assert_rewrites", "assert_unchanged", "parse_module", "run_pass"],
            "apass.testing.trace": ["FUNCTION_HOOKS", "PASS_HOOKS", "RecordingInstrument", "assert_trace"],
        },
    )

__all__ = [
    "FUNCTION_HOOKS",
    "PASS_HOOKS",
    "RecordingInstrument",
    "assert_rewrites",
    "assert_trace",
    "assert_unchanged",
    "check_adapter",
    "check_pass",
    "idle_clock",
    "interleave",
    "parse_module",
    "run_pass",
    "scheduled",
]
