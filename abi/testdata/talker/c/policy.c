// A gate that talks, in C: restore-gated, with a log, counters and state.
#include "sluice.h"

SLUICE_WITH_LOG()
SLUICE_WITH_COUNTERS()

enum { RECORDS, READY }; // the counters

static const char taken[] = "state taken over, \u20ac and \U0001f30a whole";

static uint64_t seen; // records, the state

static void say(uint32_t n, uint64_t ready) {
  sluice_line l = sluice_log_line((uint8_t)(n % 4));
  sluice_line_text(l, "gate of ");
  sluice_line_uint(l, n);
  sluice_line_text(l, " records, ready against all: ");
  sluice_line_int(l, (int64_t)ready - n);
  sluice_line_end(l);
  if (n < 8) return;
  l = sluice_log_line(SLUICE_LOG_DEBUG);
  sluice_line_text(l, "a long line is cut at the end of its entry, wherever that is; what lies before it stays as it is. Records up to now: ");
  sluice_line_uint(l, seen);
  sluice_line_text(l, "\u00e9\u00e9");
  sluice_line_end(l);
}

static int32_t gate(const sluice_gate_batch *b) {
  uint32_t n = sluice_gate_len(b);
  uint64_t ready = 0;
  for (uint32_t i = 0; i < n; i++) {
    sluice_gate_record r = sluice_gate_at(b, i);
    uint8_t vote = sluice_gate_record_raw_poll(r);
    uint8_t restore = sluice_gate_record_restore(r);
    if (vote == SLUICE_POLL_SUCCESS && restore == SLUICE_RESTORE_FAILED) {
      sluice_gate_fail(b, i, SLUICE_REASON_RESTORE_FAILED);
      continue;
    }
    if (vote == SLUICE_POLL_SUCCESS && restore == SLUICE_RESTORE_PENDING) vote = SLUICE_POLL_TRANSFERRING;
    if (vote == SLUICE_POLL_SUCCESS) ready++;
    sluice_gate_set_vote(b, i, vote);
  }
  seen += n;
  sluice_count(RECORDS, n);
  sluice_count(READY, ready);
  if (n > 0) say(n, ready);
  return SLUICE_STATUS_OK;
}

static int32_t save(uint8_t *state, uint32_t limit) {
  if (limit < 8) return SLUICE_STATUS_NO_CAPACITY;
  sluice_put64(state, seen);
  return 8;
}

static int32_t load(const uint8_t *state, uint32_t n, uint32_t schema) {
  if (!(schema == 1 && n == 8) && !(schema == 2 && n == 16)) {
    sluice_log(SLUICE_LOG_WARN, "this state is of no use here", 28);
    return SLUICE_STATUS_DECLINED;
  }
  seen = sluice_get64(state);
  sluice_log(SLUICE_LOG_INFO, taken, sizeof taken - 1);
  return SLUICE_STATUS_OK;
}

SLUICE_POLICY(sluice_no_config)
SLUICE_GATE(gate)
SLUICE_WITH_STATE(16, save, load)
