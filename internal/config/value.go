package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// number is a numeric literal of the file that fits no 64-bit type, as written.
type number string

// fromTOML turns a decoded value of the file into the key's type. The string is empty or says what is wrong.
func (k Key) fromTOML(v any) (any, string) {
	switch k.Kind {
	case KindString, KindEnum:
		if s, ok := v.(string); ok {
			return k.fromText(s)
		}
	case KindInt:
		switch v := v.(type) {
		case int64:
			return k.judge(v)
		case number:
			return k.fromText(string(v))
		}
	case KindFloat:
		switch v := v.(type) {
		case int64:
			return k.judge(float64(v))
		case float64:
			return k.judge(v)
		case number:
			return k.fromText(string(v))
		}
	case KindBool:
		if b, ok := v.(bool); ok {
			return b, ""
		}
	case KindDuration, KindSize:
		switch v := v.(type) {
		case string:
			return k.fromText(v)
		case int64:
			return nil, k.unitless(strconv.FormatInt(v, 10))
		case float64:
			return nil, k.unitless(formatFloat(v))
		case number:
			return nil, k.unitless(string(v))
		}
	case KindTable:
		if m, ok := v.(map[string]any); ok {
			return canonicalTable(m)
		}
		return nil, fmt.Sprintf("must be %v, is %s", k.Kind, kindOf(v)) // it may hold a secret
	}
	return nil, fmt.Sprintf("must be %v, is %s", k.Kind, describe(v))
}

// fromText turns the text of a flag or a variable, or a string of the file, into the key's type.
func (k Key) fromText(s string) (any, string) {
	if !utf8.ValidString(s) && k.Kind == KindTable {
		return nil, "is not valid UTF-8"
	}
	if !utf8.ValidString(s) {
		return nil, fmt.Sprintf("is %q, which is not valid UTF-8", clip(s))
	}
	switch k.Kind {
	case KindString, KindEnum:
		if strings.ContainsFunc(s, unicode.IsControl) {
			return nil, fmt.Sprintf("is %q, which holds a control character; remove it", clip(s))
		}
		return k.judge(s)
	case KindInt:
		if s == "" && k.optional {
			return 0, ""
		}
		if !integerLiteral(s) {
			return nil, fmt.Sprintf("must be an integer, is %q", clip(s))
		}
		n, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			return nil, k.outOfRange(s)
		}
		return k.judge(n)
	case KindFloat:
		if !integerLiteral(s) && !floatLiteral(s) || strings.ContainsAny(s, "xob") {
			return nil, fmt.Sprintf("must be a number, is %q", clip(s))
		}
		f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
		if err != nil {
			return nil, k.outOfRange(s)
		}
		return k.judge(f)
	case KindBool:
		switch s {
		case "true":
			return true, ""
		case "false":
			return false, ""
		}
		return nil, fmt.Sprintf("must be true or false, is %q", clip(s))
	case KindDuration:
		if bareNumber(s) {
			return nil, k.unitless(s)
		}
		d, wrong := parseDuration(s)
		if wrong == overflow {
			return nil, k.outOfRange(s)
		}
		if wrong != "" {
			return nil, fmt.Sprintf("is %q; it %s", clip(s), wrong)
		}
		return k.judge(d)
	case KindSize:
		if bareNumber(s) {
			return nil, k.unitless(s)
		}
		n, wrong := parseSize(s)
		if wrong == overflow {
			return nil, k.outOfRange(s)
		}
		if strings.HasPrefix(wrong, "has") {
			return nil, wrong
		}
		if wrong != "" {
			return nil, fmt.Sprintf("is %q; it %s", clip(s), wrong)
		}
		return k.judge(n)
	case KindTable:
		return tableFromJSON(s)
	}
	return nil, "has no text form"
}

// judge checks a value against the key's range and returns it in the type of the key's field.
func (k Key) judge(v any) (any, string) {
	switch v := v.(type) {
	case string:
		if k.Kind == KindEnum && !slices.Contains(k.Enum, v) {
			allowed := slices.DeleteFunc(slices.Clone(k.Enum), func(s string) bool { return s == "" })
			wrong := fmt.Sprintf("is %q, must be one of %s", clip(v), strings.Join(allowed, ", "))
			if best, close := Nearest(v, allowed); close {
				wrong += fmt.Sprintf("; did you mean %q?", best)
			}
			return nil, wrong
		}
		if k.check != nil {
			if wrong := k.check(v); wrong != "" {
				return nil, fmt.Sprintf("is %q, %s", clip(v), wrong)
			}
		}
		return v, ""
	case int64:
		if v < k.low || v > k.high {
			if k.Kind == KindSize {
				return nil, k.outOfRange(formatSize(v))
			}
			return nil, k.outOfRange(strconv.FormatInt(v, 10))
		}
		if k.Kind == KindInt {
			return int(v), ""
		}
		return v, ""
	case time.Duration:
		if int64(v) < k.low || int64(v) > k.high {
			return nil, k.outOfRange(formatDuration(v))
		}
		return v, ""
	case float64:
		if math.IsNaN(v) || v < k.flow || v > k.fhigh || k.openLow && v == k.flow {
			return nil, k.outOfRange(formatFloat(v))
		}
		return v, ""
	}
	return nil, "has no value"
}

func (k Key) outOfRange(value string) string {
	return fmt.Sprintf("is %s, allowed is %s", clip(value), rangeText(k))
}

// unitless says how to write a number that came without a unit, in the unit of the key's default.
func (k Key) unitless(value string) string {
	unit := "s"
	switch {
	case k.Kind == KindSize:
		unit = strings.TrimLeft(strings.Trim(format(k, k.def), `"`), "0123456789")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 1024 {
			unit = "B"
		}
	case strings.HasSuffix(k.Default, `ms"`):
		unit = "ms"
	}
	return fmt.Sprintf("is %s, which has no unit; write %q", clip(value), clip(value)+unit)
}

func rangeText(k Key) string {
	switch k.Kind {
	case KindInt:
		return fmt.Sprintf("%d to %d", k.low, k.high)
	case KindFloat:
		if k.openLow {
			return fmt.Sprintf("more than %v, up to %v", k.flow, k.fhigh)
		}
		return fmt.Sprintf("%v to %v", k.flow, k.fhigh)
	case KindDuration:
		return formatDuration(time.Duration(k.low)) + " to " + formatDuration(time.Duration(k.high))
	case KindSize:
		return formatSize(k.low) + " to " + formatSize(k.high)
	case KindEnum:
		return strings.TrimPrefix(strings.Join(k.Enum, ", "), ", ")
	case KindBool:
		return "true, false"
	}
	return ""
}

// format is a value of the key as TOML text.
func format(k Key, v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case int:
		return strconv.Itoa(v)
	case int64:
		return `"` + formatSize(v) + `"`
	case float64:
		return formatFloat(v)
	case bool:
		return strconv.FormatBool(v)
	case time.Duration:
		return `"` + formatDuration(v) + `"`
	case []byte:
		return string(v)
	}
	return fmt.Sprintf("%v (of key %s)", v, k.Name)
}

// formatFloat is the shortest text that reads back as f and is still a float in TOML and JSON.
func formatFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

func describe(v any) string {
	switch v := v.(type) {
	case string:
		return "the string " + strconv.Quote(clip(v))
	case int64:
		return "the integer " + strconv.FormatInt(v, 10)
	case float64:
		return "the number " + formatFloat(v)
	case number:
		return "the number " + clip(string(v))
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "an array of tables"
	case []any:
		return "an array"
	}
	return fmt.Sprintf("a %T", v)
}

// kindOf describes a value without showing it.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64, number:
		return "a number"
	case bool:
		return "a boolean"
	}
	return describe(v)
}

// clip keeps a message readable whatever was written in the file.
func clip(s string) string {
	const longest = 80
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "..."
}

func checkNotEmpty(s string) string {
	if s == "" {
		return "must not be empty"
	}
	return ""
}

func checkHost(s string) string {
	if s == "" {
		return `must not be empty; "0.0.0.0" listens on all addresses`
	}
	for _, r := range s {
		if r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(".:-_%", r)) {
			return `must be an IP address or a host name, such as "127.0.0.1"`
		}
	}
	return ""
}
