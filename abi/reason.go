package abi

import "strconv"

// FirstPolicyReason is the first reason code that belongs to policies.
const FirstPolicyReason Reason = 64

// ReasonText is the reason in words, as clients, logs and reports show it. Codes from FirstPolicyReason on are the
// policy's own and are named by their number.
func ReasonText(r Reason) string {
	if r >= FirstPolicyReason {
		return "policy reason " + strconv.Itoa(int(r))
	}
	return r.String()
}
