package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Sources is everything a configuration is made of. A later field overrides an earlier one, key by key.
type Sources struct {
	// FileName is how messages name the file; its folder is where relative policy paths in it start.
	FileName string
	// File is the TOML text; nil or empty means every key at its default.
	File []byte
	// Environ is the environment as NAME=VALUE. Names that do not begin with SLUICE_ are ignored.
	Environ []string
	// Flags holds the text of each flag that was given, by the key's full name.
	Flags map[string]string
}

// The levels of precedence, lowest first.
const (
	levelDefault = iota
	levelFile
	levelEnv
	levelFlag
	levels
)

// Load reads all sources through one validation. The error is of type Problems and lists everything that is wrong in
// any source, also in values that a higher one overrides; the Config is then nil. A syntax error or a duplicate key in
// the file hides what else is wrong in the file, not what is wrong elsewhere. Warnings do not stop a start.
func Load(src Sources) (*Config, []Problem, error) {
	l := newLoader()
	l.readFile(src.FileName, src.File)
	l.readEnviron(src.Environ)
	l.readFlags(src.Flags)
	cfg, warnings := l.assemble()
	if len(l.problems) > 0 {
		slices.SortStableFunc(l.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Key, b.Key))
		})
		return nil, warnings, Problems(l.problems)
	}
	return cfg, warnings, nil
}

// Where is the source of a key's value, as Problem.Source names it; empty for a key that there is not.
func Where(src Sources, key string) string {
	l := newLoader()
	i, ok := l.byName[key]
	if !ok {
		return ""
	}
	l.readFile(src.FileName, src.File)
	l.readEnviron(src.Environ)
	l.readFlags(src.Flags)
	return l.effective(i).source
}

// loader is the state of one Load.
type loader struct {
	file     string
	scan     *scanned
	broken   bool // the file could not be read, so its values are unknown
	keys     []Key
	byName   map[string]int
	byEnv    map[string]int
	sections map[string]bool
	given    [][levels]setting // by key
	bad      map[string]bool   // keys with a wrong value in some source
	problems []Problem
}

// setting is one key's value in one source.
type setting struct {
	set    bool
	source string
	order  int
	value  any
}

func newLoader() *loader {
	l := &loader{
		keys: keys(), byName: map[string]int{}, byEnv: map[string]int{},
		sections: map[string]bool{}, bad: map[string]bool{},
	}
	l.given = make([][levels]setting, len(l.keys))
	for i, k := range l.keys {
		l.byName[k.Name], l.byEnv[k.Env()] = i, i
		l.given[i][levelDefault] = setting{set: true, source: "default", value: k.def}
	}
	for _, s := range append(sections(), inlineTables()...) {
		l.sections[s.Name] = true
	}
	return l
}

// orderOf sorts problems by level, then by line.
func orderOf(level, line int) int { return level*(MaxFile+2) + line }

// take stores a value, or the problem with it, at one level.
func (l *loader) take(k Key, level int, source string, line int, v any, wrong string) {
	order := orderOf(level, line)
	if wrong != "" {
		l.bad[k.Name] = true
		l.problems = append(l.problems, Problem{Source: source, Key: k.Name, Text: k.Name + " " + wrong, order: order})
		return
	}
	l.given[l.byName[k.Name]][level] = setting{set: true, source: source, order: order, value: v}
}

func (l *loader) readEnviron(environ []string) {
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		if i, ok := l.byEnv[name]; ok {
			v, wrong := l.keys[i].fromText(text)
			l.take(l.keys[i], levelEnv, name, 0, v, wrong)
			continue
		}
		names := make([]string, len(l.keys))
		for i, k := range l.keys {
			names[i] = k.Env()
		}
		best, close := nearestEnv(name, names)
		l.problems = append(l.problems, Problem{
			Source: clip(name), Key: clip(name), order: orderOf(levelEnv, 0),
			Text: "no key has this name; " + suggestion(best, close) + " (names that begin with " + envPrefix + " are the configuration's)",
		})
	}
}

// nearestEnv compares names without their common prefix, which would make everything look alike.
func nearestEnv(name string, names []string) (string, bool) {
	short := make([]string, len(names))
	for i, n := range names {
		short[i] = strings.TrimPrefix(n, envPrefix)
	}
	best, close := Nearest(strings.TrimPrefix(name, envPrefix), short)
	return envPrefix + best, close
}

func (l *loader) readFlags(flags map[string]string) {
	for name, text := range flags {
		if i, ok := l.byName[name]; ok {
			v, wrong := l.keys[i].fromText(text)
			l.take(l.keys[i], levelFlag, "--"+name, 0, v, wrong)
			continue
		}
		best, close := NearestKey(name)
		hint := suggestion("--"+best, close)
		if inside := SectionKeys(name); len(inside) > 0 {
			hint = "it is a section, with the keys " + strings.Join(inside, ", ")
		}
		l.problems = append(l.problems, Problem{
			Source: "--" + clip(name), Key: clip(name), order: orderOf(levelFlag, 0), Text: "no key has this name; " + hint,
		})
	}
}

// NearestKey is the key that a mistyped full name most likely meant; close as in Nearest.
func NearestKey(name string) (best string, close bool) { return nearestKey(strings.Split(name, ".")) }

// assemble applies precedence and then the checks that look at more than one key.
func (l *loader) assemble() (*Config, []Problem) {
	cfg := &Config{}
	for i, k := range l.keys {
		k.set(cfg, l.effective(i).value)
	}
	if l.broken {
		return cfg, nil
	}
	for _, section := range []string{"policy.gate", "policy.reserve", "policy.admit", "policy.score"} {
		l.chooseHook(cfg, section)
	}
	return cfg, l.crossChecks(cfg)
}

func (l *loader) effective(i int) setting {
	for level := levelFlag; level > levelDefault; level-- {
		if l.given[i][level].set {
			return l.given[i][level]
		}
	}
	return l.given[i][levelDefault]
}

// chooseHook settles builtin against path. Within one source only one may be set; the highest source that sets either
// decides, so that a flag naming a path replaces the file's builtin. An empty text takes back what lower sources set.
func (l *loader) chooseHook(cfg *Config, section string) {
	names := [2]string{section + ".builtin", section + ".path"}
	if l.bad[names[0]] || l.bad[names[1]] {
		return
	}
	var chosen, emptied setting
	pick, masked := -1, [2]bool{}
	for level := levelFlag; level >= levelDefault && pick < 0; level-- {
		var live [2]bool
		for n, name := range names {
			s := l.given[l.byName[name]][level]
			if !s.set {
				continue
			}
			live[n] = s.value != "" && !masked[n]
			if s.value == "" && !masked[n] && level > levelDefault {
				emptied, masked[n] = s, true
			}
		}
		if live[0] && live[1] {
			s := l.given[l.byName[names[1]]][level]
			l.problems = append(l.problems, Problem{Source: s.source, Key: names[1], order: s.order,
				Text: fmt.Sprintf("%s and %s are both set; remove one", names[0], names[1])})
			return
		}
		for n := range live {
			if live[n] {
				pick, chosen = n, l.given[l.byName[names[n]]][level]
			}
		}
	}
	if pick < 0 {
		l.problems = append(l.problems, Problem{Source: emptied.source, Key: names[0], order: emptied.order,
			Text: fmt.Sprintf("neither %s nor %s is set; set one", names[0], names[1])})
		return
	}
	l.keys[l.byName[names[pick]]].set(cfg, chosen.value)
	l.keys[l.byName[names[1-pick]]].set(cfg, "")
	engine := l.effective(l.byName[section+".engine"])
	if pick == 1 && engine.value == EngineNative && !l.bad[section+".engine"] {
		l.problems = append(l.problems, Problem{Source: engine.source, Key: section + ".engine", order: engine.order,
			Text: fmt.Sprintf("%s.engine is %q, but %s (%s) is a Wasm module; write %q or name a builtin",
				section, EngineNative, names[1], chosen.source, EngineWasm)})
	}
}
