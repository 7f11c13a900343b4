"""FoldScaleAxis: scales of channels go into the weights, backward first; then the weights are constants again."""

from apass.passes.registry import provide_pass
from apass.passes.sequential import Sequential
from apass.relay.ir.module import IRModule
from apass.relay.transform.fold_constant import FoldConstant
from apass.relay.transform.fold_scale_axis.backward import BackwardFoldScaleAxis
from apass.relay.transform.fold_scale_axis.forward import ForwardFoldScaleAxis

__all__ = ["FoldScaleAxis"]


@provide_pass("FoldScaleAxis")
def FoldScaleAxis() -> Sequential[IRModule]:
    """Fold scales of channels into the weights of convolutions, backward and then forward, and fold the constants."""
    return Sequential([BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant()], name="FoldScaleAxis")
