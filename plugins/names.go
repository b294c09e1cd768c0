package plugins

import "strconv"

// counterName is what reports call counter i of the module, 0 to abi.Counters-1.
func (m *Module) counterName(i int) string { return strconv.Itoa(i) }
