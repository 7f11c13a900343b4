"""`Scope`: one entry of a context, a link of the chain that a task holds."""

import warnings
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, Self, TypeVar, final

from anyio import Lock

from apass.concurrency.interleaving import make_scheduler
from apass.concurrency.scheduler import LoopScheduler
from apass.core.analysis_manager import AnalysisManager
from apass.core.deadline import Deadline
from apass.core.hooks import Hooks
from apass.core.pass_factories import known_names, load_providers
from apass.core.pass_info import AnyPass
from apass.core.questions import AnswerCursor
from apass.core.run_settings import RunSettings
from apass.core.store import FaultTolerantStore
from apass.errors import UnmatchedPassNameWarning, did_you_mean
from apass.util.identity_cache import IdentityCache

__all__ = ["ContextState", "Scope"]


class SelectsPasses(Protocol):
    """What a scope reads of its context. A Protocol, because the context lies below."""

    @property
    def required_pass(self) -> frozenset[str]:
        """Names of passes that a Sequential runs whatever their level."""
        ...

    @property
    def disabled_pass(self) -> frozenset[str]:
        """Names of passes that a Sequential leaves out."""
        ...


ContextT = TypeVar("ContextT", bound=SelectsPasses)


@final
class ContextState:
    """The runner's state of one `PassContext`, shared by all tasks that enter it."""

    __slots__ = (
        "analyses",
        "answers",
        "chosen_instruments",
        "default_instruments",
        "hooks",
        "override_lock",
        "scheduler",
        "scopes",
        "settings",
        "settled",
        "store",
    )

    def __init__(
        self,
        hooks: Hooks,
        max_concurrency: int | None,
        store: FaultTolerantStore | None,
        settings: RunSettings,
    ) -> None:
        self.hooks: Hooks = hooks
        """The hooks of the instruments in force; `override_instruments` replaces them."""
        self.chosen_instruments: tuple[object, ...] = ()
        """The instruments of the user."""
        self.default_instruments: tuple[object, ...] = ()
        """The instruments of every context, for example of the debug mode."""
        self.settings: Final = settings
        """What the instruments of the user change of the runner."""
        self.answers: AnswerCursor | None = None if settings.answers is None else settings.answers.cursor()
        """Gives recorded answers; None if questions are asked."""
        self.override_lock: Lock | None = None
        """Held while `override_instruments` runs; a lock belongs to one event loop, so that it is not kept."""
        # A set rather than a count: adding and discarding is atomic, and several threads may enter one context.
        self.scopes: Final[set[object]] = set()
        """The entries of the context that have not been left; the instruments are entered if there is one."""
        self.scheduler: Final[LoopScheduler] = make_scheduler(max_concurrency, settings.schedule)
        """The slots and the time slice that the function bodies of the context share."""
        self.store: Final = store
        """Where results are kept beyond the context; None if nowhere."""
        self.analyses: Final = AnalysisManager(store=store, strict=settings.strict)
        """The results of the analyses that passes requested."""
        self.settled: Final = IdentityCache[tuple[object, ...]](held=16)
        """The idempotent passes that returned a module."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope(Generic[ContextT]):
    """One entry of a context.

    The runner passes it down, which is cheaper than looking up the current one.
    """

    ctx: ContextT
    """The context that is current."""
    state: ContextState
    """What the runner keeps for `ctx`."""
    parent: Self | None
    """The scope that becomes current again when this one is left."""
    task: int | None = None
    """The id of the task that entered the context; None for a default context, which no task enters."""
    deadline: Deadline | None = None
    """The earliest deadline of this context and of those around it; None if there is none."""
    is_plain: bool = True
    """Whether a pass may run without a look at store and deadline, as there are none."""
    passes: set[str] = field(default_factory=set[str])
    """Names of the passes seen so far, if `records_passes`."""

    records_passes: bool = False
    """Whether this context, or one around it, names passes to require or to disable."""

    expected: set[str] = field(default_factory=set[str])
    """Names that `warn_unmatched` does not report, although no pass may have them."""

    def record_pass(self, pass_: AnyPass) -> None:
        """Record that a pass was seen, for `warn_unmatched`."""
        if self.records_passes:
            self.passes.update(pass_.all_names)

    def warn_unmatched(self) -> None:
        """Warn about names in `disabled_pass` and `required_pass` that no pass has.

        The passes that ran and the registered ones count.
        """
        parameters = {"disabled_pass": self.ctx.disabled_pass, "required_pass": self.ctx.required_pass}
        if not any(parameters.values()):
            return
        # Cheap names first: `load_providers` imports every plug-in.
        known = {*self.passes, *known_names()}
        if not frozenset().union(*parameters.values()) <= known | self.expected:
            load_providers()  # a pass of apass counts as registered before its module is imported
            known.update(known_names())
        for parameter, names in parameters.items():
            for name in sorted(names - known - self.expected):
                near = did_you_mean(name, known)
                message = f"{parameter} names {name!r}, but no pass of that name ran or is registered{near}"
                warnings.warn(message, UnmatchedPassNameWarning, stacklevel=3)
