"""`ScopeBuilder`: the name of TVM's `relay.scope_builder`."""

from apass.relay.ir.scope_builder import ScopeBuilder

__all__ = ["ScopeBuilder"]
