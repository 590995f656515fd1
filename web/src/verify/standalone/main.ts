// The single-file verifier: opens from disk, uses no network, and verifies an exported journal.
import { visibleText } from "../../text/visible";
import { verifyJournal, failureOf, pinProblem, pinsOf, describeProof } from "../check";
import { messageOf } from "../fault";
import Verify from "../worker?worker&inline";

function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no ${id}`);
  return found;
}

const drop = element("drop");
const file = element("file") as HTMLInputElement;
const pin = element("pin") as HTMLInputElement;
const result = element("result");

function show(tone: string, ...lines: readonly string[]): void {
  result.className = tone;
  result.replaceChildren(
    ...lines.map((line) => {
      const p = document.createElement("p");
      p.textContent = visibleText(line);
      return p;
    }),
  );
}

async function* pieces(blob: Blob): AsyncGenerator<Uint8Array> {
  const size = 1 << 20;
  for (let at = 0; at < blob.size; at += size) yield new Uint8Array(await blob.slice(at, at + size).arrayBuffer());
}

let running = false;

async function verify(exportFile: File): Promise<void> {
  if (running) return;
  const text = pin.value.trim();
  const problem = text === "" ? undefined : pinProblem(text);
  if (problem !== undefined) {
    show("bad", problem);
    return;
  }
  running = true;
  try {
    const rate = (events: number, seconds: number) => `${events.toLocaleString("en")} events in ${seconds.toFixed(1)} s`;
    let speed = "";
    const outcome = await verifyJournal(pieces(exportFile), () => new Verify(), pinsOf(text), undefined, ({ events, seconds }) => {
      speed = rate(events, seconds);
      show("", `Verifying ${exportFile.name}: ${speed}`);
    });
    const { summary } = outcome;
    show(
      outcome.originProven ? "good" : "warn",
      describeProof(outcome),
      `File: ${exportFile.name}, ${speed}`,
      `Gateway: ${summary.gateway}`,
      `Events: ${summary.events} (${summary.after + 1} to ${summary.last}), ${summary.checkpoints} checkpoints, ${summary.erased} erased payloads, ${summary.rotations} key rotations`,
      `Attestations: ${summary.attestations} verified, ${summary.erasedAttestations} erased`,
      `Signed up to: ${summary.signed.size}`,
      `Key: ${summary.key}`,
      `CA: ${outcome.ca ?? "none"}`,
      "Not checked here: attestations against their events, and votes against their passkeys. Use `palyra journal verify FILE` for these checks.",
    );
  } catch (thrown) {
    const failure = failureOf(thrown);
    if (failure === undefined) show("bad", `Verification failed: ${messageOf(thrown)}`);
    else
      show(
        "bad",
        `${exportFile.name} is not valid.${failure.seq === undefined ? "" : ` The first invalid event is ${failure.seq}.`}`,
        failure.what,
        ...(failure.line === undefined ? [] : [`Line ${failure.line} of the export.`]),
      );
  } finally {
    running = false;
    file.value = "";
  }
}

file.addEventListener("change", () => {
  const [given] = file.files ?? [];
  if (given !== undefined) void verify(given);
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
document.addEventListener("dragleave", () => drop.classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  const given = event.dataTransfer?.files[0];
  if (given !== undefined) void verify(given);
});
