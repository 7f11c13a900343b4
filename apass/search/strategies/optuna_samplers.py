"""The samplers of Optuna as strategies: `tpe`, `gp`, `cmaes`, `nsga2`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from apass.errors import MissingExtraError
from apass.search.strategies.strategy import StrategySetup
from apass.search.template import Domain, Number, Point

try:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, NSGAIISampler, TPESampler
    from optuna.study import StudyDirection
    from optuna.trial import Trial, TrialState, create_trial
except ImportError as error:
    raise MissingExtraError(f"this strategy needs Optuna: pip install 'apass[search]' ({error})") from error

__all__ = ["OptunaStrategy", "cmaes", "gp", "nsga2", "tpe"]

MOST_STARTS: Final = 10
"""Random points before the model of TPE is used, and at most a fifth of the trials."""


class OptunaStrategy:
    """A sampler of Optuna, which sees a parameter for each choice.

    Source: Akiba et al., "Optuna: a next-generation hyperparameter optimization framework" (2019). Its trials are in
    memory; the study of apass holds them on disk.

    Parameters:
        setup: the space, the seed and the number of objectives.
        sampler: returns the sampler.

    """

    def __init__(self, setup: StrategySetup, sampler: "Callable[[StrategySetup], BaseSampler]") -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = setup.space
        self._study = optuna.create_study(
            directions=[StudyDirection.MINIMIZE] * setup.objectives, sampler=sampler(setup)
        )
        self._trials: dict[Point, list[Trial]] = {}

    def ask(self) -> Point:
        """Return the point that the sampler proposes.

        Raises:
            MissingExtraError: if the sampler needs a library that is not installed; it is imported late.

        """
        trial = self._study.ask()
        try:
            point = self._space.draw(lambda name, domain: _suggested(trial, name, domain))
        except ImportError as error:
            name = getattr(error, "name", None) or "a library"
            raise MissingExtraError(f"this sampler of Optuna needs {name}: pip install {name} ({error})") from error
        self._trials.setdefault(point, []).append(trial)
        return point

    def tell(self, point: Point, values: Sequence[float] | None) -> None:
        """Give the sampler the values of a point."""
        state = TrialState.FAIL if values is None else TrialState.COMPLETE
        waiting = self._trials.get(point)
        if waiting:
            self._study.tell(waiting.pop(), None if values is None else list(values), state=state)
            if not waiting:
                del self._trials[point]
        elif values is not None:
            named = self._space.named(point)
            self._study.add_trial(
                create_trial(
                    params={name: value for name, (_, value) in named.items()},
                    distributions={name: _distribution(domain) for name, (domain, _) in named.items()},
                    values=list(values),
                )
            )


def _suggested(trial: "Trial", name: str, domain: Domain) -> float:
    value: Any
    if isinstance(domain, tuple):
        # Indices: two alternatives may have the same text.
        value = trial.suggest_categorical(name, range(len(domain)))
    elif domain.is_int:
        value = trial.suggest_int(name, int(domain.low), int(domain.high), log=domain.is_log)
    else:
        value = trial.suggest_float(name, domain.low, domain.high, log=domain.is_log)
    return float(value) if isinstance(domain, Number) and not domain.is_int else int(value)


def _distribution(domain: Domain) -> "BaseDistribution":
    if isinstance(domain, tuple):
        return CategoricalDistribution(range(len(domain)))
    if domain.is_int:
        return IntDistribution(int(domain.low), int(domain.high), log=domain.is_log)
    return FloatDistribution(domain.low, domain.high, log=domain.is_log)


def _tpe(setup: StrategySetup) -> "BaseSampler":
    starts = min(MOST_STARTS, max(1, setup.evaluations // 5))
    # Several candidates are built at once: each counts as a bad one until its value is known.
    return TPESampler(seed=setup.seed, n_startup_trials=starts, constant_liar=True)


def _seeded(sampler: "Callable[..., BaseSampler]", setup: StrategySetup) -> "BaseSampler":
    return sampler(seed=setup.seed)


tpe: Final = partial(OptunaStrategy, sampler=_tpe)
"""The tree-structured Parzen estimator."""
gp: Final = partial(OptunaStrategy, sampler=partial(_seeded, GPSampler))
"""Gaussian processes."""
cmaes: Final = partial(OptunaStrategy, sampler=partial(_seeded, partial(CmaEsSampler, warn_independent_sampling=False)))
"""CMA-ES, for numbers."""
nsga2: Final = partial(OptunaStrategy, sampler=partial(_seeded, NSGAIISampler))
"""NSGA-II, for several objectives."""
