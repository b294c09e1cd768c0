package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// config reads the schema of the policy's own table.
func (p *parser) config(v any) map[string]Key {
	t := p.table("config", v)
	if t == nil {
		return nil
	}
	if len(t) > MaxKeys {
		p.fail("config", "has %d keys, at most %d are allowed; remove some", len(t), MaxKeys)
		return nil
	}
	out := map[string]Key{}
	for _, name := range sorted(t) {
		if name == "" || len(name) > 64 || strings.Trim(name, keyChars) != "" {
			p.fail("config", "names the key %s; a key is 1 to 64 letters, digits, _ and -", shown(name))
			return nil
		}
		out[name] = p.key("config."+name, t[name])
	}
	return out
}

const keyChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

func (p *parser) key(field string, v any) Key {
	t := p.table(field, v, "type", "default", "min", "max", "required", "doc")
	typ, isText := t["type"].(string)
	k := Key{Type: Type(typ), Doc: p.text(field+".doc", t["doc"], MaxText)}
	if !isText || !k.Type.known() {
		p.fail(field+".type", "is %s; it must be one of %s", shown(t["type"]), typeNames())
		return k
	}
	k.Min, k.Max = p.bound(field+".min", k.Type, t["min"]), p.bound(field+".max", k.Type, t["max"])
	if p.err == nil && k.Min != nil && k.Max != nil && compare(k.Min, k.Max) > 0 {
		p.fail(field+".min", "is %v, above max, which is %v; swap them", k.Min, k.Max)
	}
	if r := t["required"]; r != nil {
		yes, ok := r.(bool)
		if !ok {
			p.fail(field+".required", "is %s; it must be true or false", shown(r))
		}
		k.Required = yes
	}
	if d := t["default"]; d != nil && p.err == nil {
		if k.Required {
			p.fail(field+".default", "is given and required is true; a key that must be there has no default, remove one")
		}
		var wrong string
		if k.Default, wrong = k.value(d); wrong != "" {
			p.fail(field+".default", "is %s; it must be %s", shown(d), wrong)
		}
		if wrong == "" && !allPrintable(k.Default) {
			p.fail(field+".default", "is %s, which has characters that cannot be shown; remove them", shown(d))
		}
	}
	return k
}

// bound is a key's min or max.
func (p *parser) bound(field string, t Type, v any) any {
	if v == nil {
		return nil
	}
	one := t
	if t == Integers {
		one = Integer
	}
	if one != Integer && one != Float {
		p.fail(field, "is given for a key of type %s; only numbers have bounds, remove it", t)
		return nil
	}
	b, wrong := Key{Type: one}.value(v)
	if wrong != "" {
		p.fail(field, "is %s; it must be %s", shown(v), wrong)
		return nil
	}
	return b
}

func (t Type) known() bool {
	for _, one := range Types() {
		if t == one {
			return true
		}
	}
	return false
}

func typeNames() string {
	var names []string
	for _, t := range Types() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// value is a value of the key, or what it must be instead.
func (k Key) value(v any) (got any, want string) {
	ok := false
	switch k.Type {
	case Integer:
		var n int64
		n, ok = integer(v)
		got, ok = n, ok && k.within(n)
	case Float:
		var f float64
		f, ok = float(v)
		got, ok = f, ok && k.within(f)
	case Boolean:
		got, ok = v.(bool)
	case String:
		got, ok = v.(string)
	case Integers:
		got, ok = each(v, func(item any) (int64, bool) {
			n, ok := integer(item)
			return n, ok && k.within(n)
		})
	case Strings:
		got, ok = each(v, func(item any) (string, bool) {
			s, ok := item.(string)
			return s, ok
		})
	}
	if !ok {
		return nil, k.Want()
	}
	return got, ""
}

// allPrintable says whether a value of a key can be shown.
func allPrintable(v any) bool {
	switch v := v.(type) {
	case string:
		return printable(v)
	case []string:
		return !slices.ContainsFunc(v, func(s string) bool { return !printable(s) })
	}
	return true
}

func each[T any](v any, one func(any) (T, bool)) ([]T, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	out := make([]T, 0, len(list))
	for _, item := range list {
		t, ok := one(item)
		if !ok {
			return nil, false
		}
		out = append(out, t)
	}
	return out, true
}

func (k Key) within(v any) bool {
	return (k.Min == nil || compare(v, k.Min) >= 0) && (k.Max == nil || compare(v, k.Max) <= 0)
}

// compare orders two numbers of one type.
func compare(a, b any) int {
	if x, ok := a.(int64); ok {
		y, _ := b.(int64)
		return cmp.Compare(x, y)
	}
	x, _ := a.(float64)
	y, _ := b.(float64)
	return cmp.Compare(x, y)
}

// Want says in words what a value of the key is.
func (k Key) Want() string {
	noun := map[Type]string{
		Integer: "an integer", Float: "a number", Boolean: "true or false", String: "a text in quotes",
		Integers: "a list of integers", Strings: "a list of texts in quotes",
	}[k.Type]
	switch {
	case k.Min != nil && k.Max != nil:
		return fmt.Sprintf("%s between %v and %v", noun, k.Min, k.Max)
	case k.Min != nil:
		return fmt.Sprintf("%s, at least %v", noun, k.Min)
	case k.Max != nil:
		return fmt.Sprintf("%s, at most %v", noun, k.Max)
	}
	return noun
}
