// What this browser keeps between checks: the key that a person pinned, and the head that
// the last check saw.
import type { Seen } from "../../../verify/check";

export interface Pin {
  /** The CA's fingerprint or the checkpoint key. */
  text: string;
  /** When it was pinned, ISO 8601. */
  at: string;
}

const pinKey = "palyra.verify.pin";
const seenKey = "palyra.verify.seen";

export function readPin(): Pin | undefined {
  const kept = read(pinKey);
  return typeof kept?.text === "string" && typeof kept.at === "string" ? { text: kept.text, at: kept.at } : undefined;
}

export function writePin(text: string): Pin {
  const pin = { text, at: new Date().toISOString() };
  localStorage.setItem(pinKey, JSON.stringify(pin));
  return pin;
}

export function dropPin(): void {
  localStorage.removeItem(pinKey);
}

export function readSeen(): Seen | undefined {
  const kept = read(seenKey);
  const { gateway, ca, size, root, at } = kept ?? {};
  if (typeof gateway !== "string" || typeof size !== "number" || typeof root !== "string" || typeof at !== "string") return undefined;
  return { gateway, ...(typeof ca === "string" ? { ca } : {}), size, root, at };
}

export function writeSeen(seen: Seen): void {
  localStorage.setItem(seenKey, JSON.stringify(seen));
}

export function dropSeen(): void {
  localStorage.removeItem(seenKey);
}

function read(key: string): Record<string, unknown> | undefined {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(key) ?? "null");
    return typeof kept === "object" && kept !== null ? (kept as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
