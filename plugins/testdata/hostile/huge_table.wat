;; A module of some fifty bytes with a table of a hundred million entries, which an engine allocates at once.
;; Refused at load: table.
(module
  (type (func))
  (table 100000000 funcref)
  (memory 1)
  (export "memory" (memory 0))
  (func (type 0))
)
