"""`learn_pipelines`: the pipelines that help most modules, from results."""

import math
from collections.abc import Mapping
from typing import Final

__all__ = ["Table", "learn_pipelines"]

Table = Mapping[str, Mapping[str, float]]
"""For each pipeline, its value by module, relative to the baseline: 0.9 is 10% less."""

MOST: Final = 45
"""Pipelines that are learned by default."""


def learn_pipelines(table: Table, most: int = MOST) -> list[str]:
    """Return the pipelines that together lower the values most, the most useful first.

    Each is the one that lowers the geometric mean over the modules of their best values so far most: the greedy
    algorithm, whose result is at least 63% of the best possible gain, because the gain is submodular. If no pipeline
    lowers it any more, the rest covers the modules once more. A pipeline that was not tried for a module gains nothing
    there.

    Source: Nemhauser, Wolsey and Fisher, "An analysis of approximations for maximizing submodular set functions"
    (1978).

    Parameters:
        table: the values.
        most: the number of pipelines.

    >>> learn_pipelines({"A": {"x": 0.9, "y": 0.9}, "B": {"x": 0.8, "y": 1.0}, "C": {"y": 0.7}}, most=3)
    ['C', 'B', 'A']

    """
    logs = {pipeline: {name: math.log(value) for name, value in row.items()} for pipeline, row in table.items()}
    best: dict[str, float] = {}
    chosen: list[str] = []
    while len(chosen) < most and logs:
        gains = {
            pipeline: sum(max(0.0, best.get(name, 0.0) - value) for name, value in row.items())
            for pipeline, row in logs.items()
        }
        # Of equal gains the shorter pipeline, then the alphabet: the order of the table is that of tasks.
        pipeline = min(gains, key=lambda text: (-gains[text], len(text), text))
        if gains[pipeline] > 0:
            chosen.append(pipeline)
            for name, value in logs.pop(pipeline).items():
                best[name] = min(best.get(name, 0.0), value)
        elif best:
            best = {}
        else:
            break
    return chosen
