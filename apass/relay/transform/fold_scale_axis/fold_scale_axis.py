"""FoldScaleAxis: fold channel scales into weights, backward, then forward."""

from apass.passes.registry import provide_pass
from apass.passes.sequential import Sequential
from apass.relay.ir.module import IRModule
from apass.relay.transform.fold_constant import FoldConstant
from apass.relay.transform.fold_scale_axis.backward import BackwardFoldScaleAxis
from apass.relay.transform.fold_scale_axis.forward import ForwardFoldScaleAxis

__all__ = ["FoldScaleAxis"]


@provide_pass("FoldScaleAxis")
def FoldScaleAxis() -> Sequential[IRModule]:
    """Fold channel scales into convolution weights in both directions, then constants."""
    return Sequential([BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant()], name="FoldScaleAxis")
