package server

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

var testLimits = limits{vocab: testVocab, maxNewTokens: 4096, defaultMaxNewTokens: 128}

// with returns the body that a minimal prompt gives, changed.
func with(change func(*generateBody)) generateBody {
	b := generateBody{
		tokens: []uint32{'h', 'i'}, samples: 1, maxNewTokens: 128,
		rooms: []uint64{0}, hosts: []string{""}, ports: []int{0},
	}
	change(&b)
	return b
}

func TestParseGenerateAccepts(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want generateBody
	}{
		"text":              {`{"text":"hi"}`, with(func(*generateBody) {})},
		"text beyond ascii": {`{"text":"\u00e9"}`, with(func(b *generateBody) { b.tokens = []uint32{0xc3, 0xa9} })},
		"ids":               {`{"input_ids":[0, 999 ,7]}`, with(func(b *generateBody) { b.tokens = []uint32{0, 999, 7} })},
		"null is absent": {`{"text":"hi","input_ids":null,"rid":null,"sampling_params":null,"bootstrap_port":null,"stream":null}`,
			with(func(*generateBody) {})},
		"escaped name": {`{"te\u0078t":"hi"}`, with(func(*generateBody) {})},
		"what a router sends": {`{"text":"hi","model":null,"return_text_in_logprobs":false,"stream":false,"log_metrics":true,
			"return_hidden_states":false,"background":false,"no_logs":false,"return_bytes":false,"return_entropy":false,
			"bootstrap_host":"127.0.0.1","bootstrap_port":8998,"bootstrap_room":1659561972057288871}`,
			with(func(b *generateBody) {
				b.hosts, b.ports, b.rooms = []string{"127.0.0.1"}, []int{8998}, []uint64{1659561972057288871}
			})},
		"unknown fields of other readers": {`{"text":"hi","conversation_id":{"a":[1]},"x":1e400}`, with(func(*generateBody) {})},
		"everything": {`{"text":"hi","rid":"r 1","stream":true,"priority":65535,"sampling_params":{"max_new_tokens":4096,"n":1,
			"stop_token_ids":[3,1],"ignore_eos":true,"no_stop_trim":true,"temperature":0.0,"top_p":0.5,"top_k":-1,"min_p":0,
			"sampling_seed":7,"repetition_penalty":1.0,"stop":[],"min_new_tokens":0,"skip_special_tokens":true,"regex":null}}`,
			with(func(b *generateBody) {
				b.rid, b.stream, b.priority, b.maxNewTokens = "r 1", true, 65535, 4096
				b.stopTokens, b.ignoreEOS, b.keepStop = []uint32{3, 1}, true, true
			})},
		"largest room": {`{"text":"hi","bootstrap_room":9223372036854775807}`,
			with(func(b *generateBody) { b.rooms = []uint64{9223372036854775807} })},
		"samples spread one room": {`{"text":"hi","sampling_params":{"n":3},"bootstrap_room":7,"bootstrap_host":"p","bootstrap_port":1}`,
			with(func(b *generateBody) {
				b.samples, b.rooms, b.hosts, b.ports = 3, []uint64{7, 8, 9}, []string{"p", "p", "p"}, []int{1, 1, 1}
			})},
		"samples without a room": {`{"text":"hi","sampling_params":{"n":2}}`,
			with(func(b *generateBody) {
				b.samples, b.rooms, b.hosts, b.ports = 2, []uint64{0, 0}, []string{"", ""}, []int{0, 0}
			})},
		"samples with lists": {`{"text":"hi","sampling_params":{"n":2},"bootstrap_room":[9,4],"bootstrap_host":["a","b"],"bootstrap_port":[1,null]}`,
			with(func(b *generateBody) {
				b.samples, b.rooms, b.hosts, b.ports = 2, []uint64{9, 4}, []string{"a", "b"}, []int{1, 0}
			})},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseGenerate([]byte(tc.body), testLimits)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestParseGenerateRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []string // each stands in the message
	}{
		"empty body":           {"", []string{"the body is empty"}},
		"blank body":           {" \n ", []string{"the body is empty"}},
		"not json":             {"{\n\"text\": hi}", []string{"not valid JSON", "line 2, offset 10"}},
		"cut short":            {`{"text":"h`, []string{"not valid JSON", "unexpected end"}},
		"two values":           {`{"text":"hi"} {}`, []string{"not valid JSON", "offset 14"}},
		"not utf-8":            {"{\"text\":\"\xff\"}", []string{"not valid UTF-8", "offset 9"}},
		"not an object":        {`[1]`, []string{"the body (line 1, offset 0)", "want an object, got a list"}},
		"no prompt":            {`{}`, []string{"no prompt; send text or input_ids"}},
		"both prompts":         {`{"text":"hi","input_ids":[1]}`, []string{"both given"}},
		"empty text":           {`{"text":""}`, []string{"text (line 1, offset 8)", "the prompt is empty"}},
		"no ids":               {`{"input_ids":[]}`, []string{"input_ids", "the prompt is empty"}},
		"id beyond vocabulary": {"{\"input_ids\":\n[1,2,1000]}", []string{"input_ids[2] (line 2, offset 19)", "0..999", "the number 1000"}},
		"negative id":          {`{"input_ids":[-1]}`, []string{"input_ids[0]", "-1"}},
		"fractional id":        {`{"input_ids":[1.5]}`, []string{"input_ids[0]", "1.5"}},
		"text id":              {`{"input_ids":[ "a" ]}`, []string{"input_ids[0] (line 1, offset 15)", `the string "a"`}},
		"null id":              {`{"input_ids":[null]}`, []string{"input_ids[0]", "null"}},
		"object id":            {`{"input_ids":[{"a":[]},1]}`, []string{"input_ids[0]", "an object"}},
		"batch of ids":         {`{"input_ids":[[1],[2]]}`, []string{"input_ids[0]", "batch", "one request per prompt"}},
		"batch of texts":       {`{"text":["a","b"]}`, []string{"text", "batch"}},
		"batch of params":      {`{"text":"a","sampling_params":[{}]}`, []string{"sampling_params", "batch"}},
		"batch of rids":        {`{"text":"a","rid":["a"]}`, []string{"rid", "batch"}},
		"text of wrong type":   {`{"text":7}`, []string{"text (line 1, offset 8)", "want a string, got the number 7"}},
		"stream of wrong type": {`{"text":"a","stream":"yes"}`, []string{"stream", `want true or false, got the string "yes"`}},
		"given twice":          {`{"text":"a","text":"b"}`, []string{"text (line 1, offset 19)", "given twice"}},
		"long value is clipped": {`{"text":"a","stream":"` + strings.Repeat("x", 100) + `"}`,
			[]string{`got the string "` + strings.Repeat("x", 36) + "..."}},
		"empty rid":           {`{"text":"a","rid":""}`, []string{"rid", "1..128 bytes"}},
		"long rid":            {`{"text":"a","rid":"` + strings.Repeat("x", 129) + `"}`, []string{"rid", "got 129"}},
		"rid with control":    {`{"text":"a","rid":"a\nb"}`, []string{"rid", "printable"}},
		"priority":            {`{"text":"a","priority":-1}`, []string{"priority", "0..65535"}},
		"max_new_tokens 0":    {`{"text":"a","sampling_params":{"max_new_tokens":0}}`, []string{"sampling_params.max_new_tokens (line 1, offset 48)", "1..4096"}},
		"max_new_tokens over": {`{"text":"a","sampling_params":{"max_new_tokens":4097}}`, []string{"1..4096, got the number 4097"}},
		"max_new_tokens text": {`{"text":"a","sampling_params":{"max_new_tokens":"8"}}`, []string{`got the string "8"`}},
		"misspelt parameter":  {`{"text":"a","sampling_params":{"max_new_token":8}}`, []string{"sampling_params.max_new_token", "no such parameter", "max_new_tokens"}},
		"temperature":         {`{"text":"a","sampling_params":{"temperature":0.7}}`, []string{"temperature", "only 0 is supported", "0.7"}},
		"temperature range":   {`{"text":"a","sampling_params":{"temperature":1e999}}`, []string{"out of range"}},
		"top_p type":          {`{"text":"a","sampling_params":{"top_p":"x"}}`, []string{"top_p", "want a number"}},
		"stop string":         {`{"text":"a","sampling_params":{"stop":["x"]}}`, []string{"stop", "send stop_token_ids"}},
		"penalty":             {`{"text":"a","sampling_params":{"frequency_penalty":0.5}}`, []string{"frequency_penalty", "not supported"}},
		"repetition penalty":  {`{"text":"a","sampling_params":{"repetition_penalty":1.1}}`, []string{"only 1 is supported"}},
		"stop id":             {`{"text":"a","sampling_params":{"stop_token_ids":[1000]}}`, []string{"sampling_params.stop_token_ids[0]", "0..999"}},
		"many stop ids":       {`{"text":"a","sampling_params":{"stop_token_ids":[` + strings.Repeat("1,", 256) + `1]}}`, []string{"at most 256 ids, got 257"}},
		"samples 0":           {`{"text":"a","sampling_params":{"n":0}}`, []string{"sampling_params.n", "1..64"}},
		"samples over":        {`{"text":"a","sampling_params":{"n":65}}`, []string{"1..64"}},
		"logprobs":            {`{"text":"a","return_logprob":true}`, []string{"return_logprob", "not supported"}},
		"image":               {`{"text":"a","image_data":"x"}`, []string{"image_data", "not supported"}},
		"extra_key":           {`{"text":"a","extra_key":"tenant"}`, []string{"extra_key", "caller's identity"}},
		"negative room":       {`{"text":"a","bootstrap_room":-1}`, []string{"bootstrap_room", "0..9223372036854775807"}},
		"room over":           {`{"text":"a","bootstrap_room":9223372036854775808}`, []string{"bootstrap_room"}},
		"rooms run out":       {`{"text":"a","sampling_params":{"n":2},"bootstrap_room":9223372036854775807}`, []string{"use a lower room"}},
		"room twice":          {`{"text":"a","sampling_params":{"n":2},"bootstrap_room":[5,5]}`, []string{"room 5 is given to two samples"}},
		"too few rooms":       {`{"text":"a","sampling_params":{"n":3},"bootstrap_room":[5]}`, []string{"list of 3", "got a list of 1"}},
		"too many hosts":      {`{"text":"a","bootstrap_host":["a","b"]}`, []string{"bootstrap_host", "got a list of 2"}},
		"long host":           {`{"text":"a","bootstrap_host":"` + strings.Repeat("h", 254) + `"}`, []string{"at most 253 bytes"}},
		"port over":           {`{"text":"a","bootstrap_port":65536}`, []string{"bootstrap_port", "0..65535"}},
		"params not object":   {`{"text":"a","sampling_params":3}`, []string{"sampling_params", "want an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseGenerate([]byte(tc.body), testLimits)
			var refused *bodyError
			if !errors.As(err, &refused) {
				t.Fatalf("got %+v, %v; want a *bodyError", got, err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestParseAbort(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		rid  string
		all  bool
		ok   bool
	}{
		"whole id":          {`{"rid":"req-1"}`, "req-1", false, true},
		"as the peer sends": {`{"rid":"req-1","abort_all":false}`, "req-1", false, true},
		"all":               {`{"abort_all":true}`, "", true, true},
		"all, empty id":     {`{"rid":"","abort_all":true,"abort_message":"x"}`, "", true, true},
		"empty id":          {`{"rid":""}`, "", false, false},
		"empty id, not all": {`{"rid":"","abort_all":false}`, "", false, false},
		"nothing":           {`{}`, "", false, false},
		"null":              {`{"rid":null}`, "", false, false},
		"no body":           {``, "", false, false},
		"wrong type":        {`{"rid":7}`, "", false, false},
		"flag as text":      {`{"rid":"a","abort_all":"true"}`, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			rid, all, err := parseAbort([]byte(tc.body))
			if (err == nil) != tc.ok || (tc.ok && (rid != tc.rid || all != tc.all)) {
				t.Errorf("got %q, %v, %v", rid, all, err)
			}
		})
	}
}

// The ids of a long prompt are read into one slice: what is allocated does not
// grow with the number of ids.
func TestParseIDsAllocatesPerBody(t *testing.T) {
	allocs := func(n int) float64 {
		body := []byte(`{"input_ids":[` + strings.TrimSuffix(strings.Repeat("999,", n), ",") + `]}`)
		root, err := parseBody(body)
		if err != nil {
			t.Fatal(err)
		}
		var ids value
		if err := root.object(func(_ string, v value) error { ids = v; return nil }); err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(20, func() {
			if got, err := ids.tokens(testVocab); err != nil || len(got) != n {
				t.Fatal(len(got), err)
			}
		})
	}
	if few, many := allocs(10), allocs(10000); few != many {
		t.Errorf("10 ids: %v allocations, 10,000 ids: %v", few, many)
	}
}

func FuzzParseGenerate(f *testing.F) {
	for _, seed := range []string{
		`{"text":"hi"}`, `{"input_ids":[1,2,999]}`, `{"input_ids":[[1]]}`, `{"text":"a","sampling_params":{"n":3},"bootstrap_room":7}`,
		`{"text":"a","sampling_params":{"n":2},"bootstrap_room":[1,2],"bootstrap_host":["a",null]}`, `[`, `{"text":"\ud800"}`,
		`{"text":"a","sampling_params":{"stop":[],"stop_token_ids":[ 1 , 2 ]}}`, "\xff", `{"":{}}`, `{"text":"a","logit_bias":{ }}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseGenerate(body, testLimits)
		if err != nil {
			var refused *bodyError
			if !errors.As(err, &refused) || refused.message == "" {
				t.Fatalf("refused with %T %v", err, err)
			}
			return
		}
		if err := sound(got); err != nil {
			t.Fatalf("%v in %+v", err, got)
		}
	})
}

// sound is what the engine may rely on in every accepted body.
func sound(b generateBody) error {
	for _, list := range [][]uint32{b.tokens, b.stopTokens} {
		for i, token := range list {
			if token >= testVocab {
				return fmt.Errorf("token %d is %d", i, token)
			}
		}
	}
	seen := map[uint64]bool{}
	for _, room := range b.rooms {
		if room > maxRoom || (room != 0 && seen[room]) {
			return fmt.Errorf("room %d", room)
		}
		seen[room] = true
	}
	n := b.samples
	switch {
	case len(b.tokens) == 0:
		return errors.New("no tokens")
	case n < 1 || n > MaxSamples || len(b.rooms) != n || len(b.hosts) != n || len(b.ports) != n:
		return errors.New("samples")
	case b.maxNewTokens < 1 || b.maxNewTokens > testLimits.maxNewTokens:
		return errors.New("maxNewTokens")
	case len(b.rid) > MaxRIDBytes || len(b.stopTokens) > maxStopTokens:
		return errors.New("a list or an id is too long")
	}
	return nil
}
