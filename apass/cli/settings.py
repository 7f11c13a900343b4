"""The options of a context, and the context that they describe."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from apass.cli.completion import complete_pass, complete_pipeline
from apass.cli.panels import PIPELINE, RECORD, REPRODUCE, RUN, VERIFY
from apass.concurrency.interleaving import Schedule
from apass.core.config import find_option
from apass.core.context import PassContext
from apass.core.named_callables import find_callable
from apass.core.pass_factories import known_names, load_providers
from apass.core.run_settings import RunSettings
from apass.core.store import Store
from apass.errors import ConfigTypeError, InputError, UnknownPassError, did_you_mean
from apass.external.answers.recorder import AnswerRecorder
from apass.external.answers.replayer import AnswerReplayer
from apass.passes.base import Pass
from apass.util.checks import is_seconds
from apass.util.typed_values import Bare, read, type_name

__all__ = [
    "AllowOption",
    "ConfigOptions",
    "ContextOptions",
    "PipelineOption",
    "ReplayOptions",
    "SelectionOptions",
    "UnknownAnswers",
    "UnknownAnswersOption",
    "check_pass_names",
    "make_context",
    "schedule_text",
    "seconds_of",
]

PipelineOption = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        "-p",
        metavar="PIPELINE",
        help="Use these passes, such as 'A,Repeat{times=3}(B,C)', or those in a file: @pipeline.txt "
        r"\[that of the format, which `apass plan` shows].",
        rich_help_panel=PIPELINE,
        autocompletion=complete_pipeline,
    ),
]
LevelOption = Annotated[
    int,
    typer.Option("--opt-level", "-O", min=0, help="Run the passes of this level and below.", rich_help_panel=PIPELINE),
]
DisableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--disable",
        metavar="NAME",
        help="Skip this pass.",
        rich_help_panel=PIPELINE,
        autocompletion=complete_pass,
    ),
]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="NAME",
        help="Run this pass regardless of its level.",
        rich_help_panel=PIPELINE,
        autocompletion=complete_pass,
    ),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="KEY=VALUE", help="Set a config option of the passes.", rich_help_panel=PIPELINE),
]
DeadlineOption = Annotated[
    float | None,
    typer.Option(
        "--deadline",
        metavar="SECONDS",
        help="Fail the passes that have not ended after this time.",
        rich_help_panel=RUN,
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Verify after each change, and report mistakes in passes with their place.",
        rich_help_panel=VERIFY,
    ),
]


class UnknownAnswers(StrEnum):
    """What a question does in a replay that has no recorded answer."""

    ERROR = "error"
    """It raises an error."""
    ASK = "ask"
    """It is asked."""


AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="NAME",
        help="Allow what the folder reaches outside of the module: an option, such as 'xdsl.apply-pdl{pdl_file}', a "
        "pass or a config option; repeat it for several.",
    ),
]
"""What of a reproducer may reach outside of the module."""

UnknownAnswersOption = Annotated[
    UnknownAnswers,
    typer.Option(
        "--unknown-answers",
        help="Fail at a question that has no recorded answer, or ask it.",
        rich_help_panel=RECORD,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """The options that select passes; a dataclass for `with_options`."""

    opt_level: LevelOption = 2
    """The level of the context."""
    disable: DisableOption = None
    """Names of passes that are skipped."""
    require: RequireOption = None
    """Names of passes that run regardless of their level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOptions(SelectionOptions):
    """The options that select passes, and set config options."""

    config: ConfigOption = None
    """Config options of the passes, each as KEY=VALUE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(ConfigOptions):
    """The options that select passes, set config options, and replay answers."""

    replay_answers: Annotated[
        Path | None,
        typer.Option(
            "--replay-answers",
            metavar="DIR",
            help="Give the answers that --record wrote to DIR, instead of asking services and helpers.",
            rich_help_panel=RECORD,
        ),
    ] = None
    unknown_answers: UnknownAnswersOption = UnknownAnswers.ERROR
    """What a question does that has no recorded answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions(ReplayOptions):
    """All options of the context."""

    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            metavar="SEED[:FUNCTIONS]",
            help="Draw the order of the steps of concurrent bodies from a seed, as `apass stress` prints it.",
            rich_help_panel=REPRODUCE,
        ),
    ] = None
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="DIR",
            help="Write the answers of services, helpers, analyses and measurements to DIR, for --replay-answers.",
            rich_help_panel=RECORD,
        ),
    ] = None
    deadline: DeadlineOption = None
    """Seconds for the passes of all models; None for no limit."""
    debug: DebugOption = False
    """Whether to look for mistakes in passes."""


def make_context(
    options: SelectionOptions,
    pipelines: Iterable[Pass[Any]],
    instruments: Iterable[object] = (),
    store: Store | None = None,
) -> PassContext:
    """Return the context that the options describe, for running `pipelines`.

    Raises:
        UnknownPassError: if `--disable` or `--require` name a pass that is neither in the pipelines nor registered.
        UnknownConfigError, ConfigTypeError: if a `--config` is unknown, or its value has the wrong type.
        InputError: if a `--config` is not KEY=VALUE.
        AnswersError: if the recorded answers cannot be read.

    """
    # A command may lack some of the options; they have their defaults.
    options = ContextOptions(**{field.name: getattr(options, field.name) for field in fields(options)})
    passes, disabled, required = list(pipelines), options.disable or [], options.require or []
    folder = options.replay_answers
    check_pass_names("--disable", disabled, passes)
    check_pass_names("--require", required, passes)
    answers = None if folder is None else AnswerReplayer(folder, unknown=options.unknown_answers.value)
    given = [*instruments, *_recorder(options.record, answers), *_debugger(options.debug)]
    if answers is not None:
        given.append(answers)
    if options.schedule is not None:
        given.append(RunSettings(schedule=_schedule(options.schedule)))
    return PassContext(
        opt_level=options.opt_level,
        disabled_pass=disabled,
        required_pass=required,
        instruments=given,
        config=dict(_config_item(text) for text in options.config or []),
        store=store,
        deadline=seconds_of("--deadline", options.deadline),
    )


def _recorder(folder: Path | None, replayed: AnswerReplayer | None) -> Iterator[object]:
    """Iterate over the instrument of `--record`, if it is given."""
    if folder is not None:
        # Answers that a replay does not know are added to its own folder.
        yield AnswerRecorder(
            folder, extend=replayed is not None and replayed.path.parent.absolute() == folder.absolute()
        )


def _debugger(is_on: bool) -> Iterator[object]:
    """Iterate over the instrument of `--debug`, if it is given."""
    if is_on:
        # Few runs look for mistakes.
        from apass.instruments.debug.instrument import DebugInstrument

        yield DebugInstrument()


def schedule_text(schedule: Schedule) -> str:
    """Return a schedule as `--schedule` reads it."""
    functions = "" if schedule.functions is None else f":{','.join(schedule.functions)}"
    return f"{schedule.seed}{functions}"


def _schedule(text: str) -> Schedule:
    seed, colon, functions = text.partition(":")
    try:
        return Schedule(int(seed), tuple(filter(None, functions.split(","))) if colon else None)
    except ValueError:
        raise InputError(f"--schedule must be SEED or SEED:FUNCTION,FUNCTION, got {text!r}") from None


def seconds_of(option: str, value: float | None) -> float | None:
    """Return a time limit.

    Raises:
        InputError: if it is not a positive number of seconds.

    """
    if value is not None and not is_seconds(value):
        raise InputError(f"{option} must be a positive number of seconds, got {value!r}")
    return value


def check_pass_names(option: str, names: Iterable[str], pipelines: Iterable[Pass[Any]]) -> None:
    """Check that each name is that of a pipeline's pass or a registered pass.

    Raises:
        UnknownPassError: if a name is unknown; the message suggests the nearest name.

    """
    names_in_pipelines = {name for pipeline in pipelines for name in _names(pipeline)}
    for name in names:
        candidates = {*names_in_pipelines, *known_names()}
        if name not in candidates:
            # Importing the providers is slow, so it is done only for a name that is not registered yet.
            load_providers()
            candidates |= {*known_names()}
        if name not in candidates:
            listing, lister = "expected one of ", "`apass passes`"
            hint = did_you_mean(name, candidates, listing=listing, lister=lister, has_prefix=True)
            raise UnknownPassError(f"{option}: no pass is named {name!r}{hint}")


def _names(pass_: Pass[Any]) -> Iterator[str]:
    yield pass_.info.name
    for inner in chain.from_iterable(pass_.branches()):
        yield from _names(inner)


def _config_item(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--config must be KEY=VALUE, got {text!r}")
    option = find_option(key)
    try:
        return key, read(Bare(value), option.type, find_callable)
    except TypeError as error:
        # An error in a part of the value (an element of a list) does not name the type of the option itself.
        expected = f"expected {type_name(option.type)}"
        message = str(error) if str(error).startswith(f"{expected},") else f"{expected} ({error})"
        raise ConfigTypeError(f"--config {key}: {message}") from None
