package decode

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every metric of policies is in the table of the page that operators read.
func TestPolicyMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies-api.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`desc\("(policy_[a-z_]+)"`).FindAllSubmatch(source, -1)
	if len(names) < 15 {
		t.Fatalf("%d metrics of policies found in the source", len(names))
	}
	for _, n := range names {
		if name := string(n[1]); !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/policies-api.md does not name %s", name)
		}
	}
}
