package config

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// scanned is what the decoder does not tell: the line of every key, and the numbers it would stop at.
type scanned struct {
	entries []entry
	// lines holds the first line on which a path, or a table that leads to it, is written; keyed by pathText.
	lines map[string]int
	// numbers are literals too large for 64 bits; the text handed to the decoder has a zero in their place.
	numbers []bigNumber
	text    []byte
	// deep is the line on which nesting passes maxDepth, or zero.
	deep int
	// nameless is the line of the first empty key, or zero. The decoder drops values beside one.
	nameless int
}

// entry is one key or one table header, in the order of the file.
type entry struct {
	path   []string
	line   int
	header bool
	array  bool // of a header: an array of tables
}

type bigNumber struct {
	path    []string
	line    int
	literal string
	direct  bool // the value of path itself, and not part of an array
}

// scan walks the lines of a TOML document. It trusts the decoder to judge syntax: on what it does not understand it goes
// on with the next line, and it never fails.
func scan(data []byte) *scanned {
	s := &scanner{data: data, line: 1}
	s.out.lines = map[string]int{}
	s.out.text = append([]byte(nil), data...)
	if bytes.HasPrefix(data, []byte(byteOrderMark)) {
		s.pos = len(byteOrderMark)
	}
	for s.pos < len(s.data) {
		s.blank()
		if s.pos >= len(s.data) {
			break
		}
		if s.data[s.pos] == '[' {
			s.tableHeader()
		} else if path, ok := s.keyPath(); ok && s.take('=') {
			s.entry(entry{path: s.under(path), line: s.keyLine})
			s.value(s.under(path), 0, true)
		}
		s.restOfLine()
	}
	return &s.out
}

// byteOrderMark may stand before the first key; the decoder skips it too.
const byteOrderMark = "\xef\xbb\xbf"

type scanner struct {
	data    []byte
	pos     int
	line    int
	keyLine int // where the last key began
	table   []string
	out     scanned
}

func (s *scanner) under(path []string) []string {
	return append(append(make([]string, 0, len(s.table)+len(path)), s.table...), path...)
}

func (s *scanner) entry(e entry) {
	if len(e.path) > maxDepth {
		s.tooDeep()
		return
	}
	if s.out.nameless == 0 && slices.Contains(e.path, "") {
		s.out.nameless = e.line
	}
	s.out.entries = append(s.out.entries, e)
	for n := 1; n <= len(e.path); n++ {
		at := pathText(e.path[:n])
		if _, seen := s.out.lines[at]; !seen {
			s.out.lines[at] = e.line
		}
	}
}

func (s *scanner) tooDeep() {
	if s.out.deep == 0 {
		s.out.deep = s.line
	}
}

// blank skips spaces, ends of lines and comments.
func (s *scanner) blank() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case '\n':
			s.line++
			s.pos++
		case ' ', '\t', '\r':
			s.pos++
		case '#':
			s.comment()
		default:
			return
		}
	}
}

func (s *scanner) comment() {
	for s.pos < len(s.data) && s.data[s.pos] != '\n' {
		s.pos++
	}
}

func (s *scanner) restOfLine() {
	s.comment()
	if s.pos < len(s.data) {
		s.pos++
		s.line++
	}
}

func (s *scanner) spaces() {
	for s.pos < len(s.data) && (s.data[s.pos] == ' ' || s.data[s.pos] == '\t') {
		s.pos++
	}
}

// take skips spaces and then c, if c is next.
func (s *scanner) take(c byte) bool {
	s.spaces()
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) tableHeader() {
	s.pos++
	array := s.pos < len(s.data) && s.data[s.pos] == '['
	if array {
		s.pos++
	}
	path, ok := s.keyPath()
	if !ok || !s.take(']') {
		return
	}
	s.table = path
	s.entry(entry{path: path, line: s.keyLine, header: true, array: array})
	if len(path) > maxDepth {
		s.table = nil
	}
}

// keyPath reads a dotted key up to whatever follows it.
func (s *scanner) keyPath() ([]string, bool) {
	s.spaces()
	s.keyLine = s.line
	var path []string
	for {
		s.spaces()
		part, ok := s.keyPart()
		if !ok {
			return nil, false
		}
		if path = append(path, part); len(path) > maxDepth {
			s.tooDeep()
			return nil, false
		}
		if !s.take('.') {
			return path, true
		}
	}
}

func (s *scanner) keyPart() (string, bool) {
	if s.pos >= len(s.data) {
		return "", false
	}
	switch s.data[s.pos] {
	case '"', '\'':
		from := s.pos
		if !s.quoted(s.data[s.pos]) {
			return "", false
		}
		raw := string(s.data[from+1 : s.pos-1])
		if s.data[from] == '"' {
			raw = unescape(raw)
		}
		return raw, true
	}
	from := s.pos
	for s.pos < len(s.data) && !strings.ContainsRune(" \t\r\n.=[]{},\"'#", rune(s.data[s.pos])) {
		s.pos++
	}
	return string(s.data[from:s.pos]), s.pos > from
}

// quoted skips a string of one line, from its opening quote to behind its closing one.
func (s *scanner) quoted(q byte) bool {
	for s.pos++; s.pos < len(s.data) && s.data[s.pos] != '\n'; s.pos++ {
		switch s.data[s.pos] {
		case q:
			s.pos++
			return true
		case '\\':
			if q == '"' && s.pos+1 < len(s.data) && s.data[s.pos+1] != '\n' {
				s.pos++
			}
		}
	}
	return false
}

// longQuoted skips a string in triple quotes; up to two more quotes may stand before the closing three.
func (s *scanner) longQuoted(q byte) {
	for s.pos += 3; s.pos < len(s.data); s.pos++ {
		switch s.data[s.pos] {
		case '\n':
			s.line++
		case '\\':
			if q == '"' && s.pos+1 < len(s.data) && s.data[s.pos+1] != '\n' {
				s.pos++
			}
		case q:
			run := 1
			for run < 5 && s.pos+run < len(s.data) && s.data[s.pos+run] == q {
				run++
			}
			if run >= 3 {
				s.pos += run
				return
			}
			s.pos += run - 1
		}
	}
}

// value skips one value and records the keys of inline tables and the numbers that do not fit.
func (s *scanner) value(path []string, depth int, direct bool) {
	if depth > maxDepth {
		s.tooDeep()
		return
	}
	s.spaces()
	if s.pos >= len(s.data) {
		return
	}
	switch c := s.data[s.pos]; c {
	case '"', '\'':
		if strings.HasPrefix(string(s.data[s.pos:min(s.pos+3, len(s.data))]), strings.Repeat(string(c), 3)) {
			s.longQuoted(c)
		} else {
			s.quoted(c)
		}
	case '[':
		s.pos++
		s.items(']', func() bool {
			before := s.pos
			s.value(path, depth+1, false)
			return s.pos > before
		})
	case '{':
		s.pos++
		s.items('}', func() bool {
			key, ok := s.keyPath()
			if !ok || !s.take('=') {
				return false
			}
			full := append(append([]string(nil), path...), key...)
			s.entry(entry{path: full, line: s.keyLine})
			if len(full) <= maxDepth {
				s.value(full, depth+1, direct)
			}
			return true
		})
	default:
		s.literal(path, direct)
	}
}

// items reads what stands between brackets until end, or until an item that makes no sense.
func (s *scanner) items(end byte, item func() bool) {
	for {
		s.blank()
		if s.pos >= len(s.data) {
			return
		}
		switch s.data[s.pos] {
		case end:
			s.pos++
			return
		case ',':
			s.pos++
			continue
		}
		if !item() {
			return
		}
	}
}

func (s *scanner) literal(path []string, direct bool) {
	from := s.pos
	for s.pos < len(s.data) && !strings.ContainsRune(",]}#\n", rune(s.data[s.pos])) {
		s.pos++
	}
	text := strings.TrimRight(string(s.data[from:s.pos]), " \t\r")
	if !tooLarge(text) {
		return
	}
	s.out.numbers = append(s.out.numbers, bigNumber{path: path, line: s.line, literal: text, direct: direct})
	zero := s.out.text[from : from+len(text)]
	for i := range zero {
		zero[i] = ' '
	}
	zero[0] = '0'
}

// tooLarge reports whether text is a well-formed TOML number that 64 bits cannot hold.
func tooLarge(text string) bool {
	switch {
	case integerLiteral(text):
		_, err := strconv.ParseInt(text, 0, 64)
		return err != nil
	case floatLiteral(text):
		_, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
		return err != nil
	}
	return false
}

// integerLiteral reports whether s is an integer by TOML's grammar, whatever its size.
func integerLiteral(s string) bool {
	if len(s) > 2 && s[0] == '0' {
		switch s[1] {
		case 'x':
			return digitGroups(s[2:], "0123456789abcdefABCDEF")
		case 'o':
			return digitGroups(s[2:], "01234567")
		case 'b':
			return digitGroups(s[2:], "01")
		}
	}
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return digitGroups(s, "0123456789") && (s[0] != '0' || len(s) == 1)
}

// floatLiteral reports whether s is a float by TOML's grammar, whatever its size.
func floatLiteral(s string) bool {
	mantissa, exponent, hasExponent := s, "", false
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent, hasExponent = s[:i], strings.TrimLeft(s[i+1:], "+-"), true
		if len(s[i+1:])-len(exponent) > 1 || !digitGroups(exponent, "0123456789") {
			return false
		}
	}
	whole, fraction, hasPoint := strings.Cut(mantissa, ".")
	if hasPoint && !digitGroups(fraction, "0123456789") {
		return false
	}
	return integerLiteral(whole) && !strings.ContainsAny(whole, "xob") && (hasPoint || hasExponent)
}

// digitGroups reports whether s is digits, with single underscores between them allowed.
func digitGroups(s, digits string) bool {
	if s == "" || s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") {
		return false
	}
	return strings.Trim(s, digits+"_") == ""
}

// unescape resolves the escapes of a TOML basic string; what it does not know it keeps.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		width := 0
		switch s[i] {
		case 'b':
			b.WriteByte('\b')
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'f':
			b.WriteByte('\f')
		case 'r':
			b.WriteByte('\r')
		case 'e':
			b.WriteByte(0x1b)
		case 'x':
			width = 2
		case 'u':
			width = 4
		case 'U':
			width = 8
		default:
			b.WriteByte(s[i])
		}
		if width == 0 {
			continue
		}
		n, err := strconv.ParseUint(s[i+1:min(i+1+width, len(s))], 16, 32)
		if err != nil {
			fmt.Fprintf(&b, `\%c`, s[i])
			continue
		}
		b.WriteRune(rune(n))
		i += width
	}
	return b.String()
}
