;; No loop at all: thirty functions of which each calls the next twice, 2^30 calls. A deadline that is looked at in loops
;; never sees it.
;; Stopped in the call: out_of_fuel.
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
    call 4
    i32.const 0
  )
  (func (type 2)
    call 5
    call 5
  )
  (func (type 2)
    call 6
    call 6
  )
  (func (type 2)
    call 7
    call 7
  )
  (func (type 2)
    call 8
    call 8
  )
  (func (type 2)
    call 9
    call 9
  )
  (func (type 2)
    call 10
    call 10
  )
  (func (type 2)
    call 11
    call 11
  )
  (func (type 2)
    call 12
    call 12
  )
  (func (type 2)
    call 13
    call 13
  )
  (func (type 2)
    call 14
    call 14
  )
  (func (type 2)
    call 15
    call 15
  )
  (func (type 2)
    call 16
    call 16
  )
  (func (type 2)
    call 17
    call 17
  )
  (func (type 2)
    call 18
    call 18
  )
  (func (type 2)
    call 19
    call 19
  )
  (func (type 2)
    call 20
    call 20
  )
  (func (type 2)
    call 21
    call 21
  )
  (func (type 2)
    call 22
    call 22
  )
  (func (type 2)
    call 23
    call 23
  )
  (func (type 2)
    call 24
    call 24
  )
  (func (type 2)
    call 25
    call 25
  )
  (func (type 2)
    call 26
    call 26
  )
  (func (type 2)
    call 27
    call 27
  )
  (func (type 2)
    call 28
    call 28
  )
  (func (type 2)
    call 29
    call 29
  )
  (func (type 2)
    call 30
    call 30
  )
  (func (type 2)
    call 31
    call 31
  )
  (func (type 2)
    call 32
    call 32
  )
  (func (type 2)
    call 33
    call 33
  )
  (func (type 2))
)
