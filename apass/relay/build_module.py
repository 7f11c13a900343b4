"""The names of TVM's `relay.build_module` that need no compiler."""

from apass.relay.interpreter.executor import create_executor
from apass.relay.rewrite.bind import bind_params_by_name

__all__ = ["bind_params_by_name", "create_executor"]
