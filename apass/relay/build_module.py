"""What TVM has in `relay.build_module` and is of use without a compiler."""

from apass.relay.bind import bind_params_by_name
from apass.relay.executor import create_executor

__all__ = ["bind_params_by_name", "create_executor"]
