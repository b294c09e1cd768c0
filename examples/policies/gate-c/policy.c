// The gate restore-gated in C: a finished transfer counts as ready only once this rank's restore is. A pending restore
// holds it back, a failed one fails it.
#include "sluice.h"

static int32_t restore_gated(const sluice_gate_batch *b) {
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

SLUICE_POLICY(sluice_no_config)
SLUICE_GATE(restore_gated)
