// The state that this browser keeps between verifications: the pinned key, and the head of the
// last verified journal.
import type { VerifiedState } from "../../../verify/check";

export interface Pin {
  /** The CA's fingerprint or the checkpoint key. */
  text: string;
  /** The time of the pinning, ISO 8601. */
  at: string;
}

const pinKey = "palyra.verify.pin";
const lastStateKey = "palyra.verify.seen";

export function readPin(): Pin | undefined {
  const stored = read(pinKey);
  return typeof stored?.text === "string" && typeof stored.at === "string" ? { text: stored.text, at: stored.at } : undefined;
}

export function writePin(text: string): Pin {
  const pin = { text, at: new Date().toISOString() };
  localStorage.setItem(pinKey, JSON.stringify(pin));
  return pin;
}

export function dropPin(): void {
  localStorage.removeItem(pinKey);
}

export function readLastState(): VerifiedState | undefined {
  const kept = read(lastStateKey);
  const { gateway, ca, size, root, at } = kept ?? {};
  if (typeof gateway !== "string" || typeof size !== "number" || typeof root !== "string" || typeof at !== "string") return undefined;
  return { gateway, ...(typeof ca === "string" ? { ca } : {}), size, root, at };
}

export function writeLastState(state: VerifiedState): void {
  localStorage.setItem(lastStateKey, JSON.stringify(state));
}

export function dropLastState(): void {
  localStorage.removeItem(lastStateKey);
}

function read(key: string): Record<string, unknown> | undefined {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(key) ?? "null");
    return typeof kept === "object" && kept !== null ? (kept as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
