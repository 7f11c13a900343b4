"""What can be found out about a Relay program without changing it: `relay.analysis`."""

from apass.relay.analysis.kinds import check_kind
from apass.relay.analysis.mac_count import get_total_mac_number
from apass.relay.analysis.unmatched_cases import unmatched_cases
from apass.relay.analysis.variables import (
    all_type_vars,
    all_vars,
    bound_type_vars,
    bound_vars,
    free_type_vars,
    free_vars,
)
from apass.relay.analysis.visit import post_order_visit
from apass.relay.analysis.well_formed import well_formed, what_is_ill_formed

__all__ = [
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_kind",
    "free_type_vars",
    "free_vars",
    "get_total_mac_number",
    "post_order_visit",
    "unmatched_cases",
    "well_formed",
    "what_is_ill_formed",
]
