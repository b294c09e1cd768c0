;; Reserve sets the top bit of the last reserved byte of its answer, byte 15.
;; Fails with the fault illegal_answer.
(module
  (type (func (param i32 i32) (result i32)))
  (type (func (param i32) (result i32)))
  (type (func))
  (type (func (param i32)))
  (memory 8)
  (export "sluice_abi_1" (func 0))
  (export "sluice_arena" (func 1))
  (export "sluice_configure" (func 2))
  (export "sluice_reserve_v1" (func 3))
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
    local.get 0
    local.get 0
    i32.load offset=48
    i32.add
    i32.const 128
    i32.store8 offset=15
    i32.const 0
  )
)
