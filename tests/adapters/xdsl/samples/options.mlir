// RUN: xdsl-opt %s -p "scf-parallel-loop-tiling{parallel-loop-tile-sizes=4}" --allow-unregistered-dialect | filecheck %s

%begin, %end, %step = "foo.bounds"() : () -> (index, index, index)
"scf.parallel"(%begin, %end, %step) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
^bb0(%i: index):
  "foo.body"(%i) : (index) -> ()
  scf.reduce
}) : (index, index, index) -> ()

// CHECK: arith.constant 4 : index
// CHECK: "foo.body"
