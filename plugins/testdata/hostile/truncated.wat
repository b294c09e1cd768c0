;; The smallest policy without its last seven bytes. There is no text for half a module.
;; Refused at load: not_wasm.
