"""`RunSettings`: what instruments change of the runner."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import ClassVar, final

from apass.concurrency.interleaving import Schedule
from apass.core.instrument import instrument_name
from apass.core.questions import AnswerSource

__all__ = ["RunSettings"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What the instruments of a context change of the runner.

    An instrument gives it in an attribute `run_settings`. It is read when the context is created. Settings are also an
    instrument themselves, without hooks: for example, `PassContext(instruments=[RunSettings(strict=True)])`.
    """

    name: ClassVar[str] = "RunSettings"
    """The name of the instrument."""

    strict: bool = False
    """Whether to compute the analyses again that passes claim to preserve, and to check the reports of passes in place.
    """
    schedule: Schedule | None = None
    """The order of the steps of concurrent bodies; None is the order of the event loop."""
    answers: AnswerSource | None = None
    """Gives answers in place of services, helpers, analyses and measurements; None to ask these."""

    @property
    def run_settings(self) -> "RunSettings":
        """The settings."""
        return self

    def for_worker(self) -> Callable[[], object]:
        """Return a function that makes them in a worker (see `PortableInstrument`)."""
        return partial(RunSettings, strict=self.strict, schedule=self.schedule, answers=self.answers)

    def without(self, others: "RunSettings") -> "RunSettings":
        """Return these settings without those that `others` make as well."""
        return RunSettings(
            strict=self.strict and not others.strict,
            schedule=self.schedule if others.schedule is None else None,
            answers=self.answers if others.answers is None else None,
        )

    @classmethod
    def of(cls, instruments: Iterable[object]) -> "RunSettings":
        """Return the settings that instruments make together.

        Raises:
            TypeError: if two instruments set the schedule, or the answers.

        """
        merged, owners = cls(), dict[str, object]()
        for instrument in instruments:
            settings: object = getattr(instrument, "run_settings", None)
            if not isinstance(settings, RunSettings):
                continue
            for field in fields(settings):
                value = getattr(settings, field.name)
                if value in (None, False):
                    continue
                other = owners.setdefault(field.name, instrument)
                # Any number may be strict. Of two schedules, or two sources of answers, only one can hold.
                if other is not instrument and field.name != "strict":
                    names = f"{instrument_name(other)!r} and {instrument_name(instrument)!r}"
                    raise TypeError(f"the instruments {names} both set {field.name!r}; remove one of them")
                merged = replace(merged, **{field.name: value})
        return merged
