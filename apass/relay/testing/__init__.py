"""Models and helpers for tests and benchmarks: `relay.testing`."""

from apass.relay.testing import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lenet,
    lstm,
    mlp,
    mobilenet,
    nat,
    resnet,
    squeezenet,
    synthetic,
    temp_op_attr,
    vgg,
)
from apass.relay.testing.init import create_workload
from apass.relay.testing.nat import add_nat_definitions, count, make_nat_expr, make_nat_value
from apass.relay.testing.tools import count_ops, rand, run_infer_type, run_opt_pass

__all__ = [
    "add_nat_definitions",
    "count",
    "count_ops",
    "create_workload",
    "dcgan",
    "densenet",
    "dqn",
    "inception_v3",
    "init",
    "layers",
    "lenet",
    "lstm",
    "make_nat_expr",
    "make_nat_value",
    "mlp",
    "mobilenet",
    "nat",
    "rand",
    "resnet",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "temp_op_attr",
    "vgg",
]
