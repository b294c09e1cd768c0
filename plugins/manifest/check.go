package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// CheckConfig judges a policy's table, as canonical JSON, against the manifest's schema: every key that is not named, is
// missing, or has a value that is not allowed, in one line. Empty text is an empty table. Without a schema everything is
// allowed, and it may be called on nil. Nothing is filled in: a policy's own bytes decide what it takes for a key that is
// left out. The error names at most maxWrong keys and the kinds of their values, and never a value, which may be a secret:
// why a policy was refused is kept, and told to whoever asks for the policies.
func (m *Manifest) CheckConfig(canonical []byte) error {
	if m == nil || m.Config == nil {
		return nil
	}
	table := map[string]any{}
	if len(canonical) > 0 {
		d := json.NewDecoder(strings.NewReader(string(canonical)))
		d.UseNumber()
		err := d.Decode(&table)
		if err == nil {
			if _, more := d.Token(); more != io.EOF {
				err = errors.New("text follows the object")
			}
		}
		if err != nil {
			return fmt.Errorf("the configuration is not one JSON object: %w", err)
		}
	}
	names := sorted(m.Config)
	var wrong []string
	more := 0
	say := func(what func() string) {
		if len(wrong) == maxWrong {
			more++ // a table may have very many keys, and a suggestion takes its time
			return
		}
		wrong = append(wrong, what())
	}
	for _, key := range sorted(table) {
		k, ok := m.Config[key]
		if !ok {
			say(func() string { return fmt.Sprintf("%s is no key of the policy; %s", bare(key), suggestion(key, names)) })
			continue
		}
		if _, want := k.value(table[key]); want != "" {
			say(func() string { return fmt.Sprintf("%s is %s; it must be %s", key, k.wrong(table[key]), want) })
		}
	}
	for _, name := range names {
		if _, given := table[name]; m.Config[name].Required && !given {
			say(func() string { return fmt.Sprintf("%s is missing; write %s", name, m.Config[name].Want()) })
		}
	}
	if more > 0 {
		wrong = append(wrong, fmt.Sprintf("and %d more", more))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// maxWrong is how many wrong keys one error tells of.
const maxWrong = 8

// wrong says what kind of value, which is none of the key's, v is.
func (k Key) wrong(v any) string {
	_, whole := integer(v)
	_, number := float(v)
	switch list, isList := v.([]any); {
	case isList && (k.Type == Integers || k.Type == Strings):
		return fmt.Sprintf("a list with an entry, of %d, that is not allowed", len(list))
	case whole && k.Type == Integer, number && k.Type == Float:
		return "out of its range"
	case isList:
		return "a list"
	case whole:
		return "an integer"
	case number && !strings.ContainsAny(fmt.Sprint(v), ".eE"):
		return "an integer that does not fit 64 bits"
	case number:
		return "a number with a fraction"
	}
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case map[string]any:
		return "a table"
	}
	return "a number that does not fit 64 bits"
}

// bare is a key as it is written, quoted and cut where it is no key that a schema can have.
func bare(key string) string {
	if key == "" || len(key) > maxShown || strings.Trim(key, keyChars) != "" {
		return shown(key)
	}
	return key
}
