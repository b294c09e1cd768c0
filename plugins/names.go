package plugins

import "strconv"

// counterName is what reports call counter i of the module, 0 to abi.Counters-1: the name that its manifest gives it, else
// its number.
func (m *Module) counterName(i int) string {
	if name, ok := m.manifest.CounterName(i); ok {
		return name
	}
	return strconv.Itoa(i)
}
