// The policy's log: lines of at most LOG_TEXT_BYTES bytes, the last LOG_ENTRIES of which the host finds after each call, one
// that trapped included. More lines than that in one call lose the first ones.

import { Arena, LOG_ENTRIES, LOG_ENTRY_SIZE, LOG_RING_SIZE, LOG_TEXT_BYTES, LogEntry, LogRing } from "./layout";

// Made on first use, so that a policy without a log has none.
@lazy
const logAt: usize = memory.data(8208, 16);

/** Bytes of the LOG arena. */
export const LOG_BYTES: u32 = LOG_RING_SIZE + LOG_ENTRIES * LOG_ENTRY_SIZE;

/** The address of the LOG arena; 0 for another kind, or more bytes than it has. */
export function logArena(kind: u32, bytes: u32): usize {
  return kind == Arena.LOG && bytes <= LOG_BYTES ? logAt : 0;
}

/** Writes one line. */
export function log(level: u8, text: string): void {
  logLine(level).text(text).end();
}

/** Begins a line that is put together of texts and numbers; end writes it. It is ended before another one begins. */
export function logLine(level: u8): LogLine {
  const k = changetype<LogRing>(logAt).written % LOG_ENTRIES;
  const line = changetype<LogLine>(logAt + LOG_RING_SIZE + k * LOG_ENTRY_SIZE);
  line.entry.setLevel(level);
  line.entry.setLength(0);
  return line;
}

/** A line under way. The object is the entry itself, where the host will read it. What is past LOG_TEXT_BYTES bytes is cut. */
@unmanaged
@final
export class LogLine {
  @inline
  get entry(): LogEntry {
    return changetype<LogEntry>(changetype<usize>(this));
  }

  /** Appends a text, as UTF-8. */
  text(s: string): LogLine {
    const at = changetype<usize>(s);
    const n = s.length;
    for (let i = 0; i < n; i++) {
      let c: u32 = load<u16>(at + (<usize>i << 1));
      if ((c & 0xfc00) == 0xd800 && i + 1 < n) {
        const low: u32 = load<u16>(at + (<usize>i << 1), 2);
        if ((low & 0xfc00) == 0xdc00) {
          c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
          i++;
        }
      }
      if (c < 0x80) {
        this.put(c);
        continue;
      }
      if (c < 0x800) {
        this.put(0xc0 | (c >> 6));
      } else {
        if (c < 0x10000) {
          this.put(0xe0 | (c >> 12));
        } else {
          this.put(0xf0 | (c >> 18));
          this.put(0x80 | ((c >> 12) & 0x3f));
        }
        this.put(0x80 | ((c >> 6) & 0x3f));
      }
      this.put(0x80 | (c & 0x3f));
    }
    return this;
  }

  /** Appends x in decimal. */
  uint(x: u64): LogLine {
    let unit: u64 = 1;
    while (x / unit >= 10) unit *= 10;
    for (; unit > 0; unit /= 10) this.put(0x30 + <u32>((x / unit) % 10));
    return this;
  }

  /** Appends x in decimal, with a minus sign where it is negative. */
  int(x: i64): LogLine {
    if (x < 0) this.put(0x2d);
    return this.uint(x < 0 ? 0 - <u64>x : <u64>x);
  }

  private put(c: u32): void {
    const n: u32 = this.entry.length;
    if (n >= LOG_TEXT_BYTES) return;
    store<u8>(changetype<usize>(this) + (LOG_ENTRY_SIZE - LOG_TEXT_BYTES) + n, <u8>c);
    this.entry.setLength(<u8>(n + 1));
  }

  /** Writes the line: from now on the host sees it. */
  end(): void {
    const ring = changetype<LogRing>(logAt);
    ring.setWritten(ring.written + 1);
  }
}
