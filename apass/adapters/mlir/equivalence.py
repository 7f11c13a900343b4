"""Proofs that functions of arithmetic are equivalent, by the encoding of xDSL.

`mlir-opt` prints both modules in the generic form, which xDSL reads. The dialects `arith`, `func` and `scf.if` have the
same meaning there.
"""

from importlib.util import find_spec

from apass.adapters.mlir.module import MLIRModule
from apass.adapters.programs import MLIR_OPT, Request, failure, run_request
from apass.core.ir_plugin import Proof
from apass.external.solver import prove_in_worker

__all__ = ["prove_equal"]


async def prove_equal(before: MLIRModule, after: MLIRModule) -> Proof:
    """Search for a proof that the public functions of two modules are equivalent.

    Raises:
        MissingExtraError: if z3 is not installed.

    """
    if find_spec("xdsl") is None:
        return Proof(None, "proofs of MLIR need xDSL: pip install 'apass[xdsl]'")
    texts: list[bytes] = []
    for mod in (before, after):
        request = Request(MLIR_OPT.find(), ("--mlir-print-op-generic",), mod.text.encode("utf-8", "surrogatepass"))
        answer = await run_request(request)
        if answer.status:
            return Proof(None, str(failure(answer, request, mod.source)).partition("\n")[0])
        texts.append(answer.data)
    return await prove_in_worker("apass.adapters.xdsl.equivalence", *texts)
