// The Sluice policy ABI for AssemblyScript: no runtime, no allocation, no import.
//
// A policy is one entry file. It exports again what every module has, and one function a hook:
//
//     import { openGate, Status } from "sluice";
//     export { sluice_abi_1, sluice_arena, sluice_configure } from "sluice";
//
//     export function sluice_gate_v1(batch: usize): i32 {
//       const b = openGate(batch);
//       if (b == null) return Status.BAD_BATCH;
//       for (let i: u32 = 0; i < b.length; i++) b.setVote(i, b.at(i).rawPoll);
//       return Status.OK;
//     }
//
// A policy with settings leaves sluice_configure out of the second line and exports its own, which begins with
// checkHostInfo. A view is the record itself and lives for one call. An index out of range traps, and the host then answers
// natively.
//
// A policy that has something to say leaves sluice_arena out of the second line and exports its own, of what it uses; a module
// offers no other arena:
//
//     export function sluice_arena(kind: u32, bytes: u32): usize {
//       return arena(kind, bytes) | logArena(kind, bytes) | countersArena(kind, bytes) | stateArena(kind, bytes, state, 16);
//     }
//
//     log(LogLevel.INFO, "no page is free");
//     logLine(LogLevel.WARN).text("held ").uint(ticks).text(" ticks").end();
//     count(HELD, 1);
//
// The host reads lines and counters after each call, and moves the state (state.ts) to the policy that takes this one's place.

import { AdmitBatch, Arena, GateBatch, HostInfo, MAJOR, ReserveBatch, ScoreBatch, Status } from "./layout";

export * from "./counters";
export * from "./layout";
export * from "./log";
export * from "./state";

/** Bytes of the IN arena: an admit batch of 7,000 records, a gate batch of 13,000. A request for more is refused. */
export const IN_BYTES: u32 = 524288;
/** Bytes of the CONFIG arena. */
export const CONFIG_BYTES: u32 = 16384;
/** Bytes of the HOSTINFO arena, with room for the records of newer minor versions. */
export const HOST_INFO_BYTES: u32 = 256;

const inArena: usize = memory.data(524288, 16);
const configArena: usize = memory.data(16384, 16);
const hostInfoArena: usize = memory.data(256, 16);

/** Marks the module as one of this major version; never called. */
export function sluice_abi_1(): void {}

/** The address of an arena that every policy has; 0 refuses another kind, or more bytes than it has. */
export function sluice_arena(kind: u32, bytes: u32): usize {
  if (kind == Arena.CONFIG && bytes <= CONFIG_BYTES) return configArena;
  if (kind == Arena.IN && bytes <= IN_BYTES) return inArena;
  if (kind == Arena.HOST_INFO && bytes <= HOST_INFO_BYTES) return hostInfoArena;
  return 0;
}

// The name for a policy that exports a sluice_arena of its own.
export { sluice_arena as arena };

/** The configuration function of a policy that takes no settings: it refuses every table that is not empty. */
export function sluice_configure(info: usize): i32 {
  const status = checkHostInfo(info);
  if (status != Status.OK) return status;
  const n = hostInfo().configBytes;
  if (n == 0 || (n == 2 && configByte(0) == 0x7b && configByte(1) == 0x7d)) return Status.OK;
  return Status.BAD_CONFIG;
}

/** What a policy's own sluice_configure returns first, unless it is OK: the host's record is judged. */
export function checkHostInfo(info: usize): i32 {
  if (info != hostInfoArena) return Status.BAD_CONFIG;
  if (hostInfo().major != MAJOR) return Status.UNSUPPORTED_MINOR;
  return hostInfo().configBytes <= CONFIG_BYTES ? Status.OK : Status.BAD_CONFIG;
}

/** The host's record, filled before sluice_configure is called. */
@inline
export function hostInfo(): HostInfo {
  return changetype<HostInfo>(hostInfoArena);
}

/** Byte i of the policy's table, canonical JSON of hostInfo().configBytes bytes. */
export function configByte(i: u32): u8 {
  if (i >= CONFIG_BYTES) unreachable();
  return load<u8>(configArena + i);
}

/** The gate batch at the address that the host gave, null for bytes that are none. */
export function openGate(batch: usize): GateBatch | null {
  return batch == inArena ? GateBatch.open(batch, IN_BYTES) : null;
}

/** The reserve batch at the address that the host gave, null for bytes that are none. */
export function openReserve(batch: usize): ReserveBatch | null {
  return batch == inArena ? ReserveBatch.open(batch, IN_BYTES) : null;
}

/** The admit batch at the address that the host gave, null for bytes that are none. */
export function openAdmit(batch: usize): AdmitBatch | null {
  return batch == inArena ? AdmitBatch.open(batch, IN_BYTES) : null;
}

/** The score batch at the address that the host gave, null for bytes that are none. */
export function openScore(batch: usize): ScoreBatch | null {
  return batch == inArena ? ScoreBatch.open(batch, IN_BYTES) : null;
}
