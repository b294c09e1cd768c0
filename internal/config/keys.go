package config

import (
	"fmt"
	"strings"
	"time"
)

func sections() []Section {
	return []Section{
		{"http", "The listener that clients talk to."},
		{"decode", "The decode instance: its ranks, its tiers (L1 device, L2 host) and the rules of its scheduler."},
		{"prefill", "The prefill instance."},
		{"model", "What makes tokens."},
		{"router", "The part in front of prefill and decode."},
		{"policy", "The policies, one section a hook. Each names either a builtin or the path of a Wasm module."},
		{"policy.gate", "When may a request count as ready?"},
		{"policy.reserve", "How many tokens are held back for restores?"},
		{"policy.admit", "What may be admitted, and in what order?"},
		{"policy.score", "What is evicted first? The builtin lru asks nobody and runs nothing."},
		{"plugins", "The host side of policies."},
		{"log", "What is logged, and how."},
	}
}

// inlineTables are the tables that stand within their section, as one value.
func inlineTables() []Section {
	var out []Section
	for _, hook := range []string{"gate", "reserve", "admit", "score"} {
		out = append(out, Section{"policy." + hook + ".fuel", "What one call may spend, in units of about one instruction, such as " + fuelExample +
			". What is left out is the default; where all is, the module's manifest may ask for less."})
		out = append(out, Section{"policy." + hook + ".quarantine", "When the policy is quarantined, such as " + quarantineExample +
			": out of use on all ranks, with the native one in its place. What is left out is as in [policy]."})
	}
	return out
}

// inlineExample is a value of an inline table.
func inlineExample(name string) string {
	if strings.HasSuffix(name, ".fuel") {
		return fuelExample
	}
	return quarantineExample
}

// keys is the one table that file, flags, environment, help texts and the annotated file come from.
func keys() []Key {
	out := []Key{
		stringKey("http.host", "127.0.0.1", func(c *Config) *string { return &c.HTTP.Host }, checkHost,
			`Address to listen on: an IP address or a host name. "0.0.0.0" listens on all of the machine's addresses.`),
		intKey("http.port", 30000, 0, 65535, func(c *Config) *int { return &c.HTTP.Port },
			"TCP port to listen on; 0 takes any free one."),
		sizeKey("http.max_body", 8*mib, kib, gib, func(c *Config) *int64 { return &c.HTTP.MaxBody },
			"Largest request body; a longer one is refused with 413."),
		intKey("http.max_queue", 1024, 1, 1<<20, func(c *Config) *int { return &c.HTTP.MaxQueue },
			"Requests that may wait for admission; one more is refused with 503."),
		durationKey("http.shutdown_grace", 10*time.Second, 0, time.Hour, func(c *Config) *time.Duration { return &c.HTTP.ShutdownGrace },
			"How long a stop waits for running requests before it fails them."),
		durationKey("http.read_timeout", 30*time.Second, 10*time.Millisecond, time.Hour, func(c *Config) *time.Duration { return &c.HTTP.ReadTimeout },
			"How long a client may take to send one request."),
		durationKey("http.write_stall", time.Minute, 10*time.Millisecond, time.Hour, func(c *Config) *time.Duration { return &c.HTTP.WriteStall },
			"How long a client may take no bytes of its answer before its request is aborted."),

		intKey("decode.ranks", 2, 1, 8, func(c *Config) *int { return &c.Decode.Ranks },
			"Attention-TP ranks of the decode instance."),
		intKey("decode.page_size", 16, 1, 1024, func(c *Config) *int { return &c.Decode.PageSize },
			"Tokens in one page."),
		intKey("decode.max_total_tokens", 65536, 2, maxTokens, func(c *Config) *int { return &c.Decode.MaxTotalTokens },
			"Tokens that L1 holds on each rank; rounded down to whole pages."),
		floatKey("decode.l2_ratio", 4, 0, 64, false, func(c *Config) *float64 { return &c.Decode.L2Ratio },
			"Size of L2 as a multiple of L1; 0 turns L2 off."),
		intKey("decode.max_running", 64, 1, 65536, func(c *Config) *int { return &c.Decode.MaxRunning },
			"Requests in the running batch."),
		intKey("decode.metadata_slots", 128, 1, 65536, func(c *Config) *int { return &c.Decode.MetadataSlots },
			"Slots for the first token and the room stamp of transfers in flight."),
		intKey("decode.max_new_tokens", 4096, 1, 1<<20, func(c *Config) *int { return &c.Decode.MaxNewTokens },
			"Most tokens that one request may ask to generate."),
		intKey("decode.reserved_decode_tokens", 512, 0, 1<<20, func(c *Config) *int { return &c.Decode.ReservedDecodeTokens },
			"Tokens of L1 kept free for each running request when another one is admitted."),
		floatKey("decode.overcommit", 1, 0, 1, true, func(c *Config) *float64 { return &c.Decode.Overcommit },
			"Share of the tokens a request may still generate that admission sets aside; below 1, retraction pays for the difference."),
		intKey("decode.hold_ticks", 1000, 1, maxTicks, func(c *Config) *int { return &c.Decode.HoldTicks },
			"Ticks for which a gate may hold a request that is ready on every rank; then the native vote stands."),
		intKey("decode.starve_ticks", 1000, 1, maxTicks, func(c *Config) *int { return &c.Decode.StarveTicks },
			"Ticks for which the head of the queue may wait while there is room for it and nothing runs or transfers; then native reserve and admit apply."),
		intKey("decode.drain_ticks", 3000, 1, maxTicks, func(c *Config) *int { return &c.Decode.DrainTicks },
			"Ticks without a drain ack after which the peer's right to write is revoked."),
		intKey("decode.transfer_ticks", 30000, 1, maxTicks, func(c *Config) *int { return &c.Decode.TransferTicks },
			"Ticks without progress after which a transfer, or a handshake with the peer, is given up."),
		intKey("decode.admit_window", 64, 1, 4096, func(c *Config) *int { return &c.Decode.AdmitWindow },
			"Entries of the queue that the admit policy sees in one tick."),
		intKey("decode.operations", 64, 1, 4096, func(c *Config) *int { return &c.Decode.Operations },
			"Outstanding operations of each kind (restore, backup, save, resume, probe, read, write)."),
		intKey("decode.load_failures", 3, 1, 1000, func(c *Config) *int { return &c.Decode.LoadFailures },
			"Copies that cannot run, in a row on one cached node, after which its L2 copy is dropped."),
		durationKey("decode.idle_tick", 20*time.Millisecond, time.Millisecond, time.Minute, func(c *Config) *time.Duration { return &c.Decode.IdleTick },
			"Time between ticks while every queue is empty; at most a quarter of exchange_deadline."),
		durationKey("decode.exchange_deadline", 2*time.Second, 10*time.Millisecond, 10*time.Minute, func(c *Config) *time.Duration { return &c.Decode.ExchangeDeadline },
			"How long a rank waits for its peers in one exchange before it counts them as lost."),
		sizeKey("decode.ingress_slice", 64*kib, kib, 16*mib, func(c *Config) *int64 { return &c.Decode.IngressSlice },
			"Most bytes of new requests that one ballot carries."),
		boolKey("decode.checksums", true, func(c *Config) *bool { return &c.Decode.Checksums },
			"Check every page that comes back to L1 against the checksum it left with."),
		intKey("decode.max_tokens_per_request", 0, 0, maxTokens, func(c *Config) *int { return &c.Decode.MaxTokensPerRequest },
			"Most tokens of one request, prompt and answer together; 0 is as many as fill L1."),

		intKey("prefill.tp", 1, 1, 8, func(c *Config) *int { return &c.Prefill.TP },
			"TP ranks of the prefill instance. Where it differs from decode.ranks, pages arrive through the staging ring."),
		intKey("prefill.chunk_tokens", 2048, 1, 1<<20, func(c *Config) *int { return &c.Prefill.ChunkTokens },
			"Tokens computed and sent as one chunk."),
		sizeKey("prefill.staging_ring", 4*mib, 4*kib, gib, func(c *Config) *int64 { return &c.Prefill.StagingRing },
			"Staging ring on each decode rank; it must hold at least one page."),

		stringKey("model.name", "stand-in", func(c *Config) *string { return &c.Model.Name }, checkNotEmpty,
			`Name of the model. "stand-in" makes each token a hash of all KV bytes that the request reads.`),
		intKey("model.vocab_size", 151936, 256, 1<<24, func(c *Config) *int { return &c.Model.VocabSize },
			"Token ids; 0 to 255 are the bytes."),
		intKey("model.layers", 2, 1, 1024, func(c *Config) *int { return &c.Model.Layers },
			"Layers of KV in each page."),
		intKey("model.bytes_per_token_layer", 8, 1, 1<<20, func(c *Config) *int { return &c.Model.BytesPerTokenLayer },
			"Bytes of KV of one token in one layer on one rank."),
		intKey("model.seed", 1, 0, maxSeed, func(c *Config) *int { return &c.Model.Seed },
			"Seed of the stand-in's KV and tokens."),

		intKey("router.retries", 5, 0, 100, func(c *Config) *int { return &c.Router.Retries },
			"Times that a request failed with a retryable status is sent again before its client hears of it."),

		intKey("policy.quarantine_faults", 3, 1, 1000, func(c *Config) *int { return &c.Policy.QuarantineFaults },
			"Faults within quarantine_window_ticks that quarantine a policy on all ranks, where its own section does not say."),
		intKey("policy.quarantine_window_ticks", 1000, 1, maxTicks, func(c *Config) *int { return &c.Policy.QuarantineWindowTicks },
			"Ticks over which faults are counted, where the policy's own section does not say. A wait that hold_ticks or starve_ticks has to end is a fault too, and is counted over quarantine_faults times those ticks more, or for as long as the policy lets no request pass itself."),
		durationKey("policy.slow_call", 5*time.Millisecond, 0, time.Minute, func(c *Config) *time.Duration { return &c.Policy.SlowCall },
			"How long a policy call may take before a line of log and policy_slow_calls_total say so; its answer stands all the same, fuel alone limits it. 0 is off."),
	}
	out = append(out, hookKeys("policy.gate", "restore-gated", []string{"restore-gated", "pending-only", "ungated"},
		func(c *Config) *Hook { return &c.Policy.Gate })...)
	out = append(out, hookKeys("policy.reserve", "until-retired", []string{"until-retired", "pending-only", "none"},
		func(c *Config) *Hook { return &c.Policy.Reserve })...)
	out = append(out, hookKeys("policy.admit", "fifo-headroom", []string{"fifo-headroom", "greedy"},
		func(c *Config) *Hook { return &c.Policy.Admit })...)
	out = append(out, hookKeys("policy.score", "lru", []string{"lru", "lfu"},
		func(c *Config) *Hook { return &c.Policy.Score })...)
	return append(out,
		stringKey("plugins.cache_dir", "", func(c *Config) *string { return &c.Plugins.CacheDir }, nil,
			"Folder for compiled policy modules, made with mode 0700; empty is the user's cache folder."),
		enumKey("log.level", "info", []string{"debug", "info", "warn", "error"}, func(c *Config) *string { return &c.Log.Level },
			"Least severe level that is logged."),
		enumKey("log.format", "text", []string{"text", "json"}, func(c *Config) *string { return &c.Log.Format },
			"Form of the log lines."),
	)
}

func hookKeys(section, def string, builtins []string, hook func(*Config) *Hook) []Key {
	builtin := enumKey(section+".builtin", def, append([]string{""}, builtins...),
		func(c *Config) *string { return &hook(c).Builtin },
		"A shipped policy. Set builtin or path, not both.")
	return []Key{
		builtin,
		stringKey(section+".path", "", func(c *Config) *string { return &hook(c).Path }, nil,
			"A Wasm module in place of the builtin; a relative path starts at this file's folder."),
		enumKey(section+".engine", EngineWasm, []string{EngineWasm, EngineNative},
			func(c *Config) *string { return &hook(c).Engine },
			`What runs the policy: its Wasm module, or "native", the builtin compiled into this binary.`),
		stringKey(section+".sha256", "", func(c *Config) *string { return &hook(c).SHA256 }, checkSHA256,
			"Hash that the module at path must have, 64 hex digits; empty takes whatever is there."),
		stringKey(section+".key", "", func(c *Config) *string { return &hook(c).Key }, checkKey,
			`Public key, "ed25519:" and base64, that the module at path must be signed with, in FILE.wasm.sig beside it; empty needs no signature.`),
		optionalIntKey(section+".fuel.base", 1, maxFuel, func(c *Config) *int { return &hook(c).Fuel.Base },
			fmt.Sprintf("Before the part for each record; by default %d.", defaultFuelBase)),
		optionalIntKey(section+".fuel.per_record", 1, maxFuel, func(c *Config) *int { return &hook(c).Fuel.PerRecord },
			"What each record of a call adds; by default 10000."),
		optionalIntKey(section+".fuel.cap", 1, maxFuel, func(c *Config) *int { return &hook(c).Fuel.Cap },
			"The most, however many records there are; by default there is none."),
		intKey(section+".memory_pages", 0, 0, 65536, func(c *Config) *int { return &hook(c).MemoryPages },
			"Most memory of an instance of the module at path, in pages of 64 KiB; 0 is the default, 1024."),
		intKey(section+".shadow_ticks", 0, 0, maxTicks, func(c *Config) *int { return &hook(c).ShadowTicks },
			"Ticks for which a new policy answers beside the one in use, unheeded, before it may take its place; ticks that ask nothing do not count. 0 is none."),
		enumKey(section+".on_fault", OnFaultNative, []string{OnFaultNative, OnFaultHold}, func(c *Config) *string { return &hook(c).OnFault },
			onFaultDoc),
		optionalIntKey(section+".quarantine.faults", 1, 1000, func(c *Config) *int { return &hook(c).Quarantine.Faults },
			"Faults within window_ticks that quarantine the policy."),
		optionalIntKey(section+".quarantine.window_ticks", 1, maxTicks, func(c *Config) *int { return &hook(c).Quarantine.WindowTicks },
			"Ticks over which its faults are counted."),
		tableKey(section+".config", func(c *Config) *[]byte { return &hook(c).Config },
			"The policy's own settings: any keys, handed to it as JSON."),
	}
}

// defaultFuelBase is that of plugins.DefaultFuel.
const defaultFuelBase = 20_000_000

const fuelExample = "{ base = 20_000_000, per_record = 10_000 }"

const quarantineExample = "{ faults = 3, window_ticks = 1000 }"

const onFaultDoc = `Who answers from the tick in which the policy faults until it is back: "native", the shipped policy in plain Go, ` +
	`or "hold", nobody: gate lets nothing become ready, reserve holds everything back, admit defers everything. ` +
	`hold_ticks, starve_ticks and the quarantine end a hold. A fault of score changes no key either way.`
