package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/abi"
	"sluice/internal/config"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/replay"
	"sluice/runtime/schedule"
)

// replayFlags are the command line of sluice replay.
type replayFlags struct {
	trace, engine string
	limit         int
	policies      []string
	onFault       []string
	quarantine    []string
	configs       []string
	asJSON        bool
	o             replay.RunOptions
}

func newReplayCommand(env *environment) *cobra.Command {
	f := replayFlags{o: replay.DefaultRunOptions()}
	cmd := &cobra.Command{
		Use:   "replay --trace FILE",
		Short: "Run a trace of real traffic through a decode group in virtual time",
		Long: `Run a Mooncake trace through the whole decode runtime in virtual time: real ranks, real pages (a 16-byte stamp
each), real ballots. A run is a function of its flags and the trace: two runs print the same but for the wall time.
Where a hook is given several policies there is one run for each of them, shown side by side.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runReplay(cmd, env, &f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.trace, "trace", "", "trace `FILE`, one JSON object a line, or - for stdin")
	fl.IntVar(&f.limit, "limit", 0, "replay only the first so many requests; 0 = all")
	fl.StringArrayVar(&f.policies, "policy", nil, "HOOK=FILE.wasm or HOOK=NAME of a shipped policy; several of one hook are run one after another and shown side by side")
	fl.StringArrayVar(&f.onFault, "on-fault", nil, "HOOK=native or HOOK=hold: who answers while the hook's policy is faulty; may be repeated")
	fl.StringArrayVar(&f.quarantine, "quarantine", nil, "HOOK=FAULTS/TICKS: faults within so many ticks that quarantine the hook's policy; may be repeated")
	fl.StringArrayVar(&f.configs, "policy-config", nil, "HOOK=JSON, the configuration of the module that --policy names for HOOK; one for all of them, or one each, in their order")
	fl.StringVar(&f.engine, "engine", config.EngineWasm, "run shipped policies as wasm or native")
	fl.BoolVar(&f.asJSON, "json", false, "print the result as JSON; its names are in the README")
	fl.IntVar(&f.o.Ranks, "ranks", f.o.Ranks, "decode ranks, 1 to 8")
	fl.IntVar(&f.o.L1Tokens, "l1-tokens", f.o.L1Tokens, "tokens that L1 holds on each rank")
	fl.Float64Var(&f.o.L2Ratio, "l2-ratio", f.o.L2Ratio, "size of L2 as a multiple of L1, 0 to 64")
	fl.IntVar(&f.o.PageSize, "page-size", f.o.PageSize, "tokens in one page")
	fl.IntVar(&f.o.Reserved, "reserved-decode-tokens", f.o.Reserved, "tokens kept free for each active request at admission")
	fl.Float64Var(&f.o.Overcommit, "overcommit", f.o.Overcommit, "share of what a request may still generate that is set aside, above 0 to 1")
	fl.IntVar(&f.o.MaxRunning, "max-running", f.o.MaxRunning, "requests in the running batch")
	fl.DurationVar(&f.o.Tick, "tick", f.o.Tick, "virtual time of one tick")
	fl.DurationVar(&f.o.Chunk, "chunk-time", f.o.Chunk, "virtual time the prefill peer takes for 16 pages")
	fl.Uint64Var(&f.o.Seed, "seed", f.o.Seed, "seed of the peer's jitter")
	fl.BoolVar(&f.o.Verify, "verify", false, "run the oracles after every tick and check every token")
	return cmd
}

func (f *replayFlags) check() error {
	var errs []error
	in := func(name string, v, lo, hi int) {
		if v < lo || v > hi {
			errs = append(errs, fmt.Errorf("--%s %d: must be %d to %d", name, v, lo, hi))
		}
	}
	if f.trace == "" {
		errs = append(errs, errors.New("--trace is needed: a file with one JSON object a line"))
	}
	if f.engine != config.EngineWasm && f.engine != config.EngineNative {
		errs = append(errs, fmt.Errorf("--engine %q: must be %s or %s", f.engine, config.EngineWasm, config.EngineNative))
	}
	in("limit", f.limit, 0, 1<<30)
	in("ranks", f.o.Ranks, 1, 8)
	in("page-size", f.o.PageSize, 1, 1024)
	in("l1-tokens", f.o.L1Tokens, 2*max(f.o.PageSize, 1), 1<<28)
	in("reserved-decode-tokens", f.o.Reserved, 0, f.o.L1Tokens-1)
	in("max-running", f.o.MaxRunning, 1, 65536)
	if !(f.o.L2Ratio >= 0 && f.o.L2Ratio <= 64) {
		errs = append(errs, fmt.Errorf("--l2-ratio %v: must be 0 to 64", f.o.L2Ratio))
	}
	if !(f.o.Overcommit > 0 && f.o.Overcommit <= 1) {
		errs = append(errs, fmt.Errorf("--overcommit %v: must be above 0 and at most 1", f.o.Overcommit))
	}
	if f.o.Tick <= 0 || f.o.Tick > time.Minute || f.o.Chunk < 0 || f.o.Chunk > time.Minute {
		errs = append(errs, fmt.Errorf("--tick %v, --chunk-time %v: must be above 0 (0 for chunk-time) and at most 1m", f.o.Tick, f.o.Chunk))
	}
	return errors.Join(errs...)
}

// health reads --on-fault and --quarantine into the options of the run.
func (f *replayFlags) health() error {
	for _, text := range f.onFault {
		h, who, ok := hookFlag(text)
		if !ok || who != config.OnFaultNative && who != config.OnFaultHold {
			return fmt.Errorf("--on-fault %q: want HOOK=%s or HOOK=%s, with HOOK gate, reserve, admit or score", text, config.OnFaultNative, config.OnFaultHold)
		}
		f.o.HoldOnFault[schedule.Lane(h)] = who == config.OnFaultHold
	}
	for _, text := range f.quarantine {
		h, rule, ok := hookFlag(text)
		faults, ticks, _ := strings.Cut(rule, "/")
		k, err := strconv.Atoi(faults)
		m, err2 := strconv.Atoi(ticks)
		if !ok || err != nil || err2 != nil || k < 1 || k > 1000 || m < 1 || m > config.MaxTicks {
			return fmt.Errorf("--quarantine %q: want HOOK=FAULTS/TICKS such as gate=3/1000, 1 to 1000 faults within 1 to %d ticks, with HOOK gate, reserve, admit or score", text, config.MaxTicks)
		}
		f.o.Quarantine[schedule.Lane(h)] = schedule.Quarantine{Faults: k, Window: m}
	}
	return nil
}

// hookFlag cuts HOOK=VALUE.
func hookFlag(text string) (h abi.Hook, value string, ok bool) {
	name, value, _ := strings.Cut(text, "=")
	for _, h := range configured() {
		if h.String() == name {
			return h, value, true
		}
	}
	return 0, value, false
}

// plainLRU says whether the spec orders eviction as the cache does by itself, so that nobody has to be asked.
func plainLRU(s *plugins.Spec) bool { return s.Hook == abi.Score && s.Builtin == standard.DefaultScore }

func (f *replayFlags) read(env *environment) ([]replay.TraceRequest, error) {
	if f.trace == "-" {
		return replay.ReadTrace(env.stdin, f.limit)
	}
	file, err := os.Open(f.trace)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	t, err := replay.ReadTrace(file, f.limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.trace, err)
	}
	return t, nil
}
