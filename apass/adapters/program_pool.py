"""The pool of processes that run passes, and what they report to the context."""

import sys
from time import perf_counter
from typing import Final

from apass.adapters.programs import RUN_FLAGS, Answer, Request, failure, messages, run_request
from apass.concurrency.limits import usable_cores
from apass.core.context import PassContext
from apass.core.diagnostics import Diagnostic, DiagnosticLevel
from apass.core.remarks import Remark
from apass.core.run import current_module_name
from apass.external import Policy, Service

__all__ = ["POOL", "PROCESSES", "ask", "prints_ir", "report", "run_version"]

PROCESSES: Final = usable_cores()
"""How many processes run at a time in an event loop: one for each core."""

_MAX_PRINTED: Final = 10_000
"""Maximum number of characters in a note with what a pass printed."""

_SEVERITIES: Final = {"warning": DiagnosticLevel.WARNING, "note": DiagnosticLevel.NOTE}

POOL: Final = Service[Request, Answer](
    # A replay runs the program again: it is the pass, and no helper of the pass.
    run_request,
    Policy(timeout=None, concurrency=PROCESSES),
    name="llvm",
    is_recorded=False,
)
"""The pool of processes. Each request has a time limit of its own."""


async def ask(request: Request, ctx: PassContext, source: str) -> Answer:
    """Return the answer of a process of the pool.

    Parameters:
        request: the run.
        ctx: the context of the pass.
        source: the name of the module's file, for messages; empty if it has none.

    Raises:
        AdapterError: if the program reports an error.
        HelperError: if it crashes, or exceeds the time limit.

    """
    start = perf_counter()
    try:
        answer = await POOL.ask(request)
    finally:
        ctx.report_work(f"{request.program.name} process", start, perf_counter())
    if answer.status:
        raise failure(answer, request, source)
    return answer


def run_version(version: str) -> str:
    """Return the version of a program with the options of each run.

    Cached results depend on both.
    """
    return " ".join([version, *(RUN_FLAGS.get() or ())])


def prints_ir() -> bool:
    """Return whether the command line lets each run print modules.

    Such a run must not dump the module into a folder, which would redirect what it prints.
    """
    return any("print" in flag for flag in RUN_FLAGS.get() or ())


def report(printed: str, ctx: PassContext, label: str, origin: str) -> None:
    """Emit what a program printed as diagnostics and remarks.

    Parameters:
        printed: what it printed.
        ctx: the context of the pass.
        label: the name of the pass.
        origin: what remarks name as their pass: `MLIR` or `LLVM`.

    """
    found, others = messages(printed)
    is_native = RUN_FLAGS.get() is not None
    if is_native:
        sys.stderr.write(printed)
    for message in found:
        if message.severity == "remark":
            ctx.remark(Remark.analysis(origin, message.text))
        elif not is_native:
            _emit(ctx, label, _SEVERITIES.get(message.severity, DiagnosticLevel.WARNING), message.text)
    if others and not is_native:
        _emit(ctx, label, DiagnosticLevel.NOTE, others[:_MAX_PRINTED])


def _emit(ctx: PassContext, label: str, level: DiagnosticLevel, text: str) -> None:
    message = f"pass {label!r}: {text}"
    ctx.diag_ctx.emit(Diagnostic(level, message, None, label, None, current_module_name()))
