package settings

import (
	"strconv"

	"sluice/abi"
)

// None is the configuration function of a policy that takes no settings: it refuses every table that is not empty, so that
// a misspelt policy name does not swallow the settings of another.
func None(_ abi.HostInfo, config []byte) int32 {
	return Read(config, func(string, uint64) bool { return false })
}

// Read calls set for each member of a flat JSON object of unsigned integers; no bytes are an empty object. The status is
// abi.StatusOK, or abi.StatusBadConfig for anything else and where set says no: an unknown key, a value out of range.
func Read(config []byte, set func(key string, value uint64) bool) int32 {
	if len(config) > 0 && !object(string(config), set) {
		return int32(abi.StatusBadConfig)
	}
	return int32(abi.StatusOK)
}

// object reads {"key":1,"other":2} without white space, which is what canonical JSON is.
func object(s string, set func(string, uint64) bool) bool {
	if len(s) < 2 || s[0] != '{' || s[len(s)-1] != '}' {
		return false
	}
	for s = s[1 : len(s)-1]; s != ""; {
		var member string
		member, s = cut(s)
		key, digits, ok := split(member)
		if !ok {
			return false
		}
		value, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || !set(key, value) {
			return false
		}
	}
	return true
}

// cut takes the text before the next comma off s. A comma that nothing follows leaves an empty member behind, which split
// refuses.
func cut(s string) (member, rest string) {
	for i := range len(s) {
		if s[i] != ',' {
			continue
		}
		if i+1 == len(s) {
			return "", ""
		}
		return s[:i], s[i+1:]
	}
	return s, ""
}

// split takes a member apart at its quotes and colon.
func split(member string) (key, digits string, ok bool) {
	if member == "" || member[0] != '"' {
		return "", "", false
	}
	for i := 1; i+1 < len(member); i++ {
		if member[i] == '"' {
			return member[1:i], member[i+2:], member[i+1] == ':'
		}
	}
	return "", "", false
}
