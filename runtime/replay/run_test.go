package replay

import (
	"bytes"
	"encoding/json"
	cli "flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"sluice/plugins"
	"sluice/runtime/rank"
)

var rewriteFlag = cli.Bool("rewrite", false, "write the synthetic trace anew")

// syntheticTrace is conversations that come back: each turn has the prompt of the one before and more.
func syntheticTrace() []byte {
	const requests, conversations = 120, 14
	r := rand.New(rand.NewPCG(20, 26))
	var blocks [conversations][]uint64
	var length [conversations]int
	next, now := uint64(100), int64(0)
	var out bytes.Buffer
	for range requests {
		c := r.IntN(conversations)
		now += int64(r.IntN(700))
		if length[c] == 0 || length[c] > 5000 {
			// All conversations start with one system prompt.
			blocks[c], length[c] = []uint64{1}, BlockTokens
		}
		full := length[c] / BlockTokens
		length[c] += 100 + r.IntN(900)
		ids := append([]uint64(nil), blocks[c][:full]...)
		for len(ids) < (length[c]+BlockTokens-1)/BlockTokens {
			ids = append(ids, next)
			next++
		}
		blocks[c] = ids
		line, err := json.Marshal(TraceRequest{TimestampMS: now, Input: length[c], Output: 5 + r.IntN(60), Blocks: ids})
		if err != nil {
			panic(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

// TestReplayIsAFunctionOfItsInput replays the synthetic trace with one core and with two, native and in WebAssembly:
// every result is the same, byte for byte.
func TestReplayIsAFunctionOfItsInput(t *testing.T) {
	file := filepath.Join("testdata", "synthetic.jsonl")
	want := syntheticTrace()
	if *rewriteFlag {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) || len(text) > 64<<10 {
		t.Fatalf("%s (%d bytes) is not what the generator writes; run the test with -rewrite", file, len(text))
	}
	trace, err := ReadTrace(bytes.NewReader(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	pool := newPool(t)
	o := DefaultRunOptions()
	o.L1Tokens, o.Verify = 16384, true
	native := natives("restore-gated", "until-retired", "fifo-headroom")
	wasm := func(r int) (rank.Hooks, error) {
		set, err := pool.set(names{"restore-gated", "until-retired", "fifo-headroom", "lru"}, r)
		if err != nil {
			return rank.Hooks{}, err
		}
		return rank.NewPolicies(&plugins.Set{Gate: set.Gate, Reserve: set.Reserve, Admit: set.Admit}, nil).Hooks(), nil
	}
	var first []byte
	for _, c := range []struct {
		name  string
		procs int
		hooks func(int) (rank.Hooks, error)
	}{{"one core", 1, native}, {"two cores", 2, native}, {"two cores again", 2, native}, {"WebAssembly", 2, wasm}} {
		was := runtime.GOMAXPROCS(c.procs)
		o.Hooks = c.hooks
		res, err := Run(trace, o)
		runtime.GOMAXPROCS(was)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		res.WallSeconds = 0
		text, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
			t.Log(string(first))
			if res.Requests != len(trace) || res.Served != len(trace) || res.HitTokens.L1 == 0 || res.HitTokens.L2 == 0 || res.Restores == 0 || res.Collectives != res.Ticks {
				t.Errorf("the trace reaches too little: %s", text)
			}
		}
		if !bytes.Equal(text, first) {
			t.Errorf("%s:\n%s\nwith one core:\n%s", c.name, text, first)
		}
	}
	o.Seed++
	o.Hooks = native
	if res, err := Run(trace, o); err != nil || fmt.Sprintf("%q", res.Digest) == string(field(t, first, "digest")) {
		t.Errorf("another seed: %v, and the digest %v is that of the first", err, res.Digest)
	}
}

// field is a member of a JSON object as it is written.
func field(t *testing.T, text []byte, name string) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m[name]
}
