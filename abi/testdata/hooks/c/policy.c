// Every hook in C: restore-gated, until-retired, greedy, lfu.
#include "sluice.h"

static int32_t gate(const sluice_gate_batch *b) {
  for (uint32_t i = 0; i < sluice_gate_len(b); i++) {
    sluice_gate_record r = sluice_gate_at(b, i);
    uint8_t vote = sluice_gate_record_raw_poll(r);
    uint8_t restore = sluice_gate_record_restore(r);
    if (vote == SLUICE_POLL_SUCCESS && restore == SLUICE_RESTORE_FAILED)
      sluice_gate_fail(b, i, SLUICE_REASON_RESTORE_FAILED);
    else if (vote == SLUICE_POLL_SUCCESS && restore == SLUICE_RESTORE_PENDING)
      sluice_gate_set_vote(b, i, SLUICE_POLL_TRANSFERRING);
    else
      sluice_gate_set_vote(b, i, vote);
  }
  return SLUICE_STATUS_OK;
}

static int32_t reserve(const sluice_reserve_batch *b) {
  uint64_t held = 0;
  for (uint32_t i = 0; i < sluice_reserve_len(b); i++) {
    sluice_reserve_record r = sluice_reserve_at(b, i);
    if (!sluice_reserve_record_set_aside(r)) held += sluice_reserve_record_restore_tokens(r);
  }
  sluice_reserve_hold(b, held);
  return SLUICE_STATUS_OK;
}

static int32_t admit(const sluice_admit_batch *b) {
  for (uint32_t i = 0; i < sluice_admit_candidates(b); i++) {
    sluice_admit_record r = sluice_admit_at(b, i);
    int ready = sluice_admit_record_kind(r) == SLUICE_ADMIT_RESUME || (sluice_admit_record_flags(r) & SLUICE_ADMIT_FLAG_READY);
    sluice_admit_set(b, i, ready ? SLUICE_VERDICT_ADMIT : SLUICE_VERDICT_DEFER, i);
  }
  return SLUICE_STATUS_OK;
}

static int32_t score(const sluice_score_batch *b) {
  for (uint32_t i = 0; i < sluice_score_len(b); i++) {
    sluice_score_record r = sluice_score_at(b, i);
    uint64_t hits = sluice_score_record_hits(r), last = sluice_score_record_last_use(r);
    if (hits > (1u << 23) - 1) hits = (1u << 23) - 1;
    if (last > (1ull << 40) - 1) last = (1ull << 40) - 1;
    sluice_score_set(b, i, (int64_t)(hits << 40 | last));
  }
  return SLUICE_STATUS_OK;
}

SLUICE_POLICY(sluice_no_config)
SLUICE_GATE(gate)
SLUICE_RESERVE(reserve)
SLUICE_ADMIT(admit)
SLUICE_SCORE(score)
