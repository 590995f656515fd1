import { useEffect, useRef, useState } from "react";
import { client } from "../../../api/transport";
import { JournalService } from "../../../gen/palyra/v1/journal_pb";
import { Screen, Section } from "../../../shell/Screen";
import { palyra } from "../../../text/cli";
import { Badge } from "../../../ui/Badge";
import { Button } from "../../../ui/Button";
import { Id } from "../../../ui/Copy";
import { TextField } from "../../../ui/Field";
import { KeyValue } from "../../../ui/KeyValue";
import { ErrorState, Notice } from "../../../ui/State";
import { Untrusted } from "../../../ui/Untrusted";
import type { Failure, Outcome, Progress, Seen } from "../../../verify/check";
import { check, failureOf, pinProblem, pinsOf, proves } from "../../../verify/check";
import type { Pin } from "./memory";
import { dropPin, dropSeen, readPin, readSeen, writePin, writeSeen } from "./memory";
import { verifyWorker } from "./worker";

type State =
  | { kind: "idle" }
  | { kind: "running"; progress: Progress }
  | { kind: "done"; progress: Progress; outcome: Outcome }
  | { kind: "failed"; failure: Failure }
  | { kind: "error"; error: unknown };

/** The whole journal, verified by this browser: every hash, link, checkpoint, attestation and the seal. */
export default function VerifyPanel() {
  const [pin, setPin] = useState(readPin);
  const [seen, setSeen] = useState(readSeen);
  const [state, setState] = useState<State>({ kind: "idle" });
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);

  async function verify(): Promise<void> {
    const abort = new AbortController();
    stop.current = abort;
    let progress: Progress = { events: 0, seconds: 0 };
    setState({ kind: "running", progress });
    try {
      const outcome = await check(exported(abort.signal), verifyWorker, { ...pinsOf(pin?.text ?? ""), seenRoot: seen?.ca }, seen, (p) => {
        progress = p;
        setState({ kind: "running", progress });
      });
      writeSeen(outcome.seen);
      setSeen(outcome.seen);
      setState({ kind: "done", progress, outcome });
    } catch (thrown) {
      const failure = failureOf(thrown);
      if (abort.signal.aborted) setState({ kind: "idle" });
      else setState(failure === undefined ? { kind: "error", error: thrown } : { kind: "failed", failure });
    }
  }

  const running = state.kind === "running";
  return (
    <Screen
      title="Verify the journal"
      command={palyra("journal", "verify")}
      actions={
        running ? (
          <Button onClick={() => stop.current?.abort()}>Stop</Button>
        ) : (
          <Button look="primary" needs="journal.export" onClick={() => void verify()}>
            Verify
          </Button>
        )
      }
    >
      <Proves pin={pin} />
      <div role="status" aria-live="polite">
        {state.kind === "running" && <Rate progress={state.progress} />}
        {state.kind === "done" && <Done outcome={state.outcome} progress={state.progress} onPin={(text) => setPin(writePin(text))} pinned={pin !== undefined} />}
      </div>
      {state.kind === "failed" && <Failed failure={state.failure} />}
      {state.kind === "error" && <ErrorState error={state.error} retry={() => void verify()} />}
      <Pinned
        pin={pin}
        off={running ? "A verification is under way." : undefined}
        onPin={(text) => setPin(writePin(text))}
        onDrop={() => {
          dropPin();
          setPin(undefined);
        }}
      />
      <Memory
        seen={seen}
        onForget={() => {
          dropSeen();
          setSeen(undefined);
        }}
      />
    </Screen>
  );
}

async function* exported(signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const part of client(JournalService).exportJournal({}, { signal })) yield part.data;
}

function Proves({ pin }: { pin: Pin | undefined }) {
  return (
    <Notice tone={pin === undefined ? "warn" : "plain"}>
      <p className="font-semibold">
        {pin === undefined ? "No key is pinned: this proves that the journal is whole, and not whose it is." : "This proves the journal against the key that was pinned in this browser."}
      </p>
      <p className="mt-1 text-sm">
        The code that verifies was served by this gateway. Who doubts the gateway takes the <a className="text-accent underline" href="/palyra-verifier.html" download>verifier in one file</a>, whose digest is in the
        documentation, and an export; or <code className="font-mono">palyra journal verify FILE</code>. That one also compares each attestation with the events beside it, and votes with their passkeys.
      </p>
    </Notice>
  );
}

function Rate({ progress: { events, seconds } }: { progress: Progress }) {
  return (
    <p>
      {events.toLocaleString()} events verified in {seconds.toFixed(1)} s{seconds > 0 && `, ${Math.round(events / seconds).toLocaleString()} a second`}
    </p>
  );
}

function Done({ outcome, progress, pinned, onPin }: { outcome: Outcome; progress: Progress; pinned: boolean; onPin: (text: string) => void }) {
  const { summary, ca } = outcome;
  return (
    <div className="flex flex-col gap-3">
      <Notice tone={outcome.originProven ? "good" : "warn"}>
        <p className="font-semibold">{proves(outcome)}</p>
      </Notice>
      <Rate progress={progress} />
      <KeyValue
        rows={[
          ["Gateway", <Untrusted text={summary.gateway} />],
          ["Events", `${summary.events.toLocaleString()}, up to ${summary.last.toLocaleString()}`],
          ["Checkpoints", summary.checkpoints.toLocaleString()],
          ["Key replaced", summary.rotations > 0 && `${summary.rotations} times`],
          ["Erased payloads", summary.erased.toLocaleString()],
          ["Attestations", `${summary.attestations.toLocaleString()} verified${summary.erasedAttestations > 0 ? `, ${summary.erasedAttestations.toLocaleString()} erased` : ""}`],
          ["Signed up to", summary.signed.size.toLocaleString()],
          ["Key", <Id id={summary.key} keep={40} />],
          ["CA", ca !== undefined && <Id id={ca} keep={24} />],
        ]}
      />
      {!pinned && ca !== undefined && (
        <div className="flex flex-wrap items-center gap-3">
          <Button onClick={() => onPin(ca)}>Pin this CA</Button>
          <span className="text-sm text-quiet">Compare it over another channel first: it is what `palyra attest keys` says on the gateway's host.</span>
        </div>
      )}
    </div>
  );
}

function Failed({ failure }: { failure: Failure }) {
  return (
    <div role="alert" className="rounded-lg border border-bad bg-bad-soft px-4 py-3">
      <p className="font-semibold">
        <Badge tone="bad">does not verify</Badge> {failure.seq !== undefined ? `The first bad event is ${failure.seq}.` : "No event is to blame by itself."}
      </p>
      <p className="mt-1">
        <Untrusted text={failure.what} />
        {failure.line !== undefined && ` (line ${failure.line} of the export)`}
      </p>
      <p className="mt-1 text-sm">
        Keep an export as evidence, and check on the gateway's host: <code className="font-mono">{palyra("journal", "export", "journal.ndjson")}</code>
      </p>
    </div>
  );
}

function Pinned({ pin, off, onPin, onDrop }: { pin: Pin | undefined; off: string | undefined; onPin: (text: string) => void; onDrop: () => void }) {
  const [text, setText] = useState("");
  const given = text.trim();
  const problem = given === "" ? "Nothing is given." : pinProblem(given);
  return (
    <Section title="Pinned key">
      {pin === undefined ? (
        <form
          className="flex flex-col gap-2 sm:max-w-3xl"
          onSubmit={(event) => {
            event.preventDefault();
            if (problem === undefined) onPin(given);
          }}
        >
          <TextField label="CA fingerprint or checkpoint key" hint="From the gateway's host, by another way than this page: `palyra attest keys`." value={text} onChange={(event) => setText(event.target.value)} />
          <div>
            <Button type="submit" off={off ?? problem}>
              Pin
            </Button>
          </div>
        </form>
      ) : (
        <>
          <KeyValue
            rows={[
              [pin.text.startsWith("sha256:") ? "CA" : "Checkpoint key", <Id id={pin.text} keep={40} />],
              ["Pinned", new Date(pin.at).toLocaleString()],
            ]}
          />
          <div>
            <Button size="small" off={off} onClick={onDrop}>
              Unpin
            </Button>
          </div>
        </>
      )}
    </Section>
  );
}

function Memory({ seen, onForget }: { seen: Seen | undefined; onForget: () => void }) {
  if (seen === undefined) return null;
  return (
    <Section title="Last check">
      <p className="text-sm text-quiet">The next check holds the journal against this, and notices when it was rolled back or forked.</p>
      <KeyValue
        rows={[
          ["Checked", new Date(seen.at).toLocaleString()],
          ["Size", `${seen.size.toLocaleString()} events`],
          ["Root", <Id id={seen.root} />],
          ["CA", seen.ca !== undefined && <Id id={seen.ca} keep={24} />],
        ]}
      />
      <div>
        <Button size="small" onClick={onForget}>
          Forget
        </Button>
      </div>
    </Section>
  );
}
