package wasmbin

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var digestFile = flag.String("digests", "", "absolute path of the digests of TestSmithModules: compared if the file exists, else written")

// smithShape is a kind of module that wasm-smith is asked for.
type smithShape struct {
	name string
	args []string
	nans bool // NaNs may have any bits until they are metered, so only what is metered is compared
}

// smithShapes keep to the supported features. Segments of elements have their only supported form where bulk memory is off.
func smithShapes() []smithShape {
	set := func(more ...string) []string {
		all := []string{
			"--max-imports=0", "--min-memories=1", "--max-memories=1", "--max-memory32-bytes=262144", "--memory-max-size-required=true",
			"--export-everything=true", "--allow-start-export=false", "--max-tables=1", "--max-instructions=400", "--generate-custom-sections=false",
			"--sign-extension-ops-enabled=true", "--saturating-float-to-int-enabled=true",
		}
		for _, f := range []string{
			"simd", "relaxed-simd", "threads", "shared-everything-threads", "gc", "exceptions", "memory64", "tail-call", "reference-types",
			"multi-value", "extended-const", "custom-page-sizes", "wide-arithmetic", "compact-imports", "custom-descriptors",
		} {
			all = append(all, "--"+f+"-enabled=false")
		}
		return append(all, more...)
	}
	bulk, noBulk := "--bulk-memory-enabled=true", "--bulk-memory-enabled=false"
	return []smithShape{
		{name: "integers", args: set(bulk, "--max-element-segments=0", "--allow-floats=false", "--min-funcs=4", "--min-globals=2")},
		{name: "tables", args: set(noBulk, "--canonicalize-nans=true", "--min-funcs=4", "--min-tables=1", "--min-element-segments=1", "--max-table-elements=200")},
		{name: "floats", args: set(bulk, "--max-element-segments=0", "--min-funcs=4"), nans: true},
		{name: "loops", args: set(bulk, "--max-element-segments=0", "--allow-floats=false", "--ensure-termination", "--fuel=300", "--min-funcs=4")},
		{name: "tame", args: set(bulk, "--max-element-segments=0", "--canonicalize-nans=true", "--disallow-traps=true", "--min-funcs=4", "--min-globals=2", "--min-data-segments=1")},
	}
}

// smith is the module that wasm-smith makes of random bytes of the seed; nil where it makes none of them.
func (w wasmTools) smith(t *testing.T, seed uint64, args ...string) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0x5317))
	in := make([]byte, 200+r.IntN(12_000))
	for i := range in {
		in[i] = byte(r.Uint32())
	}
	wasm, err := w.run(t, in, append([]string{"smith"}, args...)...)
	if s := status(t, err); s == 2 {
		return nil
	} else if s != 0 {
		t.Fatal(err)
	}
	return wasm
}

// readForeign is the module that was verified; nil and the rule where it is refused, which must be for a limit or a feature: the
// module is valid.
func readForeign(t *testing.T, what string, wasm []byte, l Limits) (*Module, string) {
	t.Helper()
	m, err := Decode(wasm)
	if err == nil {
		err = Verify(m, l)
	}
	var e *Error
	switch {
	case err == nil:
		return m, ""
	case !errors.As(err, &e) || e.Rule == "":
		t.Errorf("%s: refused without a rule: %v", what, err)
	case e.Rule == RuleMalformed:
		t.Errorf("%s: a valid module is called malformed: %v", what, err)
	}
	return nil, e.Rule
}

// Modules of a generator that knows nothing of this package, judged by a validator that does not either: metered they are
// valid, answer as they did, and spend the same on both engines and in another process.
func TestSmithModules(t *testing.T) {
	tools := findWasmTools(t)
	digests := readDigests(t)
	refused := map[string]int{}
	var all tally
	none, plains := 0, 0
	for _, s := range smithShapes() {
		for _, seed := range seeds() {
			what := fmt.Sprintf("shape %s, -seed %d", s.name, seed)
			wasm := tools.smith(t, seed, s.args...)
			if wasm == nil {
				none++
				continue
			}
			if err := tools.validate(t, wasm, supported); err != nil {
				t.Fatalf("%s: the generator leaves the supported features: %v", what, err)
			}
			m, rule := readForeign(t, what, wasm, DefaultLimits())
			if m == nil {
				refused[rule]++
				continue
			}
			c := []Costs{DefaultCosts(), exact()}[seed%2]
			out := metered(t, m, c)
			if err := tools.validate(t, out, supported); err != nil {
				t.Errorf("%s: the metered module is invalid: %v", what, err)
				continue
			}
			plain := !s.nans && !convertsFloats(m)
			if plain {
				plains++
			}
			one, digest := compareSides(t, what, m, wasm, out, c, seed, plain)
			all.add(one)
			digests.check(t, what, digest)
		}
	}
	digests.write(t)
	t.Logf("%d calls, %d trapped, %d were stopped; %d modules unmetered too; refused by rule %v; no module of %d seeds",
		all.calls, all.trapped, all.stopped, plains, refused, none)
	if *seedFlag == 0 && (plains < 2**rounds || all.calls < 10**rounds || all.trapped < *rounds || all.stopped < *rounds || all.calls-all.trapped-all.stopped < *rounds) {
		t.Error("the generated modules are too tame, or too few are run, to show anything")
	}
}

// convertsFloats says whether a float is made wider or narrower anywhere: wasm-smith leaves the bits of a NaN that comes of
// it as the engine chose them, where it makes those of every other instruction canonical.
func convertsFloats(m *Module) bool {
	table := opcodeTable()
	for i := range m.Bodies {
		r := &reader{buf: m.Bodies[i].Code}
		for ins := (instruction{}); !r.done(); {
			if r.next(table, &ins); ins.op == 0xB6 || ins.op == 0xBB { // f32.demote_f64, f64.promote_f32
				return true
			}
		}
	}
	return false
}

// tally counts what calls came to.
type tally struct{ calls, trapped, stopped int }

func (a *tally) add(b tally) {
	a.calls, a.trapped, a.stopped = a.calls+b.calls, a.trapped+b.trapped, a.stopped+b.stopped
}

// side is one way to run a module.
type side struct {
	engine  string
	metered bool
}

func (s side) String() string {
	if s.metered {
		return "metered, " + s.engine
	}
	return "unmetered, " + s.engine
}

// compareSides calls every exported function in turn, on each engine, metered and, if plain, as it was. It returns a digest
// of all that was seen.
func compareSides(t *testing.T, what string, m *Module, wasm, out []byte, c Costs, seed uint64, plain bool) (n tally, digest string) {
	t.Helper()
	sides := []side{{"compiler", true}, {"interpreter", true}}
	if plain {
		sides = append(sides, side{"compiler", false}, side{"interpreter", false})
	}
	programs := make([]compiled, len(sides))
	for i, s := range sides {
		bytes := wasm
		if s.metered {
			bytes = out
		}
		programs[i] = compile(t, engines()[s.engine], bytes)
		defer programs[i].close(t)
	}
	var open []instance
	shut := func() {
		for _, i := range open {
			i.close()
		}
		open = nil
	}
	defer func() { shut() }()
	sum := sha256.New()
	fmt.Fprintf(sum, "%x %x\n", sha256.Sum256(wasm), sha256.Sum256(out))
	r := rand.New(rand.NewPCG(seed, 0xA4))
	types := m.functionTypes()
	for range 2 {
		for _, x := range m.Exports {
			if x.Kind != KindFunction {
				continue
			}
			if open == nil {
				for _, p := range programs {
					open = append(open, p.instantiate(t))
				}
			}
			f := m.Types[types[x.Index]]
			args := randomArguments(r, f.Params)
			first := see(t, open[0], m, x.Name, f, args)
			n.calls++
			fmt.Fprintf(sum, "%q %x: %v, fuel %d, depth %d\n", x.Name, args, first, first.fuel, first.depth)
			for i, s := range sides[1:] {
				if !s.metered && first.spent(c) {
					continue // it might run for ever
				}
				o := see(t, open[i+1], m, x.Name, f, args)
				if o.String() != first.String() || s.metered && (o.fuel != first.fuel || o.depth != first.depth) {
					t.Errorf("%s: %q of %x: %s: %v, fuel %d, depth %d; %s: %v, fuel %d, depth %d", what, x.Name, args,
						sides[0], first, first.fuel, first.depth, s, o, o.fuel, o.depth)
					return n, ""
				}
			}
			switch {
			case first.spent(c):
				n.stopped++
				shut()
			case first.trap != "":
				n.trapped++
				shut()
			case first.depth != 0:
				t.Errorf("%s: %q of %x: depth %d after the call", what, x.Name, args, first.depth)
			}
		}
	}
	return n, fmt.Sprintf("%x", sum.Sum(nil)[:16])
}

// see is run with the globals that a module exports under any name, and without bits that results do not have.
func see(t *testing.T, i instance, m *Module, name string, f FuncType, args []uint64) outcome {
	t.Helper()
	o := i.run(t, name, randomFuel, args...)
	for k, v := range o.results {
		if f.Results[k] == I32 || f.Results[k] == F32 {
			o.results[k] = uint64(uint32(v))
		}
	}
	o.state = ""
	for _, x := range m.Exports {
		if x.Kind == KindGlobal {
			o.state += fmt.Sprintf("%x ", i.module.ExportedGlobal(x.Name).Get())
		}
	}
	return o
}

// randomArguments are small, at an edge, or anything.
func randomArguments(r *rand.Rand, params []ValueType) []uint64 {
	args := make([]uint64, len(params))
	for i, t := range params {
		switch r.IntN(4) {
		case 0:
			args[i] = r.Uint64N(20)
		case 1:
			edges := []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1, 0x7F800000, 0x7FF0000000000000, 0x3F800000, 0x3FF0000000000000}
			args[i] = edges[r.IntN(len(edges))]
		default:
			args[i] = r.Uint64()
		}
		if t == I32 || t == F32 {
			args[i] = uint64(uint32(args[i]))
		}
	}
	return args
}

// digests are those of another process, by shape and seed.
type digests struct {
	path  string
	want  map[string]string // nil: this process writes them
	lines []string
}

// readDigests reads the file of -digests. Without one, a second process of this test writes one first.
func readDigests(t *testing.T) *digests {
	t.Helper()
	d := &digests{path: *digestFile}
	if d.path == "" {
		d.path = filepath.Join(t.TempDir(), "digests")
		anotherProcess(t, "^TestSmithModules$", "-digests="+d.path)
	}
	text, err := os.ReadFile(d.path)
	if errors.Is(err, os.ErrNotExist) && *digestFile != "" {
		return d
	} else if err != nil {
		t.Fatal(err)
	}
	d.want = map[string]string{}
	for line := range strings.Lines(string(text)) {
		what, digest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		d.want[what] = digest
	}
	return d
}

func (d *digests) check(t *testing.T, what, digest string) {
	t.Helper()
	if d.want == nil {
		d.lines = append(d.lines, what+": "+digest+"\n")
	} else if d.want[what] != digest {
		t.Errorf("%s: what was seen has digest %s, in another process %q", what, digest, d.want[what])
	}
}

func (d *digests) write(t *testing.T) {
	t.Helper()
	if d.want != nil || t.Failed() {
		return
	}
	slices.Sort(d.lines)
	if err := os.WriteFile(d.path, []byte(strings.Join(d.lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}
