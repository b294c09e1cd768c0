;; A function that declares 2^32 locals in two runs of 2^31, which a sum in 32 bits takes for none:
;;
;;   (func (type 2) (local i64 ... 4294967296 of them))
;;
;; The text cannot be written out. Beside it the module is the smallest policy.
;; Refused at load: locals.
