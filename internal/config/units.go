package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are the units of sizes, largest first, so that the first that divides a value is the one to print it in.
func sizeUnits() []struct {
	name  string
	bytes int64
} {
	return []struct {
		name  string
		bytes int64
	}{{"TiB", kib * gib}, {"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"B", 1}}
}

// parseSize reads a whole number and a binary unit. Its second result is empty or says what is wrong.
func parseSize(s string) (int64, string) {
	digits := strings.TrimLeft(s, "0123456789")
	number, unit := s[:len(s)-len(digits)], digits
	if number == "" {
		return 0, `must be a whole number and one of the units B, KiB, MiB, GiB, TiB, such as "8MiB"`
	}
	for _, u := range sizeUnits() {
		if unit != u.name {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > math.MaxInt64/u.bytes {
			return 0, overflow
		}
		return n * u.bytes, ""
	}
	for _, u := range sizeUnits() {
		if strings.EqualFold(unit, u.name) || strings.EqualFold(unit, strings.Replace(u.name, "i", "", 1)) ||
			strings.EqualFold(unit, strings.TrimSuffix(u.name, "iB")) {
			return 0, `has the unit ` + strconv.Quote(unit) + `, which is not known; write ` + strconv.Quote(number+u.name)
		}
	}
	return 0, `must be a whole number and one of the units B, KiB, MiB, GiB, TiB, such as "8MiB"`
}

func formatSize(n int64) string {
	for _, u := range sizeUnits() {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// overflow marks a number that no value of its kind can hold; the caller then names the allowed range.
const overflow = "overflow"

// parseDuration reads Go's duration text. Its second result is empty or says what is wrong.
func parseDuration(s string) (time.Duration, string) {
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, ""
	}
	if durationShape(s) {
		return 0, overflow
	}
	return 0, `must be a number and one of the units ms, s, m, h (or ns, us), such as "30s"`
}

// durationShape reports whether s is well formed, so that only its magnitude can be wrong.
func durationShape(s string) bool {
	s = strings.TrimLeft(s, "+-")
	if s == "" {
		return false
	}
	for s != "" {
		rest := strings.TrimLeft(s, "0123456789.")
		number := s[:len(s)-len(rest)]
		unit := rest[:len(rest)-len(strings.TrimLeft(rest, "nuµsmh"))]
		switch unit {
		case "ns", "us", "µs", "ms", "s", "m", "h":
		default:
			return false
		}
		if _, err := strconv.ParseFloat(number, 64); err != nil {
			return false
		}
		s = rest[len(unit):]
	}
	return true
}

// formatDuration prints d without the zero parts that Duration.String adds: "1m" and not "1m0s".
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// bareNumber reports whether s is a number with no unit.
func bareNumber(s string) bool {
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		return false
	}
	return strings.Trim(s, "+-0123456789._eE") == ""
}
