"""Named spaces of pipelines for LLVM, over which a search goes.

A space is the text of a pipeline with holes. `?{1..24}(A|B)` is a sequence of 1 to 24 of these pipelines, each of which
may occur several times. In options, `key=?` is each value of a bool or a Literal, `key=?1..4` an int of a range, and
`key=?(a|b)` one of some values.
"""

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Final

from apass.adapters.llvm.catalogue import PassEntry
from apass.adapters.llvm.opt import find_opt, needed_opt
from apass.adapters.llvm.passes import MANAGERS, PREFIX, identifier_of
from apass.adapters.llvm.passes.table import METHODS
from apass.pipelines.parser import parse_pipeline

__all__ = ["MOST_SMALL", "SEQUENCES", "SMALL", "flags", "phases", "sequences", "size"]

LONGEST: Final = 24
"""Maximum number of passes in a sequence. LLVM's `-Oz` has about 100, but most of them find little to do."""

SAME: Final = """
    add-discriminators adce aggressive-instcombine alignment-from-assumptions always-inline argpromotion attributor bdce
    break-crit-edges simplifycfg callsite-splitting called-value-propagation canonicalize-aliases consthoist constmerge
    coro-cleanup coro-early coro-elide coro-split correlated-propagation cross-dso-cfi deadargelim dce dse reg2mem
    div-rem-pairs early-cse elim-avail-extern ee-instrument float2int forceattrs inline gvn-hoist gvn globaldce
    globalopt globalsplit guard-widening hotcoldsplit ipsccp indvars irce infer-address-spaces inferattrs
    inject-tli-mappings instsimplify instnamer jump-threading lcssa licm libcalls-shrinkwrap
    load-store-vectorizer loop-data-prefetch loop-deletion loop-distribute loop-fusion loop-idiom loop-instsimplify
    loop-interchange loop-load-elim loop-predication loop-rotate loop-simplifycfg loop-simplify loop-sink loop-reduce
    loop-unroll-and-jam loop-unroll loop-vectorize loop-versioning-licm loop-versioning lower-constant-intrinsics
    lower-expect lower-guard-intrinsic lower-matrix-intrinsics lower-widenable-condition memcpyopt mergefunc mergeicmps
    mldst-motion name-anon-globals nary-reassociate newgvn pgo-memop-opt partial-inliner partially-inline-libcalls
    mem2reg reassociate redundant-dbg-inst-elim rewrite-statepoints-for-gc sccp slp-vectorizer sroa scalarizer
    separate-const-offset-from-gep simple-loop-unswitch sink speculative-execution slsr strip-dead-prototypes
    strip-debug-declare strip-nondebug strip tailcallelim mergereturn
"""
"""The actions of CompilerGym (124 passes of LLVM 10) that have the same name today."""

RENAMED: Final[Mapping[str, str]] = {
    "early-cse-memssa": "early-cse{memssa=true}",
    "flattencfg": "flatten-cfg",
    "functionattrs": "function-attrs",
    "instcombine": "instcombine{verify_fixpoint=false}",
    "loop-unswitch": "simple-loop-unswitch{nontrivial=true}",
    "lowerswitch": "lower-switch",
    "post-inline-ee-instrument": "ee-instrument{post_inline=true}",
    "rpo-functionattrs": "rpo-function-attrs",
}
"""The actions that have another name today, or need an option.

By default, the instcombine of a pipeline's text is a test of LLVM: it fails where another iteration would change
something.
"""

GONE: Final[Mapping[str, str]] = {
    "barrier": "the new pass manager needs no barriers",
    "constprop": "instsimplify does the same",
    "die": "dce does the same",
    "insert-gcov-profiling": "it adds code that writes files",
    "ipconstprop": "ipsccp does the same",
    "loop-guard-widening": "guard-widening is for functions and loops",
    "loop-reroll": "LLVM has removed it",
    "loweratomic": "another thread may then see other values",
    "lowerinvoke": "exceptions would end the program",
    "prune-eh": "function-attrs and simplifycfg do the same",
    "sancov": "it adds code that counts",
}
"""The actions that are left out: there is no such pass today, or a program would do something else."""

SMALL: Final = """
    adce aggressive-instcombine bdce called-value-propagation cgscc(argpromotion) cgscc(function-attrs)
    cgscc(inline) constmerge constraint-elimination correlated-propagation dce deadargelim default<O1> default<Os>
    default<Oz> dfa-jump-threading div-rem-pairs dse early-cse early-cse<memssa> elim-avail-extern expand-memcmp
    float2int globaldce globalopt gvn gvn<load-pre;no-split-backedge-load-pre> gvn<no-pre;no-load-pre>
    infer-alignment inferattrs instcombine<no-verify-fixpoint> instsimplify ipsccp jump-threading
    libcalls-shrinkwrap load-store-vectorizer loop(indvars) loop(loop-deletion) loop(loop-idiom)
    loop(loop-idiom,indvars,loop-deletion) loop(loop-instsimplify,loop-simplifycfg) loop(loop-rotate)
    loop(loop-rotate<no-header-duplication>) loop(loop-unroll-full) loop-load-elim loop-mssa(licm)
    loop-mssa(simple-loop-unswitch<trivial>) loop-simplify loop-sink lower-expect mem2reg memcpyopt mergefunc
    mldst-motion mldst-motion<split-footer-bb> nary-reassociate partially-inline-libcalls reassociate
    rpo-function-attrs scc-oz-module-inliner sccp simplifycfg simplifycfg<hoist-common-insts;sink-common-insts>
    simplifycfg<no-keep-loops;hoist-common-insts;sink-common-insts;switch-range-to-icmp;switch-to-arithmetic;switch-to-lookup;forward-switch-cond>
    simplifycfg<no-keep-loops;no-hoist-common-insts;no-sink-common-insts;switch-range-to-icmp>
    simplifycfg<no-keep-loops;speculate-unpredictables;hoist-common-insts;sink-common-insts;bonus-inst-threshold=4>
    simplifycfg<no-keep-loops;switch-to-lookup;forward-switch-cond;bonus-inst-threshold=2>
    simplifycfg<no-speculate-blocks;no-keep-loops;bonus-inst-threshold=0> sink slp-vectorizer slsr
    speculative-execution sroa tailcallelim vector-combine
"""
"""The passes of `size`, in the language of `opt`.

They are those of the best of 87 pipelines that local searches found on 33 programs in C.
"""

OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "default": {"level": "=?(Os|Oz)"},
    "early-cse": {},
    "gvn": {},
    "instcombine": {"max_iterations": "=?1..4", "verify_fixpoint": "=false"},
    "ipsccp": {},
    "licm": {},
    "loop-rotate": {},
    "loop-unroll": {"full_unroll_max": "=?0..8"},
    "mldst-motion": {},
    "simple-loop-unswitch": {},
    "simplifycfg": {"bonus_inst_threshold": "=?0..8"},
    "sroa": {"modify_cfg": ""},
}
"""The passes of `flags`, with the values of some parameters; "" leaves one out.

Other parameters take both values if they are switches, and are left out if not. sroa accepts `modify_cfg`, its default,
or `preserve_cfg`.
"""

FIRST: Final = "llvm.always-inline"
"""The first pass of a sequence.

Calls of functions with `alwaysinline` shall be inlined, and clang does so at every level. Without it, a sequence would
seem better than one that inlines them.
"""

MOST_SMALL: Final = 70
"""Maximum number of passes in a sequence of `size`: LLVM's `-Oz` has about as many."""

SEQUENCES: Final = "sequences.txt"
"""The file with the sequences that were learned."""


def phases() -> str:
    """Return the space of sequences of passes that the literature uses.

    It has the actions of CompilerGym's environment for LLVM that are passes of the installed `opt` or, without it, of
    llvmlite.

    Raises:
        MissingExtraError: if APASS_LLVM_OPT names no program.
        AdapterError: if the program lists no passes.

    """
    opt = find_opt()
    if opt is None:
        return _sequence(PREFIX + name for name, _ in METHODS.values() if name in {*SAME.split(), *RENAMED})
    known = {entry.name for entry in opt.catalogue.passes}
    texts = [*SAME.split(), *RENAMED.values()]
    return _sequence(PREFIX + text for text in texts if text.partition("{")[0] in known)


def size() -> str:
    """Return the space of sequences of passes that make programs small.

    It has fewer names than `phases`, with options, and longer sequences. `-Oz` and its like are steps too.

    Raises:
        MissingExtraError: if there is no `opt`.
        AdapterError: if the program lists no passes.

    """
    known = {entry.name for entry in needed_opt().catalogue.passes}
    known |= {*MANAGERS}
    # The parameters in angle brackets are no names of passes.
    names = {text: set(re.findall(r"[\w-]+", re.sub(r"<[^<>]*>", "", text))) for text in SMALL.split()}
    texts = [text for text in names if names[text] <= known]
    return _sequence((str(parse_pipeline(f"llvm:{text}")) for text in texts), longest=MOST_SMALL)


def flags() -> str:
    """Return the space of passes with options, after a pipeline of LLVM.

    Raises:
        MissingExtraError: if there is no `opt`.
        AdapterError: if the program lists no passes.

    """
    entries = {entry.name: entry for entry in needed_opt().catalogue.passes}
    texts = {name: f"{PREFIX}{name}{_holes(entries[name])}" for name in OPTIONS if name in entries}
    first = texts.pop("default")
    return _sequence(texts.values(), first=first)


def sequences() -> list[str]:
    """Return pipelines that made programs small, the most useful first."""
    text = files(__package__ or "apass.adapters.llvm").joinpath(SEQUENCES).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _sequence(texts: Iterable[str], *, first: str = FIRST, longest: int = LONGEST) -> str:
    return f"{first},?{{1..{longest}}}({'|'.join(texts)})"


def _holes(entry: PassEntry) -> str:
    """Return the options of a pass with holes for their values; "" if it has none."""
    values = {identifier_of(each.name): "=?" for each in entry.parameters if each.kind in ("flag", "switch")}
    values.update(OPTIONS[entry.name])
    chosen = [f"{key}{value}" for key, value in values.items() if value]
    return f"{{{','.join(chosen)}}}" if chosen else ""
