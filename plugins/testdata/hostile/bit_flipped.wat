;; The smallest policy with one bit flipped: the gate's i32.const (0x41) becomes f64.eq (0x61), which compares values that
;; are not there.
;;
;;   (func (type 1) f64.eq unreachable)
;;
;; Refused at load: not_wasm.
