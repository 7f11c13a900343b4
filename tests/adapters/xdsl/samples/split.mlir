// RUN: xdsl-opt -p convert-func-to-x86-func --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

func.func @narrow() {
  func.return
}

// CHECK: x86_func.func @narrow

// -----

func.func @wide(%a: i128) -> i128 {
  func.return %a : i128
}

// CHECK: // -----
// CHECK: Cannot lower function parameters bigger than 64 bits
