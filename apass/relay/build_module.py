"""What TVM has in `relay.build_module` and is of use without a compiler: `bind_params_by_name`."""

from apass.relay.bind import bind_params_by_name

__all__ = ["bind_params_by_name"]
