"""Models and tools for tests and benchmarks: `relay.testing`."""

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
    resnet,
    squeezenet,
    synthetic,
    temp_op_attr,
    vgg,
)
from apass.relay.testing.init import create_workload
from apass.relay.testing.tools import count_ops, rand, run_infer_type, run_opt_pass

__all__ = [
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
    "mlp",
    "mobilenet",
    "rand",
    "resnet",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "temp_op_attr",
    "vgg",
]
