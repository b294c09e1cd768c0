package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"sluice/internal/text"
)

// bodyError says what is wrong with a request body, and where. Its text is for
// the client.
type bodyError struct{ message string }

func (e *bodyError) Error() string { return e.message }

// value is one JSON value inside a body: its bytes, its path ("sampling_params.n")
// and where it starts, so that an error can name field, line and offset.
type value struct {
	body []byte // the whole body
	raw  []byte // this value, valid JSON without surrounding white space
	off  int    // where raw starts in body
	path string
}

// parseBody checks that body is one JSON value in valid UTF-8, and returns it.
func parseBody(body []byte) (value, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return value{}, &bodyError{"the body is empty; send a JSON object"}
	}
	if i := invalidUTF8(body); i >= 0 {
		return value{}, &bodyError{fmt.Sprintf("the body is not valid UTF-8 at %s; send JSON in UTF-8", position(body, i))}
	}
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return value{}, &bodyError{fmt.Sprintf("the body is not valid JSON at %s: %v",
				position(body, max(int(syntax.Offset)-1, 0)), syntax)}
		}
		return value{}, &bodyError{"the body is not valid JSON: " + err.Error()}
	}
	return value{body: body, raw: raw, off: spaces(body)}, nil
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// position is "line L, offset O": L counts from 1, O is in bytes from 0.
func position(body []byte, off int) string {
	off = min(off, len(body))
	return fmt.Sprintf("line %d, offset %d", 1+bytes.Count(body[:off], []byte{'\n'}), off)
}

// maxShownPath is how many bytes of a field's path an error shows: the keys are the client's.
const maxShownPath = 256

// errorf makes an error that names the value's path and place.
func (v value) errorf(format string, args ...any) error {
	where := v.path
	if where == "" {
		where = "the body"
	}
	where = text.Line(where, maxShownPath)
	return &bodyError{fmt.Sprintf("%s (%s): %s", where, position(v.body, v.off), fmt.Sprintf(format, args...))}
}

// got describes the value for an error: its kind, and itself where it is short.
func (v value) got() string {
	kind := v.kind()
	switch kind {
	case "null", "an object", "a list":
		return kind
	}
	raw := v.raw
	if len(raw) > 40 {
		raw = append(bytes.ToValidUTF8(raw[:37:37], nil), "..."...)
	}
	return kind + " " + string(raw)
}

func (v value) kind() string {
	switch v.raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "the string"
	case 't', 'f':
		return "the boolean"
	case 'n':
		return "null"
	}
	return "the number"
}

func (v value) isNull() bool { return v.raw[0] == 'n' }
func (v value) isList() bool { return v.raw[0] == '[' }

// object calls visit for each member, in order. A key given twice is an error:
// two readers of one body would disagree about which holds.
func (v value) object(visit func(key string, member value) error) error {
	if v.raw[0] != '{' {
		return v.errorf("want an object, got %s", v.got())
	}
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	if _, err := dec.Token(); err != nil {
		return v.errorf("%v", err)
	}
	seen := make(map[string]struct{})
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return v.errorf("%v", err)
		}
		key, _ := token.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return v.errorf("%v", err)
		}
		path := key
		if v.path != "" {
			path = v.path + "." + key
		}
		member := value{body: v.body, raw: raw, off: v.off + int(dec.InputOffset()) - len(raw), path: path}
		if _, twice := seen[key]; twice {
			return member.errorf("the field is given twice; give it once")
		}
		seen[key] = struct{}{}
		if err := visit(key, member); err != nil {
			return err
		}
	}
	return nil
}

// list calls visit for each element, in order.
func (v value) list(visit func(i int, element value) error) error {
	if !v.isList() {
		return v.errorf("want a list, got %s", v.got())
	}
	for i, at := 0, 1; ; i++ {
		at += spaces(v.raw[at:])
		if v.raw[at] == ']' {
			return nil
		}
		n := scalarLen(v.raw[at:])
		if n == 0 { // an object, a list or a string: find its end with the decoder
			var raw json.RawMessage
			if err := json.NewDecoder(bytes.NewReader(v.raw[at:])).Decode(&raw); err != nil {
				return v.errorf("%v", err)
			}
			n = len(raw)
		}
		element := value{body: v.body, raw: v.raw[at : at+n], off: v.off + at, path: v.path}
		if err := visit(i, element); err != nil {
			return err
		}
		at += n
		at += spaces(v.raw[at:])
		if v.raw[at] == ',' {
			at++
		}
	}
}

func spaces(b []byte) int {
	n := 0
	for b[n] == ' ' || b[n] == '\t' || b[n] == '\n' || b[n] == '\r' {
		n++
	}
	return n
}

// scalarLen is the length of a number, boolean or null at the start of b, and 0
// for anything else. b is the rest of a valid list.
func scalarLen(b []byte) int {
	n := 0
	for n < len(b) {
		switch b[n] {
		case '{', '[', '"', ',', ']', ' ', '\t', '\n', '\r':
			return n
		}
		n++
	}
	return n
}

func (v value) text() (string, error) {
	if v.raw[0] != '"' {
		return "", v.errorf("want a string, got %s", v.got())
	}
	var s string
	if err := json.Unmarshal(v.raw, &s); err != nil {
		return "", v.errorf("%v", err)
	}
	return s, nil
}

func (v value) boolean() (bool, error) {
	switch v.raw[0] {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	}
	return false, v.errorf("want true or false, got %s", v.got())
}

// integer wants a whole number in lo..hi, written without fraction or exponent.
func (v value) integer(lo, hi uint64) (uint64, error) {
	n, err := strconv.ParseUint(string(v.raw), 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, v.errorf("want a whole number %d..%d, got %s", lo, hi, v.got())
	}
	return n, nil
}

func (v value) number() (float64, error) {
	if v.kind() != "the number" {
		return 0, v.errorf("want a number, got %s", v.got())
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || math.IsInf(f, 0) {
		return 0, v.errorf("the number %s is out of range", text.Clip(string(v.raw), 40))
	}
	return f, nil
}

// tokens reads a list of token ids below vocab.
func (v value) tokens(vocab int) ([]uint32, error) {
	out := make([]uint32, 0, 1+bytes.Count(v.raw, []byte{','}))
	err := v.list(func(i int, element value) error {
		n, err := strconv.ParseUint(string(element.raw), 10, 32)
		if err == nil && n < uint64(vocab) {
			out = append(out, uint32(n))
			return nil
		}
		element.path = v.path + "[" + strconv.Itoa(i) + "]"
		if element.isList() {
			return element.errorf(batchMessage)
		}
		return element.errorf("want a token id 0..%d, got %s", vocab-1, element.got())
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// neutral reports whether the value asks for nothing: null, false, 0, "", [] or {}.
func (v value) neutral() bool {
	switch v.raw[0] {
	case 'n', 'f':
		return true
	case 't':
		return false
	case '"':
		return len(v.raw) == 2
	case '[', '{':
		return len(bytes.TrimSpace(v.raw[1:len(v.raw)-1])) == 0
	}
	f, err := v.number()
	return err == nil && f == 0
}
