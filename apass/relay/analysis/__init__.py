"""Analyses of Relay programs that do not change them: `relay.analysis`."""

from apass.relay.analysis.annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from apass.relay.analysis.calibration import get_calibration_data
from apass.relay.analysis.call_graph import CallGraph
from apass.relay.analysis.count_layers import count_layers
from apass.relay.analysis.feature import Feature, detect_feature
from apass.relay.analysis.fused import extract_fused_functions
from apass.relay.analysis.mac_count import get_total_mac_number
from apass.relay.analysis.queries import (
    check_basic_block_normal_form,
    check_constant,
    post_order_visit,
    search_fc_transpose,
)
from apass.relay.analysis.used import all_dtypes, list_op_freqs, list_op_types
from apass.relay.analysis.well_formed import well_formed, what_is_ill_formed
from apass.relay.ir.variables import all_type_vars, all_vars, bound_type_vars, bound_vars, free_type_vars, free_vars
from apass.relay.type_inference.kinds import check_kind
from apass.relay.type_inference.unmatched_cases import unmatched_cases

__all__ = [
    "AnnotatedRegion",
    "AnnotatedRegionSet",
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "count_layers",
    "detect_feature",
    "extract_fused_functions",
    "free_type_vars",
    "free_vars",
    "get_calibration_data",
    "get_total_mac_number",
    "list_op_freqs",
    "list_op_types",
    "post_order_visit",
    "search_fc_transpose",
    "unmatched_cases",
    "well_formed",
    "what_is_ill_formed",
]
