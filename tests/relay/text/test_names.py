"""Modules, names and parameters are those of TVM 0.8."""

import inspect
from importlib import import_module

import pytest

import apass.relay
from apass import relay
from apass.relay.op import functions

NAMES = """
relay: Any Call Clause Constant Constructor Expr ExprFunctor ExprMutator ExprVisitor FuncType Function GlobalTypeVar
relay: GlobalVar If IncompleteType Let Match PatternConstructor PatternTuple PatternVar PatternWildcard Prelude
relay: RefCreate RefRead RefType RefWrite ScopeBuilder ShapeVar Span TensorType Tuple TupleGetItem TupleType Type
relay: TypeCall TypeConstraint TypeData TypeFunctor TypeKind TypeMutator TypeRelation TypeVar TypeVisitor Var adt
relay: analysis annotation bind build_module const dataflow_pattern expr expr_functor frontend function image
relay: load_param_dict loops nn op param_dict parser prelude save_param_dict scalar_type scope_builder testing
relay: transform ty type_functor var
relay.adt: Clause Constructor Match Pattern PatternConstructor PatternTuple PatternVar PatternWildcard TypeData
relay.analysis: Feature all_dtypes all_type_vars all_vars bound_type_vars bound_vars check_basic_block_normal_form
relay.analysis: check_constant check_kind detect_feature free_type_vars free_vars get_total_mac_number list_op_types
relay.analysis: post_order_visit unmatched_cases well_formed
relay.build_module: bind_params_by_name
relay.dataflow_pattern: AltPattern AttrPattern CallPattern ConstantPattern DFPattern DFPatternCallback DataTypePattern
relay.dataflow_pattern: DominatorPattern ExprPattern FunctionPattern IfPattern LetPattern ShapePattern
relay.dataflow_pattern: TupleGetItemPattern TuplePattern TypePattern VarPattern WildcardPattern dominates has_attr
relay.dataflow_pattern: has_dtype has_shape has_type is_constant is_expr is_if is_let is_op is_tuple is_tuple_get_item
relay.dataflow_pattern: is_var match partition rewrite wildcard
relay.loops: while_loop
relay.op: Op OpPattern annotation contrib get image nn register register_alter_op_layout register_convert_op_layout
relay.op: register_infer_correct_layout register_legalize register_op_attr register_pattern register_stateful
relay.op.contrib: get_pattern_table register_pattern_table
relay.op.op: Op OpPattern get register register_alter_op_layout register_convert_op_layout register_legalize
relay.op.op: register_infer_correct_layout register_op_attr register_pattern register_stateful
relay.param_dict: load_param_dict save_param_dict
relay.te: size_var var
relay.testing: add_nat_definitions count create_workload dcgan densenet dqn inception_v3 init layers lstm make_nat_expr
relay.testing: make_nat_value mlp mobilenet rand resnet run_infer_type run_opt_pass squeezenet synthetic temp_op_attr
relay.testing: vgg
relay.transform: AlterOpLayout AnnotateSpans BackwardFoldScaleAxis CanonicalizeCast CanonicalizeOps
relay.transform: CombineParallelConv2D CombineParallelDense ConvertLayout DeadCodeElimination DefuseOps
relay.transform: EliminateCommonSubexpr EtaExpand FastMath FoldConstant FoldConstantExpr FoldScaleAxis
relay.transform: ForwardFoldScaleAxis FunctionPass FuseOps
relay.transform: InferType InferTypeLocal Inline LambdaLift LayoutConfig Legalize MergeComposite
relay.transform: RemoveUnusedFunctions
relay.transform: SimplifyExpr
relay.transform: SimplifyInference ToANormalForm ToANormalFormExpr ToBasicBlockNormalForm ToGraphNormalForm
relay.transform: function_pass
relay.ty: Any FuncType GlobalTypeVar IncompleteType RefType TensorType TupleType Type TypeCall TypeConstraint TypeKind
relay.ty: TypeRelation TypeVar scalar_type
"""

SIGNATURES = """
relay.Call(op, args, attrs=None, type_args=None, span=None, *, checked_type_=None)
relay.Constant(data, span=None)
relay.Function(params, body, ret_type=None, type_params=None, attrs=None, span=None, *, checked_type_=None)
relay.IRModule(functions=None, type_definitions=None)
relay.IRModule.from_expr(expr, functions=None, type_defs=None)
relay.If(cond, true_branch, false_branch, span=None, *, checked_type_=None)
relay.Let(variable, value, body, span=None, *, checked_type_=None)
relay.RefCreate(value, span=None, *, checked_type_=None)
relay.RefRead(ref, span=None, *, checked_type_=None)
relay.RefWrite(ref, value, span=None, *, checked_type_=None)
relay.Span(source_name, line, end_line, column, end_column)
relay.Tuple(fields, span=None, *, checked_type_=None)
relay.TupleGetItem(tuple_value, index, span=None, *, checked_type_=None)
relay.Var(name_hint, type_annotation=None, span=None, *, checked_type_=None)
relay.adt.Clause(lhs, rhs)
relay.adt.Match(data, clauses, complete=True, *, span=None, checked_type_=None)
relay.adt.PatternConstructor(constructor, patterns=None)
relay.adt.PatternTuple(patterns=None)
relay.adt.TypeData(header, type_vars, constructors)
relay.analysis.check_kind(t, mod=None)
relay.analysis.detect_feature(a, b=None)
relay.analysis.free_type_vars(expr, mod=None)
relay.analysis.unmatched_cases(match, mod=None)
relay.const(value, dtype=None, span=None)
relay.dataflow_pattern.DFPatternCallback(require_type=False, rewrite_once=False)
relay.dataflow_pattern.AltPattern(left, right)
relay.dataflow_pattern.AttrPattern(pattern, attrs)
relay.dataflow_pattern.CallPattern(op, args)
relay.dataflow_pattern.DataTypePattern(pattern, dtype)
relay.dataflow_pattern.DominatorPattern(parent, path, child)
relay.dataflow_pattern.ExprPattern(expr)
relay.dataflow_pattern.FunctionPattern(params, body)
relay.dataflow_pattern.IfPattern(cond, true_branch, false_branch)
relay.dataflow_pattern.LetPattern(var, value, body)
relay.dataflow_pattern.ShapePattern(pattern, shape)
relay.dataflow_pattern.TupleGetItemPattern(tuple_value, index=None)
relay.dataflow_pattern.TuplePattern(fields)
relay.dataflow_pattern.TypePattern(pattern, ttype)
relay.dataflow_pattern.VarPattern(name_hint='')
relay.dataflow_pattern.dominates(parent, path, child)
relay.dataflow_pattern.has_attr(attrs, pattern=None)
relay.dataflow_pattern.has_dtype(dtype, pattern=None)
relay.dataflow_pattern.has_shape(shape, pattern=None)
relay.dataflow_pattern.has_type(ttype, pattern=None)
relay.dataflow_pattern.is_let(var, value, body)
relay.dataflow_pattern.is_tuple_get_item(tuple_value, index=None)
relay.dataflow_pattern.is_var(name='')
relay.dataflow_pattern.match(pattern, expr)
relay.dataflow_pattern.rewrite(callbacks, expr, mod=None)
relay.loops.while_loop(cond, loop_vars, loop_bodies)
relay.op.register(op_name, describe='')
relay.op.register_alter_op_layout(op_name, alter_layout=None, level=10)
relay.op.register_convert_op_layout(op_name, convert_layout=None, level=10)
relay.op.register_infer_correct_layout(op_name, infer_layout=None, level=10)
relay.op.register_legalize(op_name, legal_op=None, level=10)
relay.op.register_op_attr(op_name, attr_key, value=None, level=10)
relay.op.register_pattern(op_name, pattern, level=10)
relay.prelude.Prelude.get_ctor(self, ty_name, canonical, dtype=None)
relay.prelude.Prelude.get_global_var(self, canonical, dtype=None)
relay.prelude.Prelude.get_name(self, canonical, dtype)
relay.prelude.Prelude.get_tensor_ctor(self, canonical, dtype)
relay.prelude.Prelude.get_type(self, canonical, dtype=None)
relay.prelude.Prelude.get_var(self, canonical, dtype=None)
relay.op.register_stateful(op_name, stateful, level=10)
relay.parse(source, source_name='from_string', init_module=None, init_meta_table=None)
relay.structural_equal(lhs, rhs, map_free_vars=False)
relay.te.size_var(name='size', dtype='int32', span=None)
relay.te.var(name='tindex', dtype='int32', span=None)
relay.transform.CombineParallelConv2D(min_num_branches=3)
relay.transform.CombineParallelDense(min_num_branches=3, to_batch=True)
relay.transform.ConvertLayout(desired_layouts)
relay.transform.DeadCodeElimination(inline_once=False)
relay.transform.EliminateCommonSubexpr(fskip=None)
relay.transform.EtaExpand(expand_constructor=False, expand_global_var=False)
relay.transform.FoldConstantExpr(expr, mod)
relay.transform.FuseOps(fuse_opt_level=-1)
relay.transform.LayoutConfig(skip_layers=None)
relay.transform.Legalize(legalize_map_attr_name='FTVMLegalize')
relay.transform.RemoveUnusedFunctions(entry_functions=None)
relay.ty.FuncType(arg_types, ret_type, type_params=None, type_constraints=None)
relay.ty.TensorType(shape=(), dtype='float32')
relay.ty.TypeRelation(func, args, num_inputs, attrs=None)
relay.var(name_hint, type_annotation=None, shape=None, dtype='float32', span=None)
"""


@pytest.mark.parametrize("line", NAMES.split("\n")[1:-1])
def test_module_has_tvm_names(line: str) -> None:
    module, _, names = line.partition(": ")
    imported = import_module(f"apass.{module}")
    assert [name for name in names.split() if not hasattr(imported, name)] == []


@pytest.mark.parametrize("line", SIGNATURES.split("\n")[1:-1])
def test_signature_is_that_of_tvm(line: str) -> None:
    path = line.partition("(")[0]
    function: object = apass.relay
    for name in path.split(".")[1:]:
        function = getattr(function, name)
    assert callable(function)
    parameters = inspect.signature(function).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    assert f"{path}{inspect.Signature(bare)}" == line


def test_relay_and_relay_op_export_same_functions() -> None:
    listed = functions.__all__
    assert [getattr(relay, name) for name in listed] == [getattr(relay.op, name) for name in listed]
    for module in (relay, relay.op):
        assert len(set(module.__all__)) == len(module.__all__)
        assert set(listed) < set(module.__all__)
    groups = (relay.op.tensor, relay.op.transform, relay.op.algorithm)
    assert {name for group in groups for name in group.__all__} < set(listed)


def test_relay_expr_exports_expression_constructors() -> None:
    names = ("RefCreate", "RefRead", "RefWrite", "TupleWrapper", "const", "var")
    assert [getattr(relay.expr, name) for name in names] == [getattr(relay, name) for name in names]
    assert relay.expr.RelayExpr is relay.Expr
