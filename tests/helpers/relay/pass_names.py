"""The names of all registered passes of Relay, and of those with common laws."""

import apass
from apass.core.pass_factories import find_factory

NAMES = sorted(
    name for name in apass.list_passes() if find_factory(name).__module__.startswith("apass.relay.transform.")
)

EXACT = [name for name in NAMES if name not in ("FirstOrderGradient", "SimplifyFCTranspose", "ToMixedPrecision")]
"""The passes that keep types and values.

FirstOrderGradient adds gradients to the result. SimplifyFCTranspose takes other parameters, and needs the names of the
weights that the program transposes. ToMixedPrecision rounds, and takes no calls of global functions.
"""
COMPOSABLE = [name for name in EXACT if name != "MergeCompilerRegions"]
"""The passes that accept the result of any other. MergeCompilerRegions needs the marks as AnnotateTarget set them."""
