"""`Function`: the name of TVM's `relay.function`."""

from apass.relay.ir.function import Function

__all__ = ["Function"]
