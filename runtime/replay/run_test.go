package replay

import (
	"os"
	"testing"

	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/rank"
)

func nativeHooks(gate, reserve, admit string) func(int) (rank.Hooks, error) {
	return func(int) (rank.Hooks, error) {
		set, err := plugins.NewNativeSet(standard.Config{Gate: gate, Reserve: reserve, Admit: admit})
		if err != nil {
			return rank.Hooks{}, err
		}
		return rank.NewPolicies(set, nil).Hooks(), nil
	}
}

func TestDbgTrace(t *testing.T) {
	f, err := os.Open(os.Getenv("TRACE"))
	if err != nil {
		t.Skip()
	}
	trace, err := ReadTrace(f, 500)
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultRunOptions()
	o.Hooks = nativeHooks("restore-gated", "until-retired", "fifo-headroom")
	o.Verify = true
	r, err := Run(trace, o)
	t.Logf("%+v %v", r, err)
}
