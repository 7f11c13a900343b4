"""`apass diff`: compares two recorded runs, or two pipelines on some models."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from apass.batch.formats import ModelFormat, format_of, suffixes
from apass.cli.command import Command
from apass.cli.completion import complete_pipeline
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import BackendOption, check_backend, run_until_interrupted
from apass.cli.exit_status import FAILED
from apass.cli.inputs import Job, find_models, plan_jobs
from apass.cli.options import with_options
from apass.cli.output_files import check_file, write_file
from apass.cli.panels import OUTPUT, PIPELINE
from apass.cli.planning import pipeline_text, read_pipeline
from apass.cli.settings import ReplayOptions, make_context
from apass.cli.terminal import FormatOption, OutputFormat, echo, print_json
from apass.cli.user_modules import LoadOption
from apass.debugging.run_diff.diff import RunDiff
from apass.debugging.run_diff.page import render_page
from apass.debugging.run_diff.pipelines import diff_pipelines
from apass.debugging.run_diff.reading import read_run
from apass.debugging.run_diff.text import SAMPLES_NOTE, render_text
from apass.errors import InputError
from apass.runner.error_policy import errors_of_passes

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)

_EXAMPLES: Final = (
    "Examples:",
    "apass diff base.html new.html",
    "apass diff base/ new/ --fail-above 10%",
    "apass diff models/*.onnx -p onnx.Default -p 'onnx.Inline,onnx.Simplify'",
)
"""Shown above the options; one line for each."""
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%", re.ASCII)
_CHECKS: Final = "Checks"
"""The panel of `--help` that lists the options which decide about the exit status."""


@app.command("diff", cls=Command, epilog="\n\n".join(_EXAMPLES))
@with_options(ReplayOptions)
def diff(
    *,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN1 RUN2 | MODEL...",
            help="Two reports, folders of reports, or journals; with -p, models.",
        ),
    ],
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            "-p",
            metavar="PIPELINE",
            help="Run this pipeline on the models; given twice, for the first and the second run.",
            rich_help_panel=PIPELINE,
            autocompletion=complete_pipeline,
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds",
            min=1,
            help="Measure each pipeline this many times; verdicts about times need 5.",
            rich_help_panel=PIPELINE,
        ),
    ] = 5,
    options: tuple[ReplayOptions],
    fail_above: Annotated[
        str | None,
        typer.Option(
            "--fail-above",
            metavar="PERCENT",
            help="Exit with 1 on a failure, or if a size or a time that is no noise grew by more, such as 10%.",
            rich_help_panel=_CHECKS,
        ),
    ] = None,
    fail_different: Annotated[
        bool,
        typer.Option(
            "--fail-different", help="Exit with 1 if a result differs, is missing or failed.", rich_help_panel=_CHECKS
        ),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page", metavar="FILE.html", help="Write the comparison as an HTML page.", rich_help_panel=OUTPUT
        ),
    ] = None,
    output_format: FormatOption = OutputFormat.TEXT,
    backend: BackendOption = "asyncio",
    _load: LoadOption = None,
) -> None:
    """Compare two recorded runs, or two pipelines on some models.

    Exit status: 0, also if the runs differ; 1 if --fail-above or --fail-different find a regression; 2 if an input is
    wrong; 4 if --page cannot be written.
    """
    with errors_as_lines(), warnings_as_lines():
        check_backend(backend)
        bound = None if fail_above is None else _bound(fail_above)
        if page is not None:
            check_file("--page", page)
        if pipeline is None:
            if len(inputs) != 2:
                raise InputError(
                    f"expected two runs, got {len(inputs)}; to run two pipelines on models, give -p for each of them"
                )
            result = RunDiff.of(*map(read_run, inputs))
        else:
            result = _run_pipelines(inputs, pipeline, rounds, options[0], backend)
        regressions = [
            item
            for item in result.regressions(bound or 0.0, allow_different=not fail_different)
            # Without --fail-above, sizes and times are not checked.
            if bound is not None or (fail_different and item.kind not in ("size", "time"))
        ]
        if page is not None:
            write_file("--page", page, render_page(result, regressions))
        if output_format is OutputFormat.JSON:
            found = [{"kind": item.kind, "text": item.text} for item in regressions]
            print_json({**result.as_json(), "regressions": found})
        else:
            echo(render_text(result, regressions))
            if bound is not None and result.total is None:
                echo("times are not checked: no times are recorded of a module that finished in both runs")
            elif bound is not None and not result.can_judge_times:
                echo(f"times are not checked: {SAMPLES_NOTE}")
        if regressions:
            raise typer.Exit(FAILED)


def _bound(text: str) -> float:
    """Return a percentage as a fraction.

    Raises:
        InputError: if the text is not one.

    """
    match = _PERCENT.fullmatch(text.strip())
    if match is None or len(text) > 20:
        raise InputError(f"--fail-above must be a percentage such as 10%, got {text!r}")
    return float(match[1]) / 100


def _run_pipelines(
    models: Sequence[str], pipelines: Sequence[str], rounds: int, options: ReplayOptions, backend: str
) -> RunDiff:
    """Run two pipelines on models, and return the comparison."""
    if len(pipelines) != 2:
        raise InputError(f"expected -p twice, for the first and the second run, got it {len(pipelines)} times")
    jobs = plan_jobs(find_models(models, suffixes()), None, in_place=True)
    texts = [pipeline_text(text, [job.suffix for job in jobs]) for text in pipelines]
    formats = {job.suffix: format_of(job.source, None, ",".join(texts)) for job in jobs}
    passes = [read_pipeline(text) for text in texts]
    context = make_context(options, passes)
    console = Console(stderr=True)
    status = console.status("reading the models") if console.is_terminal else None
    # Filled by `work`: `run_until_interrupted` returns no value.
    results: list[RunDiff] = []

    def report(name: str) -> None:
        if status is not None:
            status.update(f"running both pipelines on {name}")

    def sizes(mod: Any) -> Mapping[str, int]:
        # A format counts the nodes of modules of other formats too.
        return {"nodes": formats[jobs[0].suffix].size(mod)}

    async def work() -> None:
        async with context:
            modules = _modules(jobs, formats)
            with errors_of_passes():
                results.append(await diff_pipelines(modules, *passes, rounds=rounds, sizes=sizes, report=report))

    if status is not None:
        status.start()
    try:
        run_until_interrupted(work, backend)
    finally:
        if status is not None:
            status.stop()
    return results[0]


def _modules(jobs: Sequence[Job], formats: dict[str, ModelFormat]) -> Iterator[tuple[str, Any]]:
    """Iterate over the models by name, of which one is in memory at a time."""
    for job in jobs:
        yield job.name, formats[job.suffix].load(job.source)
