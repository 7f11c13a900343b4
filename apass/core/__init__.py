"""The environment of a pass.

It consists of pass info, context, run, hooks, config options, diagnostics and adapters.
"""
