package kvcache

import "sync/atomic"

// Counters is what a Store has done since it was made. Tokens are those of good pages only, a page
// counted as the tokens it can hold.
type Counters struct {
	LoadBackTokens   uint64 // loaded from L2 to L1
	BackupTokens     uint64 // written through from L1 to L2
	SaveTokens       uint64 // saved from L1 to L2 on retraction
	ChecksumFailures uint64 // operations ended by bytes that had changed
	FailedLoads      uint64 // loads of which not every page is good
	FailedBackups    uint64 // backups and saves of which not every page is good
}

// counters is Counters as it is written by the tick and read by whoever scrapes metrics.
type counters struct {
	loadBackTokens, backupTokens, saveTokens     atomic.Uint64
	checksumFailures, failedLoads, failedBackups atomic.Uint64
}

func (c *counters) add(r Result, pageTokens int) {
	tokens, failed := &c.backupTokens, &c.failedBackups
	switch r.Kind {
	case Load:
		tokens, failed = &c.loadBackTokens, &c.failedLoads
	case Save:
		tokens = &c.saveTokens
	}
	tokens.Add(uint64(r.Good) * uint64(pageTokens))
	if r.Err != nil {
		failed.Add(1)
	}
	if r.BadBytes {
		c.checksumFailures.Add(1)
	}
}

// Counters is a snapshot of the counters. Any goroutine may call it.
func (s *Store) Counters() Counters {
	return Counters{
		LoadBackTokens:   s.counts.loadBackTokens.Load(),
		BackupTokens:     s.counts.backupTokens.Load(),
		SaveTokens:       s.counts.saveTokens.Load(),
		ChecksumFailures: s.counts.checksumFailures.Load(),
		FailedLoads:      s.counts.failedLoads.Load(),
		FailedBackups:    s.counts.failedBackups.Load(),
	}
}
