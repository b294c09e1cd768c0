;; Two hundred small loops over a thousand locals, of which each changes one: at every loop an engine that optimizes joins the
;; values of all locals, and takes time and memory by the product; 32 KiB of such code take seconds and 200 MiB.
;; Refused at load: joins.
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
    i32.const 0
  )
  (func (type 2)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    loop
      local.get 0
      local.get 7
      i32.add
      local.set 3
      local.get 0
      br_if 0
    end
    loop
      local.get 1
      local.get 8
      i32.add
      local.set 4
      local.get 1
      br_if 0
    end
    loop
      local.get 2
      local.get 9
      i32.add
      local.set 5
      local.get 2
      br_if 0
    end
    loop
      local.get 3
      local.get 10
      i32.add
      local.set 6
      local.get 3
      br_if 0
    end
    loop
      local.get 4
      local.get 11
      i32.add
      local.set 7
      local.get 4
      br_if 0
    end
    loop
      local.get 5
      local.get 12
      i32.add
      local.set 8
      local.get 5
      br_if 0
    end
    loop
      local.get 6
      local.get 13
      i32.add
      local.set 9
      local.get 6
      br_if 0
    end
    loop
      local.get 7
      local.get 14
      i32.add
      local.set 10
      local.get 7
      br_if 0
    end
    loop
      local.get 8
      local.get 15
      i32.add
      local.set 11
      local.get 8
      br_if 0
    end
    loop
      local.get 9
      local.get 16
      i32.add
      local.set 12
      local.get 9
      br_if 0
    end
    loop
      local.get 10
      local.get 17
      i32.add
      local.set 13
      local.get 10
      br_if 0
    end
    loop
      local.get 11
      local.get 18
      i32.add
      local.set 14
      local.get 11
      br_if 0
    end
    loop
      local.get 12
      local.get 19
      i32.add
      local.set 15
      local.get 12
      br_if 0
    end
    loop
      local.get 13
      local.get 20
      i32.add
      local.set 16
      local.get 13
      br_if 0
    end
    loop
      local.get 14
      local.get 21
      i32.add
      local.set 17
      local.get 14
      br_if 0
    end
    loop
      local.get 15
      local.get 22
      i32.add
      local.set 18
      local.get 15
      br_if 0
    end
    loop
      local.get 16
      local.get 23
      i32.add
      local.set 19
      local.get 16
      br_if 0
    end
    loop
      local.get 17
      local.get 24
      i32.add
      local.set 20
      local.get 17
      br_if 0
    end
    loop
      local.get 18
      local.get 25
      i32.add
      local.set 21
      local.get 18
      br_if 0
    end
    loop
      local.get 19
      local.get 26
      i32.add
      local.set 22
      local.get 19
      br_if 0
    end
    loop
      local.get 20
      local.get 27
      i32.add
      local.set 23
      local.get 20
      br_if 0
    end
    loop
      local.get 21
      local.get 28
      i32.add
      local.set 24
      local.get 21
      br_if 0
    end
    loop
      local.get 22
      local.get 29
      i32.add
      local.set 25
      local.get 22
      br_if 0
    end
    loop
      local.get 23
      local.get 30
      i32.add
      local.set 26
      local.get 23
      br_if 0
    end
    loop
      local.get 24
      local.get 31
      i32.add
      local.set 27
      local.get 24
      br_if 0
    end
    loop
      local.get 25
      local.get 32
      i32.add
      local.set 28
      local.get 25
      br_if 0
    end
    loop
      local.get 26
      local.get 33
      i32.add
      local.set 29
      local.get 26
      br_if 0
    end
    loop
      local.get 27
      local.get 34
      i32.add
      local.set 30
      local.get 27
      br_if 0
    end
    loop
      local.get 28
      local.get 35
      i32.add
      local.set 31
      local.get 28
      br_if 0
    end
    loop
      local.get 29
      local.get 36
      i32.add
      local.set 32
      local.get 29
      br_if 0
    end
    loop
      local.get 30
      local.get 37
      i32.add
      local.set 33
      local.get 30
      br_if 0
    end
    loop
      local.get 31
      local.get 38
      i32.add
      local.set 34
      local.get 31
      br_if 0
    end
    loop
      local.get 32
      local.get 39
      i32.add
      local.set 35
      local.get 32
      br_if 0
    end
    loop
      local.get 33
      local.get 40
      i32.add
      local.set 36
      local.get 33
      br_if 0
    end
    loop
      local.get 34
      local.get 41
      i32.add
      local.set 37
      local.get 34
      br_if 0
    end
    loop
      local.get 35
      local.get 42
      i32.add
      local.set 38
      local.get 35
      br_if 0
    end
    loop
      local.get 36
      local.get 43
      i32.add
      local.set 39
      local.get 36
      br_if 0
    end
    loop
      local.get 37
      local.get 44
      i32.add
      local.set 40
      local.get 37
      br_if 0
    end
    loop
      local.get 38
      local.get 45
      i32.add
      local.set 41
      local.get 38
      br_if 0
    end
    loop
      local.get 39
      local.get 46
      i32.add
      local.set 42
      local.get 39
      br_if 0
    end
    loop
      local.get 40
      local.get 47
      i32.add
      local.set 43
      local.get 40
      br_if 0
    end
    loop
      local.get 41
      local.get 48
      i32.add
      local.set 44
      local.get 41
      br_if 0
    end
    loop
      local.get 42
      local.get 49
      i32.add
      local.set 45
      local.get 42
      br_if 0
    end
    loop
      local.get 43
      local.get 50
      i32.add
      local.set 46
      local.get 43
      br_if 0
    end
    loop
      local.get 44
      local.get 51
      i32.add
      local.set 47
      local.get 44
      br_if 0
    end
    loop
      local.get 45
      local.get 52
      i32.add
      local.set 48
      local.get 45
      br_if 0
    end
    loop
      local.get 46
      local.get 53
      i32.add
      local.set 49
      local.get 46
      br_if 0
    end
    loop
      local.get 47
      local.get 54
      i32.add
      local.set 50
      local.get 47
      br_if 0
    end
    loop
      local.get 48
      local.get 55
      i32.add
      local.set 51
      local.get 48
      br_if 0
    end
    loop
      local.get 49
      local.get 56
      i32.add
      local.set 52
      local.get 49
      br_if 0
    end
    loop
      local.get 50
      local.get 57
      i32.add
      local.set 53
      local.get 50
      br_if 0
    end
    loop
      local.get 51
      local.get 58
      i32.add
      local.set 54
      local.get 51
      br_if 0
    end
    loop
      local.get 52
      local.get 59
      i32.add
      local.set 55
      local.get 52
      br_if 0
    end
    loop
      local.get 53
      local.get 60
      i32.add
      local.set 56
      local.get 53
      br_if 0
    end
    loop
      local.get 54
      local.get 61
      i32.add
      local.set 57
      local.get 54
      br_if 0
    end
    loop
      local.get 55
      local.get 62
      i32.add
      local.set 58
      local.get 55
      br_if 0
    end
    loop
      local.get 56
      local.get 63
      i32.add
      local.set 59
      local.get 56
      br_if 0
    end
    loop
      local.get 57
      local.get 64
      i32.add
      local.set 60
      local.get 57
      br_if 0
    end
    loop
      local.get 58
      local.get 65
      i32.add
      local.set 61
      local.get 58
      br_if 0
    end
    loop
      local.get 59
      local.get 66
      i32.add
      local.set 62
      local.get 59
      br_if 0
    end
    loop
      local.get 60
      local.get 67
      i32.add
      local.set 63
      local.get 60
      br_if 0
    end
    loop
      local.get 61
      local.get 68
      i32.add
      local.set 64
      local.get 61
      br_if 0
    end
    loop
      local.get 62
      local.get 69
      i32.add
      local.set 65
      local.get 62
      br_if 0
    end
    loop
      local.get 63
      local.get 70
      i32.add
      local.set 66
      local.get 63
      br_if 0
    end
    loop
      local.get 64
      local.get 71
      i32.add
      local.set 67
      local.get 64
      br_if 0
    end
    loop
      local.get 65
      local.get 72
      i32.add
      local.set 68
      local.get 65
      br_if 0
    end
    loop
      local.get 66
      local.get 73
      i32.add
      local.set 69
      local.get 66
      br_if 0
    end
    loop
      local.get 67
      local.get 74
      i32.add
      local.set 70
      local.get 67
      br_if 0
    end
    loop
      local.get 68
      local.get 75
      i32.add
      local.set 71
      local.get 68
      br_if 0
    end
    loop
      local.get 69
      local.get 76
      i32.add
      local.set 72
      local.get 69
      br_if 0
    end
    loop
      local.get 70
      local.get 77
      i32.add
      local.set 73
      local.get 70
      br_if 0
    end
    loop
      local.get 71
      local.get 78
      i32.add
      local.set 74
      local.get 71
      br_if 0
    end
    loop
      local.get 72
      local.get 79
      i32.add
      local.set 75
      local.get 72
      br_if 0
    end
    loop
      local.get 73
      local.get 80
      i32.add
      local.set 76
      local.get 73
      br_if 0
    end
    loop
      local.get 74
      local.get 81
      i32.add
      local.set 77
      local.get 74
      br_if 0
    end
    loop
      local.get 75
      local.get 82
      i32.add
      local.set 78
      local.get 75
      br_if 0
    end
    loop
      local.get 76
      local.get 83
      i32.add
      local.set 79
      local.get 76
      br_if 0
    end
    loop
      local.get 77
      local.get 84
      i32.add
      local.set 80
      local.get 77
      br_if 0
    end
    loop
      local.get 78
      local.get 85
      i32.add
      local.set 81
      local.get 78
      br_if 0
    end
    loop
      local.get 79
      local.get 86
      i32.add
      local.set 82
      local.get 79
      br_if 0
    end
    loop
      local.get 80
      local.get 87
      i32.add
      local.set 83
      local.get 80
      br_if 0
    end
    loop
      local.get 81
      local.get 88
      i32.add
      local.set 84
      local.get 81
      br_if 0
    end
    loop
      local.get 82
      local.get 89
      i32.add
      local.set 85
      local.get 82
      br_if 0
    end
    loop
      local.get 83
      local.get 90
      i32.add
      local.set 86
      local.get 83
      br_if 0
    end
    loop
      local.get 84
      local.get 91
      i32.add
      local.set 87
      local.get 84
      br_if 0
    end
    loop
      local.get 85
      local.get 92
      i32.add
      local.set 88
      local.get 85
      br_if 0
    end
    loop
      local.get 86
      local.get 93
      i32.add
      local.set 89
      local.get 86
      br_if 0
    end
    loop
      local.get 87
      local.get 94
      i32.add
      local.set 90
      local.get 87
      br_if 0
    end
    loop
      local.get 88
      local.get 95
      i32.add
      local.set 91
      local.get 88
      br_if 0
    end
    loop
      local.get 89
      local.get 96
      i32.add
      local.set 92
      local.get 89
      br_if 0
    end
    loop
      local.get 90
      local.get 97
      i32.add
      local.set 93
      local.get 90
      br_if 0
    end
    loop
      local.get 91
      local.get 98
      i32.add
      local.set 94
      local.get 91
      br_if 0
    end
    loop
      local.get 92
      local.get 99
      i32.add
      local.set 95
      local.get 92
      br_if 0
    end
    loop
      local.get 93
      local.get 100
      i32.add
      local.set 96
      local.get 93
      br_if 0
    end
    loop
      local.get 94
      local.get 101
      i32.add
      local.set 97
      local.get 94
      br_if 0
    end
    loop
      local.get 95
      local.get 102
      i32.add
      local.set 98
      local.get 95
      br_if 0
    end
    loop
      local.get 96
      local.get 103
      i32.add
      local.set 99
      local.get 96
      br_if 0
    end
    loop
      local.get 97
      local.get 104
      i32.add
      local.set 100
      local.get 97
      br_if 0
    end
    loop
      local.get 98
      local.get 105
      i32.add
      local.set 101
      local.get 98
      br_if 0
    end
    loop
      local.get 99
      local.get 106
      i32.add
      local.set 102
      local.get 99
      br_if 0
    end
    loop
      local.get 100
      local.get 107
      i32.add
      local.set 103
      local.get 100
      br_if 0
    end
    loop
      local.get 101
      local.get 108
      i32.add
      local.set 104
      local.get 101
      br_if 0
    end
    loop
      local.get 102
      local.get 109
      i32.add
      local.set 105
      local.get 102
      br_if 0
    end
    loop
      local.get 103
      local.get 110
      i32.add
      local.set 106
      local.get 103
      br_if 0
    end
    loop
      local.get 104
      local.get 111
      i32.add
      local.set 107
      local.get 104
      br_if 0
    end
    loop
      local.get 105
      local.get 112
      i32.add
      local.set 108
      local.get 105
      br_if 0
    end
    loop
      local.get 106
      local.get 113
      i32.add
      local.set 109
      local.get 106
      br_if 0
    end
    loop
      local.get 107
      local.get 114
      i32.add
      local.set 110
      local.get 107
      br_if 0
    end
    loop
      local.get 108
      local.get 115
      i32.add
      local.set 111
      local.get 108
      br_if 0
    end
    loop
      local.get 109
      local.get 116
      i32.add
      local.set 112
      local.get 109
      br_if 0
    end
    loop
      local.get 110
      local.get 117
      i32.add
      local.set 113
      local.get 110
      br_if 0
    end
    loop
      local.get 111
      local.get 118
      i32.add
      local.set 114
      local.get 111
      br_if 0
    end
    loop
      local.get 112
      local.get 119
      i32.add
      local.set 115
      local.get 112
      br_if 0
    end
    loop
      local.get 113
      local.get 120
      i32.add
      local.set 116
      local.get 113
      br_if 0
    end
    loop
      local.get 114
      local.get 121
      i32.add
      local.set 117
      local.get 114
      br_if 0
    end
    loop
      local.get 115
      local.get 122
      i32.add
      local.set 118
      local.get 115
      br_if 0
    end
    loop
      local.get 116
      local.get 123
      i32.add
      local.set 119
      local.get 116
      br_if 0
    end
    loop
      local.get 117
      local.get 124
      i32.add
      local.set 120
      local.get 117
      br_if 0
    end
    loop
      local.get 118
      local.get 125
      i32.add
      local.set 121
      local.get 118
      br_if 0
    end
    loop
      local.get 119
      local.get 126
      i32.add
      local.set 122
      local.get 119
      br_if 0
    end
    loop
      local.get 120
      local.get 127
      i32.add
      local.set 123
      local.get 120
      br_if 0
    end
    loop
      local.get 121
      local.get 128
      i32.add
      local.set 124
      local.get 121
      br_if 0
    end
    loop
      local.get 122
      local.get 129
      i32.add
      local.set 125
      local.get 122
      br_if 0
    end
    loop
      local.get 123
      local.get 130
      i32.add
      local.set 126
      local.get 123
      br_if 0
    end
    loop
      local.get 124
      local.get 131
      i32.add
      local.set 127
      local.get 124
      br_if 0
    end
    loop
      local.get 125
      local.get 132
      i32.add
      local.set 128
      local.get 125
      br_if 0
    end
    loop
      local.get 126
      local.get 133
      i32.add
      local.set 129
      local.get 126
      br_if 0
    end
    loop
      local.get 127
      local.get 134
      i32.add
      local.set 130
      local.get 127
      br_if 0
    end
    loop
      local.get 128
      local.get 135
      i32.add
      local.set 131
      local.get 128
      br_if 0
    end
    loop
      local.get 129
      local.get 136
      i32.add
      local.set 132
      local.get 129
      br_if 0
    end
    loop
      local.get 130
      local.get 137
      i32.add
      local.set 133
      local.get 130
      br_if 0
    end
    loop
      local.get 131
      local.get 138
      i32.add
      local.set 134
      local.get 131
      br_if 0
    end
    loop
      local.get 132
      local.get 139
      i32.add
      local.set 135
      local.get 132
      br_if 0
    end
    loop
      local.get 133
      local.get 140
      i32.add
      local.set 136
      local.get 133
      br_if 0
    end
    loop
      local.get 134
      local.get 141
      i32.add
      local.set 137
      local.get 134
      br_if 0
    end
    loop
      local.get 135
      local.get 142
      i32.add
      local.set 138
      local.get 135
      br_if 0
    end
    loop
      local.get 136
      local.get 143
      i32.add
      local.set 139
      local.get 136
      br_if 0
    end
    loop
      local.get 137
      local.get 144
      i32.add
      local.set 140
      local.get 137
      br_if 0
    end
    loop
      local.get 138
      local.get 145
      i32.add
      local.set 141
      local.get 138
      br_if 0
    end
    loop
      local.get 139
      local.get 146
      i32.add
      local.set 142
      local.get 139
      br_if 0
    end
    loop
      local.get 140
      local.get 147
      i32.add
      local.set 143
      local.get 140
      br_if 0
    end
    loop
      local.get 141
      local.get 148
      i32.add
      local.set 144
      local.get 141
      br_if 0
    end
    loop
      local.get 142
      local.get 149
      i32.add
      local.set 145
      local.get 142
      br_if 0
    end
    loop
      local.get 143
      local.get 150
      i32.add
      local.set 146
      local.get 143
      br_if 0
    end
    loop
      local.get 144
      local.get 151
      i32.add
      local.set 147
      local.get 144
      br_if 0
    end
    loop
      local.get 145
      local.get 152
      i32.add
      local.set 148
      local.get 145
      br_if 0
    end
    loop
      local.get 146
      local.get 153
      i32.add
      local.set 149
      local.get 146
      br_if 0
    end
    loop
      local.get 147
      local.get 154
      i32.add
      local.set 150
      local.get 147
      br_if 0
    end
    loop
      local.get 148
      local.get 155
      i32.add
      local.set 151
      local.get 148
      br_if 0
    end
    loop
      local.get 149
      local.get 156
      i32.add
      local.set 152
      local.get 149
      br_if 0
    end
    loop
      local.get 150
      local.get 157
      i32.add
      local.set 153
      local.get 150
      br_if 0
    end
    loop
      local.get 151
      local.get 158
      i32.add
      local.set 154
      local.get 151
      br_if 0
    end
    loop
      local.get 152
      local.get 159
      i32.add
      local.set 155
      local.get 152
      br_if 0
    end
    loop
      local.get 153
      local.get 160
      i32.add
      local.set 156
      local.get 153
      br_if 0
    end
    loop
      local.get 154
      local.get 161
      i32.add
      local.set 157
      local.get 154
      br_if 0
    end
    loop
      local.get 155
      local.get 162
      i32.add
      local.set 158
      local.get 155
      br_if 0
    end
    loop
      local.get 156
      local.get 163
      i32.add
      local.set 159
      local.get 156
      br_if 0
    end
    loop
      local.get 157
      local.get 164
      i32.add
      local.set 160
      local.get 157
      br_if 0
    end
    loop
      local.get 158
      local.get 165
      i32.add
      local.set 161
      local.get 158
      br_if 0
    end
    loop
      local.get 159
      local.get 166
      i32.add
      local.set 162
      local.get 159
      br_if 0
    end
    loop
      local.get 160
      local.get 167
      i32.add
      local.set 163
      local.get 160
      br_if 0
    end
    loop
      local.get 161
      local.get 168
      i32.add
      local.set 164
      local.get 161
      br_if 0
    end
    loop
      local.get 162
      local.get 169
      i32.add
      local.set 165
      local.get 162
      br_if 0
    end
    loop
      local.get 163
      local.get 170
      i32.add
      local.set 166
      local.get 163
      br_if 0
    end
    loop
      local.get 164
      local.get 171
      i32.add
      local.set 167
      local.get 164
      br_if 0
    end
    loop
      local.get 165
      local.get 172
      i32.add
      local.set 168
      local.get 165
      br_if 0
    end
    loop
      local.get 166
      local.get 173
      i32.add
      local.set 169
      local.get 166
      br_if 0
    end
    loop
      local.get 167
      local.get 174
      i32.add
      local.set 170
      local.get 167
      br_if 0
    end
    loop
      local.get 168
      local.get 175
      i32.add
      local.set 171
      local.get 168
      br_if 0
    end
    loop
      local.get 169
      local.get 176
      i32.add
      local.set 172
      local.get 169
      br_if 0
    end
    loop
      local.get 170
      local.get 177
      i32.add
      local.set 173
      local.get 170
      br_if 0
    end
    loop
      local.get 171
      local.get 178
      i32.add
      local.set 174
      local.get 171
      br_if 0
    end
    loop
      local.get 172
      local.get 179
      i32.add
      local.set 175
      local.get 172
      br_if 0
    end
    loop
      local.get 173
      local.get 180
      i32.add
      local.set 176
      local.get 173
      br_if 0
    end
    loop
      local.get 174
      local.get 181
      i32.add
      local.set 177
      local.get 174
      br_if 0
    end
    loop
      local.get 175
      local.get 182
      i32.add
      local.set 178
      local.get 175
      br_if 0
    end
    loop
      local.get 176
      local.get 183
      i32.add
      local.set 179
      local.get 176
      br_if 0
    end
    loop
      local.get 177
      local.get 184
      i32.add
      local.set 180
      local.get 177
      br_if 0
    end
    loop
      local.get 178
      local.get 185
      i32.add
      local.set 181
      local.get 178
      br_if 0
    end
    loop
      local.get 179
      local.get 186
      i32.add
      local.set 182
      local.get 179
      br_if 0
    end
    loop
      local.get 180
      local.get 187
      i32.add
      local.set 183
      local.get 180
      br_if 0
    end
    loop
      local.get 181
      local.get 188
      i32.add
      local.set 184
      local.get 181
      br_if 0
    end
    loop
      local.get 182
      local.get 189
      i32.add
      local.set 185
      local.get 182
      br_if 0
    end
    loop
      local.get 183
      local.get 190
      i32.add
      local.set 186
      local.get 183
      br_if 0
    end
    loop
      local.get 184
      local.get 191
      i32.add
      local.set 187
      local.get 184
      br_if 0
    end
    loop
      local.get 185
      local.get 192
      i32.add
      local.set 188
      local.get 185
      br_if 0
    end
    loop
      local.get 186
      local.get 193
      i32.add
      local.set 189
      local.get 186
      br_if 0
    end
    loop
      local.get 187
      local.get 194
      i32.add
      local.set 190
      local.get 187
      br_if 0
    end
    loop
      local.get 188
      local.get 195
      i32.add
      local.set 191
      local.get 188
      br_if 0
    end
    loop
      local.get 189
      local.get 196
      i32.add
      local.set 192
      local.get 189
      br_if 0
    end
    loop
      local.get 190
      local.get 197
      i32.add
      local.set 193
      local.get 190
      br_if 0
    end
    loop
      local.get 191
      local.get 198
      i32.add
      local.set 194
      local.get 191
      br_if 0
    end
    loop
      local.get 192
      local.get 199
      i32.add
      local.set 195
      local.get 192
      br_if 0
    end
    loop
      local.get 193
      local.get 200
      i32.add
      local.set 196
      local.get 193
      br_if 0
    end
    loop
      local.get 194
      local.get 201
      i32.add
      local.set 197
      local.get 194
      br_if 0
    end
    loop
      local.get 195
      local.get 202
      i32.add
      local.set 198
      local.get 195
      br_if 0
    end
    loop
      local.get 196
      local.get 203
      i32.add
      local.set 199
      local.get 196
      br_if 0
    end
    loop
      local.get 197
      local.get 204
      i32.add
      local.set 200
      local.get 197
      br_if 0
    end
    loop
      local.get 198
      local.get 205
      i32.add
      local.set 201
      local.get 198
      br_if 0
    end
    loop
      local.get 199
      local.get 206
      i32.add
      local.set 202
      local.get 199
      br_if 0
    end
  )
)
