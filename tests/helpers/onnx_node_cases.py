"""The cases of the onnx test generator."""

import pickle
import warnings
from functools import cache

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from tests.helpers.kept_files import kept

__all__ = ["node_cases"]


@cache
def node_cases() -> tuple[TestCase, ...]:
    """Return the cases for every operator, in the order of the generator.

    They are kept for each version of onnx and numpy: the generator takes six seconds in each process, because it
    computes the expected outputs, and reading them takes 0.2.
    """
    data = kept(f"node_cases-onnx_{onnx.__version__}-numpy_{np.__version__}.pickle", _generated)
    cases: tuple[TestCase, ...] = pickle.loads(data)
    return cases


def _generated() -> bytes:
    with warnings.catch_warnings():
        # The cases use numpy at the limits of its domain: infinities, and casts that overflow.
        warnings.simplefilter("ignore")
        return pickle.dumps(tuple(collect_testcases(None)))
