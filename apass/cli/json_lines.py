"""`apass opt --output-format json`: one object for each model, as a line of JSON."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from apass.cli.errors import errors_in, kind_of, notes_of, text_of
from apass.cli.instruments import RunObserver
from apass.cli.optimize import JobResult
from apass.cli.output_files import OutputError
from apass.cli.streams import DataOutput, ModelStreams
from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Diagnostic
from apass.errors import OutputsChangedError

__all__ = ["JsonLines", "error_as_json"]


class JsonLines(RunObserver):
    """Writes the result of each model when it is finished.

    Each line is written at once, so that an interrupted run leaves complete lines. Other characters than ASCII are
    escaped. If standard output cannot be written, the run continues without it.

    Parameters:
        output: where the lines are written.
        diagnostics: what the passes emit.
        streams: replaces the temporary files of `-`.
        more: returns further members for a model.

    """

    def __init__(
        self,
        output: DataOutput,
        diagnostics: DiagnosticContext,
        streams: ModelStreams,
        more: Callable[[JobResult], Mapping[str, Any]] | None = None,
    ) -> None:
        self._output = output
        self._diagnostics = diagnostics
        self._streams = streams
        self._more = more
        self._seen = 0
        self._by_model: Final[defaultdict[str, list[Diagnostic]]] = defaultdict(list)
        self._error: OSError | None = None

    def result(self, result: JobResult) -> None:
        """Write the line of a model."""
        if self._error is not None:
            return
        try:
            self._output.write(json.dumps(self._as_json(result)).encode() + b"\n")
        except OSError as error:
            self._error = error

    def finish(self, show: Callable[[str], None]) -> None:
        """Raise if a line could not be written.

        Raises:
            BrokenPipeError: if the reader of a pipe has exited.
            OutputError: if the output could not be written for another reason.

        """
        if isinstance(self._error, BrokenPipeError):
            raise self._error
        if self._error is not None:
            raise OutputError(f"cannot write the output: {self._error.strerror}")

    def _as_json(self, result: JobResult) -> dict[str, Any]:
        job, error = result.job, result.error
        return {
            "model": job.name,
            "source": self._streams.shown(job.source),
            "target": None if error is not None else self._streams.shown(job.target),
            "outcome": _outcome(result),
            "seconds": round(result.seconds, 6),
            "nodes": {"before": result.before, "after": result.after},
            "bytes": {"before": result.bytes_before, "after": result.bytes_after},
            "changed_by": dict(result.changed_by),
            "cached": dict(result.cached),
            "remark": result.remark,
            "outputs": _outputs(result),
            "error": None if error is None else error_as_json(error),
            "diagnostics": [_diagnostic_as_json(item, self._streams) for item in self._diagnostics_of(job.name)],
            **({} if self._more is None else self._more(result)),
        }

    def _diagnostics_of(self, name: str) -> list[Diagnostic]:
        """Return the diagnostics about a model."""
        diagnostics = self._diagnostics.diagnostics
        for item in diagnostics[self._seen :]:
            if item.module is not None:
                self._by_model[item.module].append(item)
        self._seen = len(diagnostics)
        return self._by_model.pop(name, [])


def error_as_json(error: BaseException) -> dict[str, Any]:
    """Return type, message and notes of an error, and the errors of a group."""
    return {
        "type": kind_of(error),
        "message": text_of(error),
        "notes": notes_of(error),
        "errors": [error_as_json(inner) for inner in errors_in(error)],
    }


def _outputs(result: JobResult) -> str | None:
    """Return the word for the compared outputs; None if they were not to be compared."""
    if isinstance(result.error, OutputsChangedError):
        return "changed"
    if result.is_unverified:
        return "not verified"
    return "equal" if result.remark.startswith("outputs equal") and result.error is None else None


def _outcome(result: JobResult) -> str:
    if result.error is not None:
        return "failed"
    if result.is_earlier:
        return "earlier"
    return "changed" if result.changed else "unchanged"


def _diagnostic_as_json(diagnostic: Diagnostic, streams: ModelStreams) -> dict[str, Any]:
    span = diagnostic.span
    return {
        "severity": diagnostic.level.name.lower(),
        "message": diagnostic.message,
        "pass": diagnostic.pass_name,
        "function": diagnostic.function,
        "place": None
        if span is None
        else {
            "source": streams.renamed(span.source_name),
            "line": span.line,
            "column": span.column,
            "end_line": span.end_line,
            "end_column": span.end_column,
        },
    }
