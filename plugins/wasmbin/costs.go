package wasmbin

// Names of the two globals that a metered module exports.
const (
	GlobalFuel  = "sluice_fuel"  // i64: what may still be spent; negative: spent, which stopped the module
	GlobalDepth = "sluice_depth" // i32: units of call stack in use; 0 between calls, above Costs.Depth: that stopped it
)

// Costs is what running code costs, in units of fuel: about one simple instruction each. The same costs and the same
// module give the same fuel on every engine and every machine.
type Costs struct {
	Plain    int64 // any instruction not named below; nop, drop, block, loop, else and end are free
	Divide   int64 // integer division and remainder, floating-point division and square root
	Call     int64 // a call, its callee's Function aside
	Function int64 // entering a function
	Bulk     int64 // memory.copy, memory.fill, memory.init and memory.grow, before what they move
	Slack    int64 // how much a charge may cover of code that is then not run (or as much as it covers of its own, if that is more), so that short blocks need no charge; 0: none

	Locals    uint8  // entering a function costs one unit more for every 1<<Locals locals
	Bytes     uint8  // copying or filling costs one unit for every 1<<Bytes bytes
	Page      uint8  // growing the memory costs 1<<Page units a page
	Depth     uint32 // most units of call stack; a frame has at least one, so it is also the most frames
	SlotShift uint8  // a frame has one unit more for every 1<<SlotShift locals and operands
}

// DefaultCosts is what this host meters with. A Go guest nests about 40 frames deep where it collects its heap; the limit
// is ten times that, a fifth of what wazero's interpreter stands (1,999 frames), and keeps the stack of either engine within
// a megabyte or two.
func DefaultCosts() Costs {
	return Costs{
		Plain: 1, Divide: 8, Call: 4, Function: 4, Bulk: 16, Slack: 24,
		Locals: 2, Bytes: 3, Page: 13, Depth: 400, SlotShift: 5,
	}
}

// check refuses costs with which the inserted arithmetic could overflow or charge nothing.
func (c Costs) check() *Error {
	const most = 1 << 16
	for _, v := range []int64{c.Plain, c.Divide, c.Call, c.Function, c.Bulk} {
		if v < 1 || v > most {
			return refuse("costs", "", "a cost of %d; costs lie between 1 and %d", v, most)
		}
	}
	if c.Slack < 0 || c.Slack > most || c.Locals > 31 || c.Bytes > 31 || c.Page > 31 || c.SlotShift > 31 || c.Depth < 1 || c.Depth > most {
		return refuse("costs", "", "slack and depth must be at most %d and shifts at most 31, they are %+v", most, c)
	}
	return nil
}

func (c *Costs) of(w weight) int64 {
	switch w {
	case weightFree:
		return 0
	case weightDivide:
		return c.Divide
	case weightCall:
		return c.Call
	case weightBulk:
		return c.Bulk
	}
	return c.Plain
}
