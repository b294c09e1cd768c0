package decode

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"sluice/abi"
	"sluice/internal/config"
	"sluice/internal/text"
	"sluice/plugins"
	"sluice/runtime/server"
)

func hooksOf(qs []server.StageRequest) []string {
	out := make([]string, len(qs))
	for i := range qs {
		out[i] = qs[i].Hook
	}
	return out
}

// specOf checks everything about a request that needs no compiling.
func specOf(q *server.StageRequest) (plugins.Spec, error) {
	s := plugins.Spec{Builtin: q.Builtin, Module: q.Module, Name: q.Name, Signature: q.Signature, Native: q.Engine == config.EngineNative}
	for _, h := range hooks() {
		if h.String() == q.Hook {
			s.Hook = h
		}
	}
	if s.Hook == 0 {
		return s, fmt.Errorf("no hook is named %s; hooks are %s", text.Quote(q.Hook), hookNames())
	}
	given := 0
	for _, set := range [...]bool{q.Builtin != "", len(q.Module) > 0} {
		if set {
			given++
		}
	}
	switch {
	case given != 1:
		return s, fmt.Errorf("%s: %d of builtin, path and module_base64 are given; give one", q.Hook, given)
	case q.Engine != "" && q.Engine != config.EngineNative && q.Engine != config.EngineWasm:
		return s, fmt.Errorf("%s: no engine is named %s; engines are %s and %s", q.Hook, text.Quote(q.Engine), config.EngineWasm, config.EngineNative)
	case q.Builtin == "" && s.Native:
		return s, fmt.Errorf("%s: a module cannot run as native Go; leave the engine out", q.Hook)
	case q.Builtin != "" && q.SHA256 != "":
		return s, fmt.Errorf("%s: sha256 pins a module, and %s is built in; leave it out", q.Hook, text.Quote(q.Builtin))
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(s.Module)); q.SHA256 != "" && !strings.EqualFold(got, q.SHA256) {
		return s, fmt.Errorf("%s: the module's sha256 is %s, pinned is %s; give the module that was meant, or its hash", q.Hook, got, text.Line(q.SHA256, 2*sha256.Size))
	}
	var err error
	s.Config, err = canonical(s.Hook, q.Config)
	return s, err
}

func hookNames() string {
	var names []string
	for _, h := range hooks() {
		names = append(names, h.String())
	}
	return strings.Join(names, ", ")
}

// canonical is a policy's configuration in the one form that policies get, whoever gives it: that of the config file's.
func canonical(h abi.Hook, table []byte) ([]byte, error) {
	if len(table) == 0 {
		return nil, nil
	}
	key := "policy." + h.String() + ".config"
	c, _, err := config.Load(config.Sources{Flags: map[string]string{key: string(table)}})
	var problems config.Problems
	if errors.As(err, &problems) && len(problems) > 0 {
		return nil, errors.New(problems[0].Text)
	}
	if err != nil {
		return nil, err
	}
	switch h {
	case abi.Reserve:
		return c.Policy.Reserve.Config, nil
	case abi.Admit:
		return c.Policy.Admit.Config, nil
	case abi.Score:
		return c.Policy.Score.Config, nil
	}
	return c.Policy.Gate.Config, nil
}
