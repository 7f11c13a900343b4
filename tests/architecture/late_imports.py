"""The modules of the package that import others late, in a function.

The list may only shrink. Every import counts for the floors and for cycles, wherever it is.
"""

from typing import Final

__all__ = ["LATE_IMPORTS"]

LATE_IMPORTS: Final[dict[str, tuple[str, ...]]] = {
    "adapters.llvm.plugin": ("adapters.llvm.costs", "adapters.llvm.outputs"),
    "adapters.mlir.conversions": (
        "adapters.llvm",
        "adapters.xdsl",
    ),
    "adapters.onnx.plugin": (
        "adapters.onnx.costs",
        "adapters.onnx.outputs",
    ),
    "adapters.onnx.passes.constant_part": ("adapters.onnx.outputs.evaluation",),
    "adapters.tvm.adapter": (
        "adapters.tvm.nodes",
        "adapters.tvm.reductions",
    ),
    "adapters.tvm.conversions": ("adapters.llvm", "adapters.onnx"),
    "adapters.tvm.plugin": ("adapters.tvm.costs", "adapters.tvm.outputs"),
    "adapters.xdsl.plugin": (
        "adapters.xdsl.outputs",
        "external.solver",
    ),
    "batch.stream": (
        "core.view",
        "display.blocks",
        "display.highlight",
    ),
    "cli.app": ("util.version",),
    "cli.cache_location": ("stores.redis",),
    "cli.commands.debug": ("cli.debugger.main",),
    "cli.commands.opt": (
        "cli.cache_location",
        "cli.compare",
        "cli.file_workers",
        "cli.json_lines",
        "cli.resume",
        "cli.split_files",
    ),
    "cli.commands.serve": (
        "cli.cache_location",
        "cli.instruments.otel_provider",
        "service",
        "service.http.catalogue",
        "service.server",
    ),
    "cli.commands.submit": ("cli.json_lines",),
    "cli.commands.xdsl_opt": ("cli.xdsl_main",),
    "cli.completion": (
        "batch.formats",
        "passes.registry",
    ),
    "cli.file_workers": ("cli.cache_location",),
    "cli.instruments.otel": (
        "cli.instruments.otel_provider",
        "instruments.otel",
    ),
    "cli.instruments.progress": (
        "instruments.live_view",
        "instruments.progress",
    ),
    "cli.instruments.reproducer": ("debugging.reduce",),
    "cli.journal": ("batch.journal",),
    "cli.server_option": ("service.client",),
    "cli.server_tokens": ("service.http.auth",),
    "cli.settings": ("instruments.debug.instrument",),
    "concurrency.measuring": ("concurrency.processes.pinned",),
    "core.context": ("display.blocks",),
    "core.diagnostic_context": ("display.highlight",),
    "core.diagnostics": ("display.highlight",),
    "core.displayed": ("core.view",),
    "core.remarks": ("display.blocks",),
    "display.view": ("display.terminal",),
    "instruments.remarks": ("display.blocks",),
    "passes.base": ("passes.tree",),
    "passes.combinator": ("passes.tree",),
    "passes.conditional": ("passes.tree",),
    "passes.sequential": ("passes.tree",),
    "relay.backend": (
        "relay.backend.onnx.model",
        "relay.backend.onnx.session",
    ),
    "relay.frontend": ("relay.frontend.onnx.importer",),
    "relay.integration.adapter": ("relay.testing.programs",),
    "relay.integration.onnx_plugin": (
        "adapters.onnx",
        "adapters.onnx.outputs",
        "adapters.onnx.plugin",
        "relay.backend",
        "relay.backend.onnx.model",
        "relay.frontend",
    ),
    "relay.integration.plugin": ("external.solver",),
    "service.optimizer": ("service.sql_jobs",),
    "service.work": (
        "instruments.report.instrument",
        "instruments.report.page",
    ),
    "testing.pytest_plugin": (
        "errors",
        "testing.cases",
        "testing.event_loops",
    ),
}
"""What each module imports late, by names below `apass`."""
