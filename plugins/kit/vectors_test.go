package kit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
)

const goodVectors = `# a file
vector "two" gate tick=7 epoch=3
globals TimeNS=5
in ReqKey=1 RawPoll=Success Restore=pending Flags=SetAside|Staged
in ReqKey=0x2 RawPoll=4   # by number
out Vote=Transferring
out Vote=3

# kept
vector "none" gate
`

func TestVectorsPass(t *testing.T) {
	f, err := layout(t).ParseVectors(goodVectors)
	if err != nil {
		t.Fatal(err)
	}
	v := f.Vectors[0]
	in := abi.GetGateRecord(v.In)
	if len(f.Vectors) != 2 || v.Tick != 7 || v.Epoch != 3 || v.N != 2 || v.NOut != 2 || v.Line != 2 ||
		in.RawPoll != abi.PollSuccess || in.Restore != abi.RestorePending || in.Flags != abi.GateFlagSetAside|abi.GateFlagStaged ||
		abi.GetGateGlobals(v.Globals).TimeNS != 5 {
		t.Errorf("%+v", v)
	}
	p := open(t, "hold", kit.Compiled(compile(t, gate(kittest.Votes(kittest.Const(3))))))
	failed, err := f.Run(context.Background(), p)
	if err != nil || len(failed) > 0 {
		t.Errorf("%v, %v", failed, err)
	}
}

func TestVectorsFailFieldByField(t *testing.T) {
	for _, c := range []struct {
		name, text string
		body       []byte
		want       []string
	}{
		{"another vote", goodVectors, kittest.Votes(kittest.Const(1)), []string{"out 0: Vote is Bootstrapping, want Transferring", "out 1: Vote is Bootstrapping, want Transferring"}},
		{"a trap", goodVectors, kittest.Unreachable(), []string{"the policy fails: policy \"x\": gate: trap{unreachable}"}},
		{"declines", goodVectors, kittest.Const(-5), []string{"the policy declines, want an answer"}},
		{"a status", goodVectors, kittest.Const(9), []string{"status is 9, want 0", "out 0: Vote is Failed, want Transferring"}},
		{"answers where a fault is wanted", "vector \"x\" gate\nin\nfault trap\n", kittest.Const(0), []string{"the policy answers, want the fault trap"}},
		{"another fault", "vector \"x\" gate\nin\nfault trap\n", kittest.Votes(kittest.Const(9)), []string{"fault is illegal_answer, want trap"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := layout(t).ParseVectors(c.text)
			if err != nil {
				t.Fatal(err)
			}
			failed, err := f.Run(context.Background(), open(t, "x", kit.Compiled(compile(t, gate(c.body)))))
			if err != nil || len(failed) == 0 {
				t.Fatalf("%v, %v", failed, err)
			}
			for i, want := range c.want {
				if i >= len(failed[0].Lines) || !strings.HasPrefix(failed[0].Lines[i], want) {
					t.Errorf("got %q, want %q", failed[0].Lines, c.want)
					break
				}
			}
		})
	}
}

func TestRewriteKeepsEverythingButAnswers(t *testing.T) {
	l := layout(t)
	ctx := context.Background()
	for _, c := range []struct {
		name string
		body []byte
		want string
	}{
		{"votes", kittest.Votes(kittest.Const(2)), strings.NewReplacer("out Vote=Transferring", "out Vote=WaitingForInput", "out Vote=3", "out Vote=WaitingForInput").Replace(goodVectors)},
		{"declined", kittest.Const(-5), strings.NewReplacer("out Vote=Transferring\n", "declined\n", "out Vote=3\n", "").Replace(goodVectors) + "declined\n"},
		{"trap", kittest.Unreachable(), strings.NewReplacer("out Vote=Transferring\n", "fault trap\n", "out Vote=3\n", "").Replace(goodVectors) + "fault trap\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := l.ParseVectors(goodVectors)
			if err != nil {
				t.Fatal(err)
			}
			p := open(t, "x", kit.Compiled(compile(t, gate(c.body))))
			text, err := f.Rewrite(ctx, p)
			if err != nil || text != c.want {
				t.Fatalf("%v, got\n%s\nwant\n%s", err, text, c.want)
			}
			again, err := l.ParseVectors(text)
			if err != nil {
				t.Fatal(err)
			}
			if failed, err := again.Run(ctx, p); err != nil || len(failed) > 0 {
				t.Errorf("what rewrite wrote does not pass: %v, %v", failed, err)
			}
		})
	}
}

func TestVectorErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "line 1: no vector"},
		{"only comments", "# hello\n", "line 1: no vector"},
		{"outside", "in ReqKey=1\n", "line 1: \"in\" outside a vector"},
		{"no quotes", "vector x gate\n", "line 1: a vector is begun with"},
		{"no hook", "vector \"x\"\n", "line 1: vector \"x\" names no hook"},
		{"unknown hook", "vector \"x\" gat\n", "line 1: no hook is named \"gat\""},
		{"bad tick", "vector \"x\" gate tick=now\n", "line 1: \"tick=now\" is neither"},
		{"unknown word", "vector \"x\" gate\nouts\n", "line 2: \"outs\" is none of"},
		{"unknown field", "vector \"x\" gate\nin Poll=1\n", "line 2: GateRecord has no field \"Poll\"; it has ReqKey"},
		{"twice", "vector \"x\" gate\nin ReqKey=1 ReqKey=2\n", "line 2: ReqKey is given twice"},
		{"no value", "vector \"x\" gate\nin ReqKey\n", "line 2: \"ReqKey\" is not Field=value"},
		{"unknown name", "vector \"x\" gate\nin RawPoll=Done\n", "line 2: RawPoll is \"Done\", which is no number and none of Failed"},
		{"too large", "vector \"x\" gate\nin RawPoll=256\n", "line 2: RawPoll is 256, its largest value is 255"},
		{"unknown flag", "vector \"x\" gate\nin Flags=Staged|Wet\n", "line 2: Flags has \"Wet\""},
		{"globals twice", "vector \"x\" gate\nglobals\nglobals\n", "line 3: the globals are given twice"},
		{"too few outs", "vector \"x\" gate\nin\nin\nout\n", "line 1: vector \"x\" has 1 out records, the hook answers 2"},
		{"two things", "vector \"x\" gate\nin\nout\ndeclined\n", "line 1: vector \"x\" expects two things"},
		{"negative status", "vector \"x\" gate\nin\nstatus -3\nout\n", "line 3: status is \"-3\""},
		{"fault of no class", "vector \"x\" gate\nin\nfault\n", "line 3: fault names the class \"\"; the classes are trap,"},
		{"fault of an unknown class", "vector \"x\" gate\nin\nfault crash\n", "line 3: fault names the class \"crash\""},
		{"fresh with more", "fresh start\n", "line 1: fresh stands alone"},
		{"more candidates than records", "vector \"x\" admit\nglobals Candidates=2\nin\n", "line 1: vector \"x\" has 2 candidates and 1 input records"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := layout(t).ParseVectors(c.text)
			if !errors.Is(err, kit.ErrVectors) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	f, err := layout(t).ParseVectors("vector \"x\" gate\nin\n")
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, "x", kit.Compiled(compile(t, gate(kittest.Const(0)))))
	if _, err := f.Run(context.Background(), p); !errors.Is(err, kit.ErrVectors) || !strings.Contains(err.Error(), "says no answer") {
		t.Errorf("a vector without an answer: %v", err)
	}
	if f, err = layout(t).ParseVectors("vector \"x\" admit\ndeclined\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Run(context.Background(), p); !errors.Is(err, kit.ErrVectors) || !strings.Contains(err.Error(), "does not answer admit") {
		t.Errorf("a hook that the policy lacks: %v", err)
	}
}

// However much of a file is garbage, an error stays one line that can be read.
func TestVectorErrorsQuoteLittle(t *testing.T) {
	junk := strings.Repeat("\U000e0001", 100_000) // a rune that is quoted as ten bytes
	for _, text := range []string{
		"@\n", "@=1\n", "vector @\n", "vector \"@\"\n", "vector \"@\" gate\nin\nin\nout\n", "vector \"@\" gate\nin\nout\ndeclined\n",
		"vector \"@\" admit\nglobals Candidates=2\nin\n", "vector \"x\" @\n", "vector \"x\" gate @\n", "vector \"x\" gate tick=@\n", "fresh @\n",
		"vector \"x\" gate\n@\n", "vector \"x\" gate\nin @\n", "vector \"x\" gate\nin @=1\n", "vector \"x\" gate\nin ReqKey=@\n",
		"vector \"x\" gate\nin RawPoll=@\n", "vector \"x\" gate\nin Flags=@\n", "vector \"x\" gate\nout Vote=@\n", "vector \"x\" gate\nstatus @\n",
		"vector \"x\" gate\nfault @\n",
	} {
		for _, fill := range []string{junk, strings.Repeat("1", len(junk))} {
			_, err := layout(t).ParseVectors(strings.ReplaceAll(text, "@", fill))
			if !errors.Is(err, kit.ErrVectors) || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "…") {
				t.Errorf("%q: %.1200v", text, err)
			}
		}
	}
	_, err := kit.Scaffold(root(), "go", "gate", junk)
	if !errors.Is(err, kit.ErrTemplate) || len(err.Error()) > 1000 {
		t.Errorf("a long name: %.1200v", err)
	}
}

// Candidates are counted up to the first running request unless they are given.
func TestCandidatesAreCounted(t *testing.T) {
	f, err := layout(t).ParseVectors("vector \"x\" admit\nin\nin Kind=Resume\nin Kind=Running\nout\nout Order=1\nvector \"y\" admit\nglobals Candidates=1\nin\nin\nout\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{2, 1} {
		if v := f.Vectors[i]; v.NOut != want || abi.GetAdmitGlobals(v.Globals).Candidates != uint32(want) {
			t.Errorf("%s: %d answers", v.Name, v.NOut)
		}
	}
}

// Any record that is written in words is read back the same: names, flags and numbers of every hook.
func TestVectorsRoundTrip(t *testing.T) {
	const seed = 7
	l := layout(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for run := range 200 {
		h := l.Hooks[run%len(l.Hooks)]
		n := rng.IntN(4)
		globals, in := make([]byte, h.Globals.Size), make([]byte, n*h.In.Size)
		fill := func(r *kit.Record, b []byte) {
			for _, f := range r.Fields {
				if f.Name == "Candidates" {
					b[f.Off] = byte(n)
					continue
				}
				for k := range f.Width {
					if rng.IntN(2) == 0 {
						b[f.Off+k] = byte(rng.Uint32())
					}
				}
			}
		}
		fill(&h.Globals, globals)
		for i := range n {
			fill(&h.In, in[i*h.In.Size:(i+1)*h.In.Size])
		}
		text := l.AppendVector(nil, "a \"name\"", &h, uint64(run), 2, globals, in)
		f, err := l.ParseVectors(string(text))
		if err != nil {
			t.Fatalf("seed %d, run %d: %v\n%s", seed, run, err, text)
		}
		if v := f.Vectors[0]; !slices.Equal(v.Globals, globals) || !slices.Equal(v.In, in) || v.Tick != uint64(run) || v.Name != "a \"name\"" {
			t.Fatalf("seed %d, run %d: %+v came back from\n%s", seed, run, v, text)
		}
	}
}

func FuzzVectors(f *testing.F) {
	f.Add(goodVectors)
	f.Add("vector \"x\" admit\nglobals Candidates=4294967295\nin Kind=Running\nfresh\n")
	l := layout(f)
	f.Fuzz(func(t *testing.T, text string) {
		file, err := l.ParseVectors(text)
		if err != nil && !errors.Is(err, kit.ErrVectors) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if err == nil {
			for _, v := range file.Vectors {
				if v.NOut > v.N && v.NOut != 1 || len(v.In) != v.N*v.Hook.In.Size {
					t.Fatal(fmt.Sprint(v))
				}
			}
		}
	})
}

// fresh gives the next vector an instance that has seen nothing: a policy that counts its calls starts again.
func TestFresh(t *testing.T) {
	// Votes the number of calls so far, kept in memory at address 16.
	count := slices.Concat(
		kittest.Const(16), kittest.Const(16), []byte{0x2D, 0, 0}, kittest.Const(1), []byte{0x6A, 0x3A, 0, 0},
		kittest.Votes(slices.Concat(kittest.Const(16), []byte{0x2D, 0, 0})))
	text := "vector \"a\" gate\nin\nout Vote=1\nvector \"b\" gate\nin\nout Vote=2\nfresh\nvector \"c\" gate\nin\nout Vote=1\n"
	f, err := layout(t).ParseVectors(text)
	if err != nil {
		t.Fatal(err)
	}
	if failed, err := f.Run(context.Background(), open(t, "x", kit.Compiled(compile(t, gate(count))))); err != nil || len(failed) > 0 {
		t.Errorf("%v, %v", failed, err)
	}
}
