"""Relay: TVM 0.8's IR in pure Python, with TVM's names and text; `from apass import relay`.

`relay.transform` has the passes, `relay.analysis` what they go by, `relay.frontend` imports models, and `relay.testing`
builds some. Programs are immutable: see `apass.relay.expr`.
"""

from apass.core.diagnostics import Span
from apass.relay import (
    adt,
    analysis,
    base,
    build_module,
    dataflow_pattern,
    expr,
    expr_functor,
    frontend,
    loops,
    op,
    param_dict,
    parser,
    prelude,
    testing,
    transform,
    ty,
    type_functor,
)
from apass.relay.adt import (
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
from apass.relay.base import Id, SourceName
from apass.relay.errors import EvaluationError, OpNotImplementedError, ParseError, TypeInferenceError, UnknownOpError
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.executor import create_executor
from apass.relay.interpreter.values import ADTValue, RefValue, Value
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.module import IRModule, set_std_importer
from apass.relay.ir.ndarray import NDArray
from apass.relay.make import const, var
from apass.relay.op import annotation, functions, image, nn
from apass.relay.op.functions import *
from apass.relay.param_dict import load_param_dict, save_param_dict
from apass.relay.parser import fromtext, parse, parse_expr
from apass.relay.prelude import Prelude
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.rewrite.bind import bind, bind_params_by_name
from apass.relay.scope_builder import ScopeBuilder
from apass.relay.structural.equality import assert_structural_equal, fingerprint, structural_equal, structural_hash
from apass.relay.text.printing.printer import astext, pretty_print
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    ShapeVar,
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
from apass.relay.type_functor import TypeFunctor, TypeMutator, TypeVisitor
from apass.relay.visitors.expr_rewriter import ExprRewriter, post_order_rewrite, rewrite

__all__: list[str] = [
    "ADTValue",
    "Any",
    "Attrs",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "DictAttrs",
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
    "ShapeVar",
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
    "Value",
    "Var",
    "adt",
    "analysis",
    "annotation",
    "assert_structural_equal",
    "astext",
    "base",
    "bind",
    "bind_params_by_name",
    "build_module",
    "const",
    "create_executor",
    "dataflow_pattern",
    "evaluate",
    "expr",
    "expr_functor",
    "fingerprint",
    "fromtext",
    "frontend",
    "image",
    "load_param_dict",
    "loops",
    "nn",
    "op",
    "param_dict",
    "parse",
    "parse_expr",
    "parser",
    "post_order_rewrite",
    "prelude",
    "pretty_print",
    "rewrite",
    "save_param_dict",
    "scalar_type",
    "set_std_importer",
    "structural_equal",
    "structural_hash",
    "testing",
    "transform",
    "ty",
    "type_functor",
    "var",
]
__all__ += functions.__all__
