package server

import (
	"math"
	"slices"
	"strconv"
)

// Bounds of one request, beside those of [Options].
const (
	// MaxRIDBytes is the longest id a client may choose: an abort carries it
	// whole in a slot of fixed size.
	MaxRIDBytes = 128
	// MaxSamples is the most parallel samples of one prompt.
	MaxSamples = 64

	maxStopTokens    = 256
	maxBootstrapHost = 253 // RFC 1035: the longest host name
	maxRoom          = math.MaxInt64
)

// generateBody is a checked body of /generate.
type generateBody struct {
	rid          string // "" when the client gave none
	tokens       []uint32
	stream       bool
	samples      int
	maxNewTokens int
	stopTokens   []uint32
	ignoreEOS    bool
	keepStop     bool // the text keeps the token that stopped it
	priority     uint16
	rooms        []uint64 // one a sample; 0 = none given
	hosts        []string
	ports        []int
}

// limits are what the body is checked against.
type limits struct {
	vocab, maxNewTokens, defaultMaxNewTokens int
}

// bodyParser collects what cannot be judged before the whole body is read.
type bodyParser struct {
	limits
	out               generateBody
	hasText, hasIDs   bool
	text              value
	ids               value
	room, host, portV value // zero value: not given
}

// fieldParser takes one non-null member.
type fieldParser func(p *bodyParser, v value) error

// unsupported refuses a field that asks for something this server does not do.
// Values that ask for nothing pass: routers send whole structs.
func unsupported(instead string) fieldParser {
	return func(_ *bodyParser, v value) error {
		if v.neutral() {
			return nil
		}
		return v.errorf("this is not supported here; %s", instead)
	}
}

const (
	leaveOut     = "leave the field out"
	batchMessage = "a batch of prompts is not served here; send one request per prompt"
)

// parseGenerate checks a body of /generate. The error is a *bodyError.
func parseGenerate(body []byte, lim limits) (generateBody, error) {
	root, err := parseBody(body)
	if err != nil {
		return generateBody{}, err
	}
	p := &bodyParser{limits: lim}
	p.out.samples = 1
	p.out.maxNewTokens = lim.defaultMaxNewTokens
	err = root.object(func(key string, v value) error {
		if v.isNull() {
			return nil
		}
		return topLevel(p, key, v)
	})
	if err != nil {
		return generateBody{}, err
	}
	if err := p.prompt(root); err != nil {
		return generateBody{}, err
	}
	if err := p.bootstrap(); err != nil {
		return generateBody{}, err
	}
	return p.out, nil
}

// topLevel takes one member of the body. Fields that are in no case here pass:
// routers and clients add fields of their own for other readers.
func topLevel(p *bodyParser, key string, v value) (err error) {
	switch key {
	case "text":
		p.hasText, p.text = true, v
	case "input_ids":
		p.hasIDs, p.ids = true, v
	case "rid":
		p.out.rid, err = parseRID(v)
	case "stream":
		p.out.stream, err = v.boolean()
	case "priority":
		var n uint64
		n, err = v.integer(0, math.MaxUint16)
		p.out.priority = uint16(n)
	case "bootstrap_host":
		p.host = v
	case "bootstrap_port":
		p.portV = v
	case "bootstrap_room":
		p.room = v
	case "sampling_params":
		if v.isList() {
			return v.errorf(batchMessage)
		}
		return v.object(func(key string, v value) error {
			if v.isNull() {
				return nil
			}
			return samplingParam(p, key, v)
		})
	case "extra_key":
		return unsupported("the cache's namespace comes from the caller's identity")(p, v)
	case "return_logprob", "return_hidden_states", "background", "return_bytes", "return_entropy",
		"input_embeds", "image_data", "video_data", "audio_data", "session_params", "lora_path", "lora_id",
		"custom_logit_processor":
		return unsupported(leaveOut)(p, v)
	}
	return err
}

func parseRID(v value) (string, error) {
	if v.isList() {
		return "", v.errorf(batchMessage)
	}
	rid, err := v.text()
	if err != nil {
		return "", err
	}
	if len(rid) == 0 || len(rid) > MaxRIDBytes {
		return "", v.errorf("want 1..%d bytes, got %d; leave the field out to be given an id", MaxRIDBytes, len(rid))
	}
	for _, r := range rid {
		if !strconv.IsPrint(r) {
			return "", v.errorf("want printable characters, got %q", r)
		}
	}
	return rid, nil
}

// supportedParams is for the error about one that is not.
const supportedParams = "max_new_tokens, n, stop_token_ids, ignore_eos, no_stop_trim, temperature (0 only), top_p, top_k, min_p"

// samplingParam takes one member of sampling_params. Here an unknown name is an
// error: a misspelt limit would otherwise leave the default in force.
func samplingParam(p *bodyParser, key string, v value) (err error) {
	var n uint64
	switch key {
	case "max_new_tokens":
		n, err = v.integer(1, uint64(p.limits.maxNewTokens))
		p.out.maxNewTokens = int(n)
	case "n":
		n, err = v.integer(1, MaxSamples)
		p.out.samples = int(n)
	case "stop_token_ids":
		p.out.stopTokens, err = v.tokens(p.vocab)
		if err == nil && len(p.out.stopTokens) > maxStopTokens {
			return v.errorf("want at most %d ids, got %d", maxStopTokens, len(p.out.stopTokens))
		}
	case "ignore_eos":
		p.out.ignoreEOS, err = v.boolean()
	case "no_stop_trim":
		p.out.keepStop, err = v.boolean()
	case "temperature":
		var t float64
		if t, err = v.number(); err == nil && t != 0 {
			return v.errorf("the model is sampled greedily, so only 0 is supported, got %s; send 0 or leave the field out", v.raw)
		}
	case "top_p", "top_k", "min_p", "sampling_seed":
		// The most likely token stays the most likely under any of these.
		_, err = v.number()
	case "repetition_penalty":
		var t float64
		if t, err = v.number(); err == nil && t != 1 {
			return v.errorf("only 1 is supported, got %s; send 1 or leave the field out", v.raw)
		}
	case "skip_special_tokens", "spaces_between_special_tokens":
		// No token is special: text is bytes, and other ids have none.
		_, err = v.boolean()
	case "stop":
		return unsupported("send stop_token_ids")(p, v)
	case "frequency_penalty", "presence_penalty", "min_new_tokens", "stop_regex", "json_schema", "regex",
		"ebnf", "structural_tag", "logit_bias", "custom_params":
		return unsupported(leaveOut)(p, v)
	default:
		return v.errorf("no such parameter; supported are %s", supportedParams)
	}
	return err
}

// prompt takes the one of text and input_ids that was given.
func (p *bodyParser) prompt(root value) (err error) {
	switch {
	case p.hasText && p.hasIDs:
		return p.ids.errorf("text and input_ids are both given; send one of them")
	case p.hasText:
		if p.text.isList() {
			return p.text.errorf(batchMessage)
		}
		var text string
		if text, err = p.text.text(); err != nil {
			return err
		}
		p.out.tokens = encodeText(text)
		if len(p.out.tokens) == 0 {
			return p.text.errorf("the prompt is empty; send at least one byte")
		}
	case p.hasIDs:
		if p.out.tokens, err = p.ids.tokens(p.vocab); err != nil {
			return err
		}
		if len(p.out.tokens) == 0 {
			return p.ids.errorf("the prompt is empty; send at least one token id")
		}
	default:
		return root.errorf("no prompt; send text or input_ids")
	}
	return nil
}

// bootstrap spreads the transfer's fields over the samples: a list has one entry
// a sample; a single host or port serves all; a single room is that of the first
// sample, and each further one has the next number.
func (p *bodyParser) bootstrap() error {
	n := p.out.samples
	p.out.rooms, p.out.hosts, p.out.ports = make([]uint64, n), make([]string, n), make([]int, n)
	rooms := p.out.rooms
	err := perSample(p.room, n, func(i int, v value) (err error) {
		rooms[i], err = v.integer(0, maxRoom)
		return err
	})
	if err != nil {
		return err
	}
	if p.room.raw != nil && !p.room.isList() && rooms[0] != 0 {
		for i := range rooms {
			if rooms[i] = rooms[0] + uint64(i); rooms[i] > maxRoom {
				return p.room.errorf("%d samples have no %d rooms from %d on; use a lower room", n, n, rooms[0])
			}
		}
	}
	for i, room := range rooms {
		if room != 0 && slices.Contains(rooms[:i], room) {
			return p.room.errorf("room %d is given to two samples; give each its own", room)
		}
	}
	err = perSample(p.host, n, func(i int, v value) (err error) {
		if p.out.hosts[i], err = v.text(); err == nil && len(p.out.hosts[i]) > maxBootstrapHost {
			return v.errorf("want at most %d bytes, got %d", maxBootstrapHost, len(p.out.hosts[i]))
		}
		return err
	})
	if err != nil {
		return err
	}
	return perSample(p.portV, n, func(i int, v value) error {
		port, err := v.integer(0, math.MaxUint16)
		p.out.ports[i] = int(port)
		return err
	})
}

// perSample calls set for each of n samples: with the elements of a list, which
// must be n, or with a single value for all. A null element is not given.
func perSample(v value, n int, set func(i int, v value) error) error {
	if v.raw == nil {
		return nil
	}
	if !v.isList() {
		for i := range n {
			if err := set(i, v); err != nil {
				return err
			}
		}
		return nil
	}
	count := 0
	err := v.list(func(i int, element value) error {
		count++
		if i >= n || element.isNull() {
			return nil
		}
		return set(i, element)
	})
	if err == nil && count != n {
		return v.errorf("want one value, or a list of %d (one a sample), got a list of %d", n, count)
	}
	return err
}

// parseAbort checks a body of /abort_request: rid, which may be "" only when all
// is true. The error is a *bodyError.
func parseAbort(body []byte) (rid string, all bool, err error) {
	root, err := parseBody(body)
	if err != nil {
		return "", false, err
	}
	err = root.object(func(key string, v value) (err error) {
		switch {
		case v.isNull():
		case key == "rid":
			rid, err = v.text()
		case key == "abort_all":
			all, err = v.boolean()
		}
		return err
	})
	if err != nil {
		return "", false, err
	}
	if rid == "" && !all {
		return "", false, root.errorf("rid is empty; name a request by its whole id, or set abort_all to true")
	}
	return rid, all, nil
}
