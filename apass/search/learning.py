"""`learn_pipelines`: the pipelines that help most modules, from results."""

from collections.abc import Mapping
from typing import Final

__all__ = ["Table", "learn_pipelines"]

Table = Mapping[str, Mapping[str, float]]
"""For each pipeline, its value by module, relative to the baseline: 0.9 is 10% less."""

MOST: Final = 45
"""Pipelines that are learned by default."""


def learn_pipelines(table: Table, most: int = MOST) -> list[str]:
    """Return the pipelines that together lower the values most, the most useful first.

    Each is the one that lowers the sum over the modules of their best values so far most: the greedy algorithm, whose
    result is at least 63% of the best possible gain, because the gain is submodular. A pipeline that was not tried for
    a module gains nothing there.

    Source: Nemhauser, Wolsey and Fisher, "An analysis of approximations for maximizing submodular set functions"
    (1978).

    Parameters:
        table: the values.
        most: the number of pipelines.

    >>> learn_pipelines({"A": {"x": 0.9, "y": 0.9}, "B": {"x": 0.8, "y": 1.0}, "C": {"y": 0.7}}, most=2)
    ['C', 'B']

    """
    best: dict[str, float] = {}
    chosen: list[str] = []
    while len(chosen) < most:
        gains = {
            pipeline: sum(max(0.0, best.get(module, 1.0) - value) for module, value in values.items())
            for pipeline, values in table.items()
            if pipeline not in chosen
        }
        # Of equal gains the shorter pipeline, then the alphabet: the order of the table is that of tasks.
        pipeline = min(gains, key=lambda name: (-gains[name], len(name), name), default=None)
        if pipeline is None or gains[pipeline] <= 0:
            break
        chosen.append(pipeline)
        for module, value in table[pipeline].items():
            best[module] = min(best.get(module, 1.0), value)
    return chosen
