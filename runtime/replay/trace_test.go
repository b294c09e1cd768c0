package replay

import (
	"errors"
	"strings"
	"testing"
)

func TestReadTrace(t *testing.T) {
	good := `{"timestamp": 0, "input_length": 513, "output_length": 2, "hash_ids": [7, 8]}` + "\n\n" +
		`{"timestamp": 5, "input_length": 512, "output_length": 1, "hash_ids": [7]}` + "\n"
	got, err := ReadTrace(strings.NewReader(good), 0)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %d requests, %v", len(got), err)
	}
	a, b := got[0].Tokens(nil), got[1].Tokens(nil)
	if len(a) != 513 || len(b) != 512 || a[511] != b[511] || a[0] == a[1] || a[512] == b[0] {
		t.Errorf("tokens do not follow the block ids")
	}
	if got, err := ReadTrace(strings.NewReader(good), 1); err != nil || len(got) != 1 {
		t.Errorf("limit 1: %d requests, %v", len(got), err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "no request"},
		"not json":         {"x", "line 1"},
		"unknown field":    {`{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1],"x":1}`, "line 1"},
		"no prompt":        {`{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]}`, "input_length is 0"},
		"no output":        {`{"timestamp":0,"input_length":1,"output_length":0,"hash_ids":[1]}`, "output_length is 0"},
		"blocks":           {`{"timestamp":0,"input_length":513,"output_length":1,"hash_ids":[1]}`, "2 blocks"},
		"negative time":    {`{"timestamp":-1,"input_length":1,"output_length":1,"hash_ids":[1]}`, "must be 0 to"},
		"backwards":        {`{"timestamp":9,"input_length":1,"output_length":1,"hash_ids":[1]}` + "\n" + `{"timestamp":8,"input_length":1,"output_length":1,"hash_ids":[1]}`, "line 2: timestamp 8"},
		"huge":             {`{"timestamp":0,"input_length":99999999999,"output_length":1,"hash_ids":[1]}`, "input_length"},
		"trailing garbage": {`{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]} {}`, "after the request"},
	} {
		_, err := ReadTrace(strings.NewReader(c.text), 0)
		if !errors.Is(err, ErrTrace) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", name, err, c.want)
		}
	}
}

func TestEveryBlockIDHasTokensOfItsOwn(t *testing.T) {
	line := func(id string) string {
		return `{"timestamp":0,"input_length":2,"output_length":1,"hash_ids":[` + id + `]}` + "\n"
	}
	got, err := ReadTrace(strings.NewReader(line("1")+line("8388609")+line("4611686018427387905")+line("1")), 0)
	if err != nil {
		t.Fatal(err)
	}
	first := map[uint32]bool{}
	for _, q := range got[:3] {
		first[q.Tokens(nil)[0]] = true
	}
	if len(first) != 3 || got[0].Tokens(nil)[0] != got[3].Tokens(nil)[0] {
		t.Errorf("three ids and a repeat gave %d different first tokens", len(first))
	}
	if _, err := ReadTrace(strings.NewReader(strings.Replace(line("1"), `"timestamp":0`, `"timestamp":9223372036854`, 1)), 0); !errors.Is(err, ErrTrace) {
		t.Errorf("a timestamp of 292 years: %v", err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"timestamp": 0, "input_length": 513, "output_length": 2, "hash_ids": [7, 8]}`))
	f.Add([]byte("{}\n[]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadTrace(strings.NewReader(string(b)), 10)
		if (err == nil) != (len(got) > 0) {
			t.Errorf("%d requests with error %v", len(got), err)
		}
	})
}
