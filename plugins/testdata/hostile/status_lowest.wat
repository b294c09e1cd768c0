;; Every hook returns the least status of 32 bits.
;; Fails with the fault bad_status.
(module
  (type (func (param i32 i32) (result i32)))
  (type (func (param i32) (result i32)))
  (type (func))
  (type (func (param i32)))
  (memory 8)
  (export "sluice_abi_1" (func 0))
  (export "sluice_arena" (func 1))
  (export "sluice_configure" (func 2))
  (export "sluice_gate_v1" (func 3))
  (export "sluice_admit_v1" (func 4))
  (export "sluice_reserve_v1" (func 5))
  (export "sluice_score_v1" (func 6))
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
    i32.const 3
    i32.store8 offset=8
    local.get 0
    local.get 0
    i32.load offset=48
    i32.add
    i32.const 255
    i32.store8 offset=9
    i32.const -2147483648
  )
  (func (type 1) (param i32) (result i32)
    local.get 0
    local.get 0
    i32.load offset=48
    i32.add
    i32.const 1
    i32.store8 offset=4
    local.get 0
    local.get 0
    i32.load offset=48
    i32.add
    i32.const 1
    i32.store8 offset=8
    i32.const -2147483648
  )
  (func (type 1) (param i32) (result i32)
    local.get 0
    local.get 0
    i32.load offset=48
    i32.add
    i32.const 77
    i32.store8
    i32.const -2147483648
  )
  (func (type 1) (param i32) (result i32)
    local.get 0
    local.get 0
    i32.load offset=48
    i32.add
    i32.const 9
    i32.store8
    local.get 0
    local.get 0
    i32.load offset=48
    i32.add
    i32.const 8
    i32.store8 offset=16
    i32.const -2147483648
  )
)
