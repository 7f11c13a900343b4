"""Relay: TVM 0.8's IR in pure Python, with TVM's names and text format.

Import it with `from apass import relay`. The main packages are:

- `relay.transform`: the passes;
- `relay.analysis`: the analyses that passes use;
- `relay.frontend`: importers for other model formats;
- `relay.testing`: model builders.

Programs are immutable; see `apass.relay.expr`.
"""

from importlib.util import find_spec

from apass.core.diagnostics import Span
from apass.errors import MissingExtraError

_missing = [name for name in ("lark", "numpy") if find_spec(name) is None]
if _missing:
    raise MissingExtraError(f"Relay needs {' and '.join(_missing)}: pip install 'apass[relay]'")

from apass.relay import (
    adt,
    analysis,
    backend,
    base,
    build_module,
    data_dep_optimization,
    dataflow_pattern,
    expr,
    expr_functor,
    frontend,
    function,
    loops,
    op,
    param_dict,
    parser,
    prelude,
    scope_builder,
    te,
    testing,
    transform,
    ty,
    type_functor,
)
from apass.relay.backend import to_onnx
from apass.relay.errors import (
    AnnotationError,
    EvaluationError,
    OpNotImplementedError,
    ParseError,
    SerializationError,
    TypeInferenceError,
    UnknownOpError,
    UnknownTypeKeyError,
)
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.executor import create_executor
from apass.relay.interpreter.values import ADTValue, RefValue, Value
from apass.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.base import Id, SourceName
from apass.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    const,
    var,
)
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule, set_std_importer
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.scope_builder import ScopeBuilder
from apass.relay.ir.ty import (
    Any,
    DimExpr,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    ShapeVar,
    SizeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
    TypeVar,
    scalar_type,
)
from apass.relay.ir.type_keys import make_node, register_object
from apass.relay.op import annotation, functions, image, nn
from apass.relay.op.functions import *
from apass.relay.param_dict import load_param_dict, save_param_dict
from apass.relay.parser import fromtext, parse, parse_expr
from apass.relay.prelude import Prelude
from apass.relay.rewrite.bind import bind, bind_params_by_name
from apass.relay.structural.equality import assert_structural_equal, fingerprint, structural_equal, structural_hash
from apass.relay.text.printing.printer import astext, pretty_print
from apass.relay.text.serialization.load import load_json
from apass.relay.text.serialization.save import save_json
from apass.relay.visitors.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from apass.relay.visitors.expr_rewriter import ExprRewriter, post_order_rewrite, rewrite
from apass.relay.visitors.type_functor import TypeFunctor, TypeMutator, TypeVisitor

__all__: list[str] = [
    "ADTValue",
    "AnnotationError",
    "Any",
    "Attrs",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "DictAttrs",
    "DimExpr",
    "EvaluationError",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprRewriter",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "Id",
    "If",
    "IncompleteType",
    "Kind",
    "Let",
    "Match",
    "NDArray",
    "Op",
    "OpNotImplementedError",
    "ParseError",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "Prelude",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefValue",
    "RefWrite",
    "ScopeBuilder",
    "SerializationError",
    "ShapeVar",
    "SizeVar",
    "SourceName",
    "Span",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeData",
    "TypeFunctor",
    "TypeInferenceError",
    "TypeKind",
    "TypeMutator",
    "TypeRelation",
    "TypeVar",
    "TypeVisitor",
    "UnknownOpError",
    "UnknownTypeKeyError",
    "Value",
    "Var",
    "adt",
    "analysis",
    "annotation",
    "assert_structural_equal",
    "astext",
    "backend",
    "base",
    "bind",
    "bind_params_by_name",
    "build_module",
    "const",
    "create_executor",
    "data_dep_optimization",
    "dataflow_pattern",
    "evaluate",
    "expr",
    "expr_functor",
    "fingerprint",
    "fromtext",
    "frontend",
    "function",
    "image",
    "load_json",
    "load_param_dict",
    "loops",
    "make_node",
    "nn",
    "op",
    "param_dict",
    "parse",
    "parse_expr",
    "parser",
    "post_order_rewrite",
    "prelude",
    "pretty_print",
    "register_object",
    "rewrite",
    "save_json",
    "save_param_dict",
    "scalar_type",
    "scope_builder",
    "set_std_importer",
    "structural_equal",
    "structural_hash",
    "te",
    "testing",
    "to_onnx",
    "transform",
    "ty",
    "type_functor",
    "var",
]
__all__ += functions.__all__
