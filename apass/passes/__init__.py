"""The public building blocks of passes.

They are base classes, decorators, the registry, `Sequential` and the combinators.
"""
