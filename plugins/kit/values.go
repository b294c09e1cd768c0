package kit

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"sluice/plugins/manifest"
)

// get reads the field from a record's bytes.
func (f Field) get(rec []byte) uint64 {
	var b [8]byte
	copy(b[:f.Width], rec[f.Off:])
	return binary.LittleEndian.Uint64(b[:])
}

// put writes the field; v is cut to its width.
func (f Field) put(rec []byte, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	copy(rec[f.Off:f.Off+f.Width], b[:])
}

// largest is the largest value that fits.
func (f Field) largest() uint64 { return ^uint64(0) >> (64 - 8*f.Width) }

// text is a value of the field as vectors and reports write it: a name where the ABI has one, a number else.
func (l *Layout) text(f Field, v uint64) string {
	if f.enum != "" {
		for _, e := range l.enums[f.enum] {
			if e.value == v {
				return e.name
			}
		}
	}
	if f.flags != "" && v != 0 {
		var names []string
		rest := v
		for _, x := range l.flags {
			if strings.HasPrefix(x.name, f.flags) && rest&x.value == x.value {
				names, rest = append(names, strings.TrimPrefix(x.name, f.flags)), rest&^x.value
			}
		}
		if rest != 0 {
			names = append(names, "0x"+strconv.FormatUint(rest, 16))
		}
		return strings.Join(names, "|")
	}
	return strconv.FormatUint(v, 10)
}

// meant is text, with the policy's own words behind the number of a reason that is its own.
func (l *Layout) meant(f Field, v uint64, about *manifest.Manifest) string {
	text := l.text(f, v)
	if f.enum == "Reason" {
		if words, ok := about.Reason(uint8(v)); ok {
			return text + " (" + words + ")"
		}
	}
	return text
}

// value is the inverse of text; names are taken in any case, numbers in any base that Go has.
func (l *Layout) value(f Field, s string) (uint64, error) {
	if f.flags != "" {
		var v uint64
		for part := range strings.SplitSeq(s, "|") {
			x, err := l.flag(f, part)
			if err != nil {
				return 0, err
			}
			v |= x
		}
		return v, nil
	}
	if f.enum != "" {
		for _, e := range l.enums[f.enum] {
			if strings.EqualFold(e.name, s) {
				return e.value, nil
			}
		}
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		if f.enum != "" {
			return 0, fmt.Errorf("%s is %s, which is no number and none of %s", f.Name, quote(s), l.enumNames(f.enum))
		}
		return 0, fmt.Errorf("%s is %s, which is no number", f.Name, quote(s))
	}
	if v > f.largest() {
		return 0, fmt.Errorf("%s is %d, its largest value is %d", f.Name, v, f.largest())
	}
	return v, nil
}

func (l *Layout) flag(f Field, s string) (uint64, error) {
	var names []string
	for _, x := range l.flags {
		name, ok := strings.CutPrefix(x.name, f.flags)
		if !ok {
			continue
		}
		if strings.EqualFold(name, s) {
			return x.value, nil
		}
		names = append(names, name)
	}
	v, err := strconv.ParseUint(s, 0, 8*f.Width)
	if err != nil {
		return 0, fmt.Errorf("%s has %s, which is no number and none of %s", f.Name, quote(s), strings.Join(names, ", "))
	}
	return v, nil
}

func (l *Layout) enumNames(enum string) string {
	var names []string
	for _, e := range l.enums[enum] {
		names = append(names, e.name)
	}
	return strings.Join(names, ", ")
}

// format writes a record as fields, leaving out those that are zero.
func (l *Layout) format(r *Record, rec []byte) string {
	var words []string
	for _, f := range r.Fields {
		if v := f.get(rec); v != 0 {
			words = append(words, f.Name+"="+l.text(f, v))
		}
	}
	return strings.Join(words, " ")
}

// ParseRecord is a record's bytes from the text of its fields, Field=value with spaces between; those not named are zero.
func (l *Layout) ParseRecord(r *Record, text string) ([]byte, error) {
	return l.parse(r, strings.Fields(text))
}

// parse reads the fields of a record; those not named are zero.
func (l *Layout) parse(r *Record, words []string) ([]byte, error) {
	rec := make([]byte, r.Size)
	given := map[string]bool{}
	for _, w := range words {
		name, s, ok := strings.Cut(w, "=")
		if !ok {
			return nil, fmt.Errorf("%s is not Field=value", quote(w))
		}
		f, ok := r.field(name)
		if !ok {
			return nil, fmt.Errorf("%s has no field %s; it has %s", r.Name, quote(name), fieldNames(r))
		}
		if given[name] {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		given[name] = true
		v, err := l.value(f, s)
		if err != nil {
			return nil, err
		}
		f.put(rec, v)
	}
	return rec, nil
}

func fieldNames(r *Record) string {
	var names []string
	for _, f := range r.Fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// Diff says field by field where two runs of output records of a hook differ, one line a record, at most limit lines and
// one more that counts the rest. words name the sides: "is", "want".
func (l *Layout) Diff(h *HookLayout, got, want []byte, words [2]string, limit int) []string {
	return l.diff(h, got, want, words, [2]*manifest.Manifest{}, limit)
}

// diff is Diff with what each side says about itself; nil: nothing.
func (l *Layout) diff(h *HookLayout, got, want []byte, words [2]string, about [2]*manifest.Manifest, limit int) []string {
	var lines []string
	more := 0
	n := max(len(got), len(want)) / h.Out.Size
	for i := range n {
		line := l.diffRecord(h, at(got, i, h.Out.Size), at(want, i, h.Out.Size), words, about)
		switch {
		case line == "":
		case len(lines) < limit:
			lines = append(lines, fmt.Sprintf("out %d: %s", i, line))
		default:
			more++
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more records", more))
	}
	return lines
}

// at is record i, or nil where there is none.
func at(records []byte, i, size int) []byte {
	if (i+1)*size > len(records) {
		return nil
	}
	return records[i*size : (i+1)*size]
}

func (l *Layout) diffRecord(h *HookLayout, got, want []byte, words [2]string, about [2]*manifest.Manifest) string {
	switch {
	case got == nil:
		return fmt.Sprintf("%s nothing, %s %s", words[0], words[1], l.format(&h.Out, want))
	case want == nil:
		return fmt.Sprintf("%s %s, %s nothing", words[0], l.format(&h.Out, got), words[1])
	}
	var parts []string
	covered := make([]bool, h.Out.Size)
	for _, f := range h.Out.Fields {
		a, b := f.get(got), f.get(want)
		if a != b {
			parts = append(parts, fmt.Sprintf("%s %s %s, %s %s", f.Name, words[0], l.meant(f, a, about[0]), words[1], l.meant(f, b, about[1])))
		}
		for k := range f.Width {
			covered[f.Off+k] = true
		}
	}
	for k := range got {
		if !covered[k] && got[k] != want[k] {
			parts = append(parts, fmt.Sprintf("reserved byte %d %s %d, %s %d", k, words[0], got[k], words[1], want[k]))
		}
	}
	return strings.Join(parts, "; ")
}
