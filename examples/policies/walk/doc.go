// Package walk is what the admit examples share: candidates are sorted by a key that the policy gives, and admitted in that
// order while they fit. It imports abi and abi/guest only. A Walker belongs to one policy instance.
//
//	var w walk.Walker // in the policy's state
//	return w.Admit(b, func(_ int, r guest.AdmitRecord) int64 { return -int64(r.Priority()) })
package walk
