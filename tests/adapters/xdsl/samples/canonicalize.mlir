// RUN: xdsl-opt -p canonicalize,cse %s | filecheck %s

func.func @sums(%a: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %x = arith.addi %a, %zero : i32
  %y = arith.muli %x, %x : i32
  %z = arith.muli %a, %x : i32
  %sum = arith.addi %y, %z : i32
  func.return %sum : i32
}

// CHECK:      func.func @sums(%a: i32) -> i32 {
// CHECK-NEXT:   %y = arith.muli %a, %a : i32
// CHECK-NEXT:   %sum = arith.addi %y, %y : i32
// CHECK-NEXT:   func.return %sum : i32
