"""Pipelines in the languages of compilers."""

import pytest

import apass
from apass.pipelines.languages import find_language, language_names, native_text
from apass.pipelines.parser import is_plain, parse_pipeline
from tests.helpers.llvm_modules import needs_opt
from tests.helpers.mlir_modules import NEEDS_MLIR
from tests.helpers.rows import row

TEXTS = {
    "llvm": (
        "default<O2>",
        "function(gvn<no-pre;no-memdep>,loop-mssa(licm))",
        "cgscc(devirt<4>(inline,function<eager-inv;no-rerun>(sroa<modify-cfg>,early-cse<memssa>)))",
        "require<globals-aa>,function(invalidate<aa>),globaldce",
        "internalize<preserve-gv=a;preserve-gv=b>,module(globalopt)",
    ),
    "mlir": (
        "builtin.module(func.func(canonicalize{max-iterations=5},cse),inline)",
        "builtin.module(gpu.module(gpu.func(cse)))",
        "builtin.module(func.func(affine-loop-tile{tile-sizes=2,4}))",
    ),
    "xdsl": (
        "canonicalize,cse",
        'distribute-stencil{slices=2,2,2 strategy="3d-grid"}',
        "convert-pdl-to-pdl-interp{print_debug_info=true}",
    ),
}
"""Pipelines that are written back as they are."""


@needs_opt
@NEEDS_MLIR
@pytest.mark.process
def test_texts_survive_the_way_through_apass() -> None:
    for language, texts in TEXTS.items():
        for text in texts:
            with row(text):
                pipeline = parse_pipeline(f"{language}:{text}")
                assert native_text(parse_pipeline(str(pipeline)), language) == text
                assert (
                    str(parse_pipeline(f"Repeat{{times=2}}({language}:({text}))")) == f"Repeat{{times=2}}({pipeline})"
                )


@needs_opt
@NEEDS_MLIR
@pytest.mark.process
def test_suffix_decides_about_the_language() -> None:
    for text, suffixes, expected in (
        ("default<O2>,function(gvn)", [".ll"], "llvm.default{level=O2},llvm.function(llvm.gvn)"),
        ("gvn", [".bc"], "llvm.gvn"),
        ("builtin.module(func.func(cse))", [".mlir"], "mlir.cse{anchor=func.func}"),
        ("mlir.cse", [".mlir"], "mlir.cse"),
        ('apply-pdl{pdl-file="a"}', [".mlir"], "xdsl.apply-pdl{pdl_file=a}"),
        ("default<O2>", [], "llvm.default{level=O2}"),
    ):
        with row(text):
            assert str(parse_pipeline(text, suffixes=suffixes)) == expected


@needs_opt
@NEEDS_MLIR
@pytest.mark.process
def test_unclear_text_is_an_error_with_readings() -> None:
    for text, suffixes, message in (
        ("canonicalize,cse", [".mlir"], "write mlir:canonicalize,cse or xdsl:canonicalize,cse"),
        ("gvnn", [".ll"], r"as llvm:gvnn: .* did you mean 'llvm\.gvn'"),
        ("builtin.module(func.func(csee))", [".mlir"], r"as mlir:.*'mlir\.csee'; did you mean 'mlir\.cse'"),
        ("gvn", None, "no pass is registered under the name 'gvn'"),
        ("default<O2>", None, "unexpected '<'|takes options in braces"),
    ):
        with row(text), pytest.raises(apass.errors.PipelineSyntaxError, match=message):
            parse_pipeline(text, suffixes=suffixes)


def test_options_are_read_as_in_other_languages() -> None:
    for text, expected in (
        ("Repeat{times=3 name=b}(Sequential)", "Repeat{times=3,name=b}(Sequential)"),
        ("Sequential{opt-level=2}", "Sequential{opt_level=2}"),
        ("Sequential{required=A,B opt-level=1}", "Sequential{opt_level=1,required=[A,B]}"),
        ("Sequential{required=A}", "Sequential{required=[A]}"),
    ):
        with row(text):
            assert str(parse_pipeline(text)) == expected


def test_plain_text_is_known_by_its_syntax() -> None:
    for text, expected in (
        ("onnx.Inline", True),
        ("Repeat{times=2}(onnx.Inline)", False),
        ("llvm:gvn", False),
        ("default<O2>", False),
        ("gvn", False),
    ):
        with row(text):
            assert is_plain(text) is expected


def test_unknown_language_is_an_error() -> None:
    assert list(language_names()) == ["llvm", "mlir", "xdsl"]
    with pytest.raises(
        apass.errors.PassDefinitionError, match="no language is named 'c'; expected one of llvm, mlir, xdsl"
    ):
        native_text(apass.Sequential(), "c")
    with pytest.raises(KeyError):
        find_language("c")


@needs_opt
@pytest.mark.process
def test_passes_without_a_native_form_are_errors() -> None:
    with pytest.raises(apass.errors.PassDefinitionError, match=r"Repeat\{times=2\}\(llvm\.gvn\) has no form"):
        native_text(parse_pipeline("Repeat{times=2}(llvm.gvn)"), "llvm")


@needs_opt
@pytest.mark.process
def test_allow_applies_to_other_languages() -> None:
    assert str(parse_pipeline("llvm:gvn", allow=["llvm.gvn"])) == "llvm.gvn"
    for text, message in (
        ("llvm:gvn", "the pass 'llvm.gvn' is not allowed here"),
        ("llvm:function(sroa,gvn)", "'llvm.function' is not allowed|'llvm.gvn' is not allowed"),
        ("llvm:dot-callgraph", "reaches files|not allowed"),
    ):
        with row(text), pytest.raises(apass.errors.PassNotAllowedError, match=message):
            parse_pipeline(text, allow=["llvm.sroa", "llvm.dot*"])
