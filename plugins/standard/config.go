package standard

import (
	"errors"
	"strconv"

	"sluice/abi"
)

// ErrConfig is what every refused configuration wraps.
var ErrConfig = errors.New("bad policy configuration")

// Config says which shipped policy answers each hook of one instance. An empty name leaves the hook to the host.
type Config struct{ Gate, Reserve, Admit, Score string }

// Name is the policy of one hook.
func (c Config) Name(hook abi.Hook) string {
	switch hook {
	case abi.Gate:
		return c.Gate
	case abi.Reserve:
		return c.Reserve
	case abi.Admit:
		return c.Admit
	case abi.Score:
		return c.Score
	}
	return ""
}

// JSON is the configuration bytes of the shipped module, in one canonical form: {"builtin":{"admit":...,"gate":...,
// "reserve":...,"score":...}} with the named hooks only, keys sorted.
func (c Config) JSON() []byte {
	out := []byte(`{"builtin":{`)
	first := true
	for _, hook := range [...]abi.Hook{abi.Admit, abi.Gate, abi.Reserve, abi.Score} {
		if c.Name(hook) == "" {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = strconv.AppendQuote(out, hook.String())
		out = append(out, ':')
		out = strconv.AppendQuote(out, c.Name(hook))
	}
	return append(out, `}}`...)
}

// ParseConfig reads what JSON writes; white space, order and a missing hook are free. An unknown key or policy, a
// duplicate, and anything after the object are errors that wrap ErrConfig and say where.
func ParseConfig(text []byte) (Config, error) {
	p := parser{text: text}
	var c Config
	err := p.object(func(key string) error {
		if key != "builtin" {
			return p.fail("unknown key " + strconv.Quote(key) + ", the only one is \"builtin\"")
		}
		return p.object(func(key string) error { return p.hook(key, &c) })
	})
	if err != nil {
		return Config{}, err
	}
	p.space()
	if p.at != len(p.text) {
		return Config{}, p.fail("something follows the object")
	}
	return c, nil
}

// parser reads the two-level object of strings that a configuration is; the pure set has no general JSON reader.
type parser struct {
	text []byte
	at   int
}

func (p *parser) fail(what string) error {
	return &configError{what: what, at: p.at}
}

type configError struct {
	what string
	at   int
}

func (e *configError) Error() string {
	return ErrConfig.Error() + ": " + e.what + " (byte " + strconv.Itoa(e.at) + ")"
}

func (e *configError) Unwrap() error { return ErrConfig }

func (p *parser) hook(key string, c *Config) error {
	name, err := p.str()
	if err != nil {
		return err
	}
	var hook abi.Hook
	var into *string
	switch key {
	case "gate":
		hook, into = abi.Gate, &c.Gate
	case "reserve":
		hook, into = abi.Reserve, &c.Reserve
	case "admit":
		hook, into = abi.Admit, &c.Admit
	case "score":
		hook, into = abi.Score, &c.Score
	default:
		return p.fail("unknown hook " + strconv.Quote(key))
	}
	if !Known(hook, name) {
		return p.fail("no " + key + " policy is named " + strconv.Quote(name))
	}
	if *into != "" {
		return p.fail("hook " + key + " is given twice")
	}
	*into = name
	return nil
}

// object reads { "key": value, ... }, calling each at every value.
func (p *parser) object(each func(key string) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	if p.peek() == '}' {
		p.at++
		return nil
	}
	for {
		key, err := p.str()
		if err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		if err := each(key); err != nil {
			return err
		}
		if p.peek() == ',' {
			p.at++
			continue
		}
		return p.expect('}')
	}
}

// str reads a string without escapes: no hook and no policy has a name that needs one.
func (p *parser) str() (string, error) {
	if err := p.expect('"'); err != nil {
		return "", err
	}
	from := p.at
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return string(p.text[from : p.at-1]), nil
		case c == '\\' || c < ' ':
			return "", p.fail("a name holds an escape or a control character")
		}
	}
	return "", p.fail("a string does not end")
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// peek is the next byte after white space, 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) expect(c byte) error {
	if p.peek() != c {
		return p.fail("expected " + strconv.QuoteRune(rune(c)))
	}
	p.at++
	return nil
}
