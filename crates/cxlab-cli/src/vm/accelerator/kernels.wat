;; Kernels that `offload` has in guests, for tests where no compiler has WebAssembly; others, and some that fail.
(module
  (import "cxlab" "get_global_id" (func $id (param i32) (result i64)))
  (import "cxlab" "get_local_id" (func $local (param i32) (result i64)))
  (import "cxlab" "get_global_size" (func $size (param i32) (result i64)))
  (import "cxlab" "barrier" (func $barrier (param i32)))
  (memory i64 1)
  (global $sp (mut i64) (i64.const 4096))
  (func (export "axpy") (param $a f64) (param $x i64) (param $y i64) (local $at i64)
    (local.set $at (i64.shl (call $id (i32.const 0)) (i64.const 3)))
    (local.set $x (i64.add (local.get $x) (local.get $at)))
    (local.set $y (i64.add (local.get $y) (local.get $at)))
    (f64.store (local.get $y)
      (f64.add (f64.mul (local.get $a) (f64.load (local.get $x))) (f64.load (local.get $y)))))
  (func (export "histogram") (param $n i64) (param $data i64) (param $bins i64) (local $i i64)
    (local.set $i (call $id (i32.const 0)))
    (block $done
      (loop $next
        (br_if $done (i64.ge_u (local.get $i) (local.get $n)))
        (drop (i32.atomic.rmw.add
          (i64.add (local.get $bins)
            (i64.shl (i64.load8_u (i64.add (local.get $data) (local.get $i))) (i64.const 2)))
          (i32.const 1)))
        (local.set $i (i64.add (local.get $i) (call $size (i32.const 0))))
        (br $next))))
  (func (export "walk") (param $node i64) (param $total i64) (local $sum i64)
    (block $done
      (loop $next
        (br_if $done (i64.eqz (local.get $node)))
        (local.set $sum (i64.add (local.get $sum) (i64.load offset=8 (local.get $node))))
        (local.set $node (i64.load (local.get $node)))
        (br $next)))
    (i64.store (local.get $total) (local.get $sum)))
  ;; Copies bytes, which may lie over the border of pages.
  (func (export "copy") (param $to i64) (param $from i64) (param $bytes i64)
    (memory.copy (local.get $to) (local.get $from) (local.get $bytes)))
  ;; Each work-item of a group stores its number, and behind the barrier the one after it.
  (func (export "shift") (param $to i64) (param $beside i64) (local $at i64)
    (local.set $at (i64.shl (call $id (i32.const 0)) (i64.const 3)))
    (i64.store (i64.add (local.get $beside) (local.get $at)) (call $id (i32.const 0)))
    (call $barrier (i32.const 1))
    (i64.store (i64.add (local.get $to) (local.get $at))
      (i64.load (i64.add (local.get $beside) (i64.xor (local.get $at) (i64.const 8))))))
  ;; Only the first of a group reaches the barrier.
  (func (export "alone")
    (if (i64.eqz (call $local (i32.const 0))) (then (call $barrier (i32.const 1)))))
  (func (export "endless") (loop $next (br $next))))
