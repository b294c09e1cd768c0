package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/config"
	"sluice/internal/text"
)

// integer is a whole number of a tree. JSON's are written without point and exponent, so that a float is not taken for one.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case json.Number:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// float is any finite number of a tree.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, !math.IsInf(v, 0) && !math.IsNaN(v)
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil
	}
	return 0, false
}

// maxShown is how many runes of a value an error shows.
const maxShown = 80

// shown is a value in an error, cut to a length that one line holds.
func shown(v any) string {
	s := ""
	switch v := v.(type) {
	case nil:
		return "missing"
	case string:
		s = strconv.Quote(v)
	case map[string]any:
		return "a table"
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			if _, nested := item.([]any); nested {
				return "a list of lists"
			}
			parts[i] = shown(item)
		}
		s = "[" + strings.Join(parts, ", ") + "]"
	default:
		s = fmt.Sprint(v)
	}
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown]) + "..."
	}
	return s
}

func sorted[V any](t map[string]V) []string { return slices.Sorted(maps.Keys(t)) }

// suggestion is the end of an error about an unknown name.
func suggestion(name string, known []string) string {
	switch best, close := config.Nearest(name, known); {
	case len(known) == 0:
		return "there are none, remove it"
	case close:
		return "did you mean " + best + "?"
	}
	return "the keys are " + text.List(known, 16)
}
