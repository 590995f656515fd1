// The words of a call's states and outcomes, with their tones.
import { CallState } from "../../gen/palyra/v1/gateway_pb";
import type { Call } from "../../gen/palyra/v1/gateway_pb";
import type { Tone } from "../../ui/Badge";

/** How a call stands: its outcome once it has ended, else its state. */
export function standing(call: Call): { word: string; tone: Tone } {
  switch (call.state) {
    case CallState.PROPOSED:
      return { word: "proposed", tone: "plain" };
    case CallState.WAITING:
      return { word: "waits for people", tone: "accent" };
    case CallState.RUNNING:
      return { word: "running", tone: "accent" };
    case CallState.ENDED:
      return { word: call.outcome || "ended", tone: outcomeTone(call.outcome) };
    default:
      return { word: "unknown", tone: "warn" };
  }
}

/** Good for what did what it should, bad for what was refused or failed. */
export function outcomeTone(outcome: string): Tone {
  if (outcome === "ok" || outcome === "succeeded" || outcome === "completed") return "good";
  if (outcome === "cancelled" || outcome === "unreported") return "warn";
  return "bad";
}

/** The arguments on one line: what a list shows of them. */
export function argumentsOf(call: Call): string {
  return new TextDecoder().decode(call.argumentsJson);
}
