// The display words and tones of run states.
import { RunState } from "../../gen/palyra/v1/gateway_pb";
import type { Tone } from "../../ui/Badge";

const unknown: { word: string; tone: Tone } = { word: "unknown", tone: "warn" };

const words: Readonly<Partial<Record<RunState, { word: string; tone: Tone }>>> = {
  [RunState.RUNNING]: { word: "running", tone: "accent" },
  [RunState.COMPLETED]: { word: "completed", tone: "good" },
  [RunState.FAILED]: { word: "failed", tone: "bad" },
  [RunState.CANCELLED]: { word: "cancelled", tone: "warn" },
  [RunState.INTERRUPTED]: { word: "interrupted", tone: "warn" },
};

/** Returns the word of a state, or "unknown" for an unsupported one. */
export function stateOf(state: RunState): { word: string; tone: Tone } {
  return words[state] ?? unknown;
}
