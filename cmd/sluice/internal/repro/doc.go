// Package repro is the experiment of the original bug report, run side by side: one prefill and one decode
// instance of two ranks in virtual time, a prefix cache with a host tier, and one load back that fails on one
// rank. Four columns differ in what the ranks do about it.
//
// It imports runtime/replay for the group and cmd/sluice/internal/ranklocal for what the first column imposes.
package repro
