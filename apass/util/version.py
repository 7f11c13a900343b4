"""The version of the installed distribution."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__: str = version("apass")
"""The version of apass; reading it takes milliseconds, so few modules import this one."""
