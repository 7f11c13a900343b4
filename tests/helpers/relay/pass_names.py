"""The names of all registered passes of Relay."""

import apass
from apass.core.pass_factories import find_factory

NAMES = sorted(name for name in apass.list_passes() if find_factory(name).__module__.startswith("apass.relay."))
