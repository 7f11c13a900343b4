"""Modules of LLVM IR for tests, and what llvmlite makes of them by itself."""

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

import apass
from apass.adapters.llvm import Module
from apass.adapters.llvm.library import llvm, target_machine, without_predecessors
from apass.adapters.llvm.passes.llvmlite_passes import OPT_TUNING, PIPELINES
from apass.adapters.llvm.passes.table import PassEntry
from apass.adapters.programs import OPT
from apass.errors import MissingExtraError

_LAYOUT = 'target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"\n'
HEAD = _LAYOUT + 'target triple = "x86_64-unknown-linux-gnu"\n'

SUM = """
define i64 @sum(ptr %data, i64 %count) nounwind {
entry:
  %total = alloca i64
  %index = alloca i64
  store i64 0, ptr %total
  store i64 0, ptr %index
  br label %head
head:
  %i = load i64, ptr %index, !tbaa !3
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done, !prof !6
body:
  %cell = getelementptr inbounds i64, ptr %data, i64 %i
  %value = load i64, ptr %cell, !tbaa !3
  %old = load i64, ptr %total
  %new = add nsw i64 %old, %value
  store i64 %new, ptr %total
  %next = add nsw i64 %i, 1
  store i64 %next, ptr %index
  br label %head, !llvm.loop !1
done:
  %result = load i64, ptr %total
  ret i64 %result
}

define i64 @twice(ptr %data, i64 %count) nounwind optsize {
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %head ]
  %s = call i64 @sum(ptr %data, i64 %count) #1
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 2
  br i1 %more, label %head, label %done, !llvm.loop !7
done:
  %r = add i64 %s, 0
  ret i64 %r
}

declare i64 @unused(i64) #1
attributes #1 = { nounwind willreturn "key"="value; #3 !4" }
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.mustprogress"}
!3 = !{!4, !4, i64 0}
!4 = !{!"long", !5, i64 0}
!5 = !{!"Simple C/C++ TBAA"}
!6 = !{!"branch_weights", i32 2000, i32 1}
!7 = distinct !{!7, !2}
!llvm.module.flags = !{!8}
!8 = !{i32 1, !"wchar_size", i32 4}
"""
"""Loops, attributes and metadata."""

SYMBOLS = r"""
module asm ".globl marker"
%pair = type { i32, %"odd name" }
%"odd name" = type { i8, ptr }
$shared = comdat any
@table = internal constant [3 x i32] [i32 1, i32 2, i32 3]
@counter = internal global i32 0
@"quoted @name #0 !1" = global [4 x i8] c"a\22b\00"
@other = alias i32, ptr @counter

define linkonce_odr i32 @shared(ptr %p) noinline comdat {
  %1 = getelementptr %pair, ptr %p, i32 0, i32 0
  %2 = load i32, ptr %1
  %3 = add i32 %2, 0
  ret i32 %3
}

define internal i32 @entry(i32 %x) {
  %slot = alloca i32
  store i32 %x, ptr %slot
  %known = load i32, ptr getelementptr ([3 x i32], ptr @table, i32 0, i32 1)
  %loaded = load i32, ptr %slot
  %sum = add i32 %known, %loaded
  store i32 %sum, ptr @counter
  %c = load i8, ptr @"quoted @name #0 !1"
  %wide = zext i8 %c to i32
  %all = mul i32 %wide, %sum
  ret i32 %all
}

define i32 @"main function"() personality ptr @personality {
  %r = invoke i32 @entry(i32 1) to label %fine unwind label %pad
fine:
  ret i32 %r
pad:
  %lp = landingpad { ptr, i32 }
          cleanup
  resume { ptr, i32 } %lp
}

define i32 @kept(i32 %x) noinline optnone {
  %slot = alloca i32
  store i32 %x, ptr %slot
  %y = load i32, ptr %slot
  ret i32 %y
}

define i32 @marked(i32 %x) "SkipOptimization" {
  %y = add i32 %x, 0
  ret i32 %y
}

declare i32 @personality(...)
"""
"""Linkage, comdats, aliases, quoted names, exceptions, and functions to skip."""

LIBRARY = r"""
@text = private constant [7 x i8] c"hello\0A\00"
@vector = global [64 x i8] zeroinitializer, align 1

define void @greet() {
  %r = call i32 (ptr, ...) @printf(ptr @text)
  ret void
}

define void @greet_again() {
  %r = call i32 (ptr, ...) @printf(ptr @text)
  ret void
}

define ptr @find(ptr %s) {
  %r = call ptr @strchr(ptr @text, i32 111)
  %n = call i64 @strlen(ptr %s)
  %p = getelementptr i8, ptr %r, i64 %n
  ret ptr %p
}

define i1 @same(ptr %a, ptr %b) {
  %r = call i32 @memcmp(ptr %a, ptr %b, i64 16)
  %z = icmp eq i32 %r, 0
  ret i1 %z
}

define ptr @search(ptr %a, i32 %c) {
  %r = call ptr @memchr(ptr %a, i32 %c, i64 9)
  ret ptr %r
}

define void @clear() {
  call void @llvm.memset.p0.i64(ptr @vector, i8 0, i64 64, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr @vector, ptr @text, i64 4, i1 false)
  ret void
}

define i32 @choose(i32 %x) {
  switch i32 %x, label %other [
    i32 0, label %a
    i32 1, label %b
    i32 2, label %c
    i32 3, label %d
  ]
a:
  br label %end
b:
  br label %end
c:
  br label %end
d:
  br label %end
other:
  br label %end
end:
  %r = phi i32 [ 7, %a ], [ 12, %b ], [ -3, %c ], [ 90, %d ], [ 0, %other ]
  ret i32 %r
}

declare i32 @printf(ptr, ...)
declare ptr @strchr(ptr, i32)
declare i64 @strlen(ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @memchr(ptr, i32, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
"""Calls of the C library, for which passes change declarations and add variables."""

NUMBERED = """
%0 = type { i32, i32 }
@0 = private constant i32 5

define i32 @first(ptr %p) {
  %f = getelementptr %0, ptr %p, i32 0, i32 1
  %v = load i32, ptr %f
  %w = load i32, ptr @0
  %r = mul i32 %v, %w
  ret i32 %r
}

define i32 @second(i32 %x) {
  %y = sub i32 %x, %x
  ret i32 %y
}
"""
"""Types and variables without names."""

ADDRESSES = """
@jumps = private constant [2 x ptr] [ptr blockaddress(@jump, %one), ptr blockaddress(@jump, %two)]

define i32 @jump(i64 %n) {
  %cell = getelementptr [2 x ptr], ptr @jumps, i64 0, i64 %n
  %to = load ptr, ptr %cell
  indirectbr ptr %to, [label %one, label %two]
one:
  ret i32 1
two:
  %x = add i32 1, 1
  ret i32 %x
}

define i32 @plain(i32 %x) {
  %y = or i32 %x, 0
  ret i32 %y
}
"""
"""Addresses of blocks."""

DEBUG = """
define i32 @f(i32 %x) !dbg !4 {
    #dbg_value(i32 %x, !8, !DIExpression(), !9)
  %y = add i32 %x, 0, !dbg !9
  ret i32 %y, !dbg !10
}

define i32 @g(i32 %x) !dbg !11 {
  %y = call i32 @f(i32 %x), !dbg !12
  %z = mul i32 %y, 1, !dbg !12
  ret i32 %z, !dbg !12
}

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C11, file: !1, producer: "test", emissionKind: FullDebug)
!1 = !DIFile(filename: "a.c", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 7, !"Dwarf Version", i32 5}
!4 = distinct !DISubprogram(name: "f", file: !1, line: 1, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{!7, !7}
!7 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!8 = !DILocalVariable(name: "x", arg: 1, scope: !4, file: !1, line: 1, type: !7)
!9 = !DILocation(line: 2, column: 1, scope: !4)
!10 = !DILocation(line: 3, column: 1, scope: !4)
!11 = distinct !DISubprogram(name: "g", file: !1, line: 5, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!12 = !DILocation(line: 6, column: 1, scope: !11)
"""
"""Debug information."""

UNNAMED = r"""
define internal i32 @0(i32 %x) {
  %y = mul i32 %x, 1
  ret i32 %y
}
define i32 @"0"(i32 %x) {
  %y = mul i32 %x, 1
  ret i32 %y
}
define i32 @"a\22b"(i32 %x) {
  %y = mul i32 %x, 1
  %r = call i32 @0(i32 %y)
  ret i32 %r
}
"""
"""Functions without a name, with a name of digits, and with one that is escaped."""

TEXTS = {
    "sum": HEAD + SUM,
    "symbols": HEAD + SYMBOLS,
    "library": HEAD + LIBRARY,
    "numbered": HEAD + NUMBERED,
    "addresses": HEAD + ADDRESSES,
    "debug": HEAD + DEBUG,
    "no_triple": SUM,
    "empty": "",
}


def module(name: str) -> Module:
    """Return the module of that name in `TEXTS`."""
    return Module.parse(TEXTS[name])


def by_itself(text: str, add: Any, level: int = 2, skipped: frozenset[str] = frozenset(), **tuning: Any) -> str:
    """Return what llvmlite prints for a module after a pass, without apass.

    Parameters:
        text: the module.
        add: a `PassEntry`, or the name of a pipeline.
        level: the level for speed.
        skipped: functions that a function pass leaves alone.
        tuning: tuning options.

    """
    ref = llvm.parse_assembly(text, llvm.create_context())
    options = llvm.create_pipeline_tuning_options(PIPELINES[add][0] if isinstance(add, str) else level)
    of_level: Mapping[str, bool] = OPT_TUNING.get(add, {}) if isinstance(add, str) else {}
    for name, value in {**of_level, **tuning}.items():
        setattr(options, name, value)
    builder = llvm.create_pass_builder(target_machine(ref.triple), options)
    if isinstance(add, PassEntry) and hasattr(llvm.FunctionPassManager, add.method):
        manager = llvm.create_new_function_pass_manager()
        getattr(manager, add.method)()
        for function in ref.functions:
            if not function.is_declaration and function.name not in skipped:
                manager.run(function, builder)
    elif isinstance(add, PassEntry):
        manager = llvm.create_new_module_pass_manager()
        getattr(manager, add.method)()
        manager.run(ref, builder)
    else:
        _add_attributes(ref, add)
        builder.getModulePassManager().run(ref, builder)
    return without_predecessors(str(ref))


def by_opt_itself(text: str, passes: str) -> str | None:
    """Return what `opt` prints for a module on its standard input; None if it fails."""
    command = [str(OPT.find()), "-S", f"-passes={passes}", "-o", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)
    return None if done.returncode else done.stdout


def _has_opt() -> bool:
    try:
        OPT.find()
    except MissingExtraError:
        return False
    return True


needs_opt = pytest.mark.skipif(not _has_opt(), reason="opt is not installed")
"""Skips tests where there is no `opt`."""


def prepared(text: str, pipeline: str) -> str:
    """Return a module whose functions have the attributes of a pipeline."""
    ref = llvm.parse_assembly(text, llvm.create_context())
    _add_attributes(ref, pipeline)
    return str(ref)


def _add_attributes(ref: Any, pipeline: str) -> None:
    for function in ref.functions:
        if not function.is_declaration and not any(b"optnone" in one for one in function.attributes):
            for attribute in PIPELINES[pipeline][1].split():
                function.add_function_attribute(attribute)


class SeesFunctions(apass.PassInstrument):
    """An instrument whose presence lets function passes run function by function."""

    def run_before_function(self, func: Any, run: apass.Run) -> None:
        """Do nothing."""


def by_function() -> apass.PassContext:
    """Return a context in which function passes run function by function."""
    return apass.PassContext(instruments=[SeesFunctions()])
