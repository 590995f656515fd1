// The display words and tones of call states and outcomes.
import { CallState } from "../../gen/palyra/v1/gateway_pb";
import type { Call } from "../../gen/palyra/v1/gateway_pb";
import type { Tone } from "../../ui/Badge";

/** Returns the outcome of an ended call, or the state of any other. */
export function callStatus(call: Call): { word: string; tone: Tone } {
  switch (call.state) {
    case CallState.PROPOSED:
      return { word: "proposed", tone: "plain" };
    case CallState.WAITING:
      return { word: "pending approval", tone: "accent" };
    case CallState.RUNNING:
      return { word: "running", tone: "accent" };
    case CallState.ENDED:
      return { word: call.outcome || "ended", tone: outcomeTone(call.outcome) };
    default:
      return { word: "unknown", tone: "warn" };
  }
}

/** Returns the tone of an outcome: good for success, bad for a refusal or failure. */
export function outcomeTone(outcome: string): Tone {
  if (outcome === "ok" || outcome === "succeeded" || outcome === "completed") return "good";
  if (outcome === "cancelled" || outcome === "unreported") return "warn";
  return "bad";
}

/** Returns the arguments as one line, for lists. */
export function argumentsOf(call: Call): string {
  return new TextDecoder().decode(call.argumentsJson);
}
