// Package score exports sluice_score_v1 for a Go policy module; see package export for how a module is put together. It owns
// one variable, the registered function, in a module only.
package score
