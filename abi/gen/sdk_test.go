package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sluice/abi"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct{ in, snake, camel string }{
		{"N", "n", "n"},
		{"TimeNS", "time_ns", "timeNs"},
		{"RawPoll", "raw_poll", "rawPoll"},
		{"MatchL1Tokens", "match_l1_tokens", "matchL1Tokens"},
		{"StatusOK", "status_ok", "statusOk"},
		{"HostInfoSize", "host_info_size", "hostInfoSize"},
	} {
		if got := snake(tc.in); got != tc.snake {
			t.Errorf("snake(%s) = %s, want %s", tc.in, got, tc.snake)
		}
		if got := lowerFirst(pascal(tc.in)); got != tc.camel {
			t.Errorf("camel of %s = %s, want %s", tc.in, got, tc.camel)
		}
	}
	if got := valueName(enumValue{Name: "RestoreFailed"}); got != "Failed" {
		t.Errorf("value RestoreFailed is %q", got)
	}
}

func TestGuestsCheckTheHostsLimit(t *testing.T) {
	if maxRecords != abi.MaxRecords {
		t.Errorf("the SDKs refuse more than %d records, the host %d", maxRecords, abi.MaxRecords)
	}
}

// Every number, field and value of the description is in every SDK, at its offset.
func TestEverySDKHasEveryField(t *testing.T) {
	d, err := load("../abi.json")
	if err != nil {
		t.Fatal(err)
	}
	outs, err := generate("../abi.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Constants {
		if row := fmt.Sprintf("| %s | %d | %s |", c.Name, c.Value, c.Doc); !strings.Contains(string(outs["README.md"]), row) {
			t.Errorf("README.md lacks %s", row)
		}
	}
	for path := range sdks() {
		text := string(outs[path])
		for _, c := range d.Constants {
			line := regexp.MustCompile(fmt.Sprintf(`(?im)^.*\b(SLUICE_)?%s\b.* %d\b`, snake(c.Name), c.Value))
			if !line.MatchString(text) || !strings.Contains(text, c.Doc) {
				t.Errorf("%s lacks %s = %d", path, c.Name, c.Value)
			}
		}
		for _, r := range d.Records {
			for _, f := range r.Fields {
				if want := fieldNote(f); strings.Count(text, want) == 0 {
					t.Errorf("%s lacks %s.%s: %s", path, r.Name, f.Name, want)
				}
			}
		}
		for _, e := range d.Enums {
			for _, v := range e.Values {
				if !strings.Contains(text, v.Doc) {
					t.Errorf("%s lacks %s", path, v.Name)
				}
			}
		}
		for _, h := range d.Hooks {
			if path != "assemblyscript/layout.ts" && !strings.Contains(text, h.Export) {
				t.Errorf("%s lacks the entry point %s", path, h.Export)
			}
		}
	}
}

func TestAHookWithoutARecordIsRefused(t *testing.T) {
	d, err := load("../abi.json")
	if err != nil {
		t.Fatal(err)
	}
	d.Hooks = append(d.Hooks, hook{Name: "Other", Kind: 9, Export: "sluice_other_v1"})
	for path, name := range sdks() {
		if _, err := d.render(name); err == nil || !strings.Contains(err.Error(), "hook Other has no globals record") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}
