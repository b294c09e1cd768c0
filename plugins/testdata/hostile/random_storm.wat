;; The gate asks for half a megabyte of entropy for ever: hardly an instruction, and much work for the host, which is paid
;; for by the byte. It counts the calls at address 512.
;; Stopped in the call: out_of_fuel.
(module
  (type (func (param i32 i32) (result i32)))
  (type (func (param i32) (result i32)))
  (type (func))
  (type (func (param i32)))
  (import "wasi_snapshot_preview1" "random_get" (func (type 0) (param i32 i32) (result i32)))
  (memory 8)
  (export "sluice_abi_1" (func 1))
  (export "sluice_arena" (func 2))
  (export "sluice_configure" (func 3))
  (export "sluice_gate_v1" (func 4))
  (export "memory" (memory 0))
  (func (type 2))
  (func (type 0) (param i32 i32) (result i32)
    local.get 0
    i32.const 1
    i32.eq
    if (result i32)
      i32.const 65536
    else
      local.get 0
      i32.const 256
      i32.mul
      i32.const 1024
      i32.add
    end
  )
  (func (type 1) (param i32) (result i32)
    i32.const 0
  )
  (func (type 1) (param i32) (result i32)
    loop
      i32.const 512
      i32.const 512
      i32.load
      i32.const 1
      i32.add
      i32.store
      i32.const 1024
      i32.const 458752
      call 0
      drop
      br 0
    end
    i32.const 0
  )
)
