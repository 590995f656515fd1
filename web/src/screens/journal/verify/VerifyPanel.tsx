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
import type { Failure, Outcome, Progress, VerifiedState } from "../../../verify/check";
import { verifyJournal, failureOf, pinProblem, pinsOf, describeProof } from "../../../verify/check";
import type { Pin } from "./storage";
import { dropPin, dropLastState, readPin, readLastState, writePin, writeLastState } from "./storage";
import { verifyWorker } from "./worker";

type State =
  | { kind: "idle" }
  | { kind: "running"; progress: Progress }
  | { kind: "done"; progress: Progress; outcome: Outcome }
  | { kind: "failed"; failure: Failure }
  | { kind: "error"; error: unknown };

/** Verifies the whole journal in this browser: every hash, link, checkpoint, attestation and the seal. */
export default function VerifyPanel() {
  const [pin, setPin] = useState(readPin);
  const [lastState, setLastState] = useState(readLastState);
  const [state, setState] = useState<State>({ kind: "idle" });
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);

  async function verify(): Promise<void> {
    const abort = new AbortController();
    stop.current = abort;
    let progress: Progress = { events: 0, seconds: 0 };
    setState({ kind: "running", progress });
    try {
      const outcome = await verifyJournal(readExport(abort.signal), verifyWorker, { ...pinsOf(pin?.text ?? ""), previousRoot: lastState?.ca }, lastState, (p) => {
        progress = p;
        setState({ kind: "running", progress });
      });
      writeLastState(outcome.lastState);
      setLastState(outcome.lastState);
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
          <Button variant="primary" needs="journal.export" onClick={() => void verify()}>
            Verify
          </Button>
        )
      }
    >
      <ProofNotice pin={pin} />
      <div role="status" aria-live="polite">
        {state.kind === "running" && <ProgressRate progress={state.progress} />}
        {state.kind === "done" && <Result outcome={state.outcome} progress={state.progress} onPin={(text) => setPin(writePin(text))} pinned={pin !== undefined} />}
      </div>
      {state.kind === "failed" && <FailureNotice failure={state.failure} />}
      {state.kind === "error" && <ErrorState error={state.error} retry={() => void verify()} />}
      <PinSection
        pin={pin}
        disabledReason={running ? "A verification is running." : undefined}
        onPin={(text) => setPin(writePin(text))}
        onDrop={() => {
          dropPin();
          setPin(undefined);
        }}
      />
      <LastVerification
        lastState={lastState}
        onForget={() => {
          dropLastState();
          setLastState(undefined);
        }}
      />
    </Screen>
  );
}

async function* readExport(signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const part of client(JournalService).exportJournal({}, { signal })) yield part.data;
}

function ProofNotice({ pin }: { pin: Pin | undefined }) {
  return (
    <Notice tone={pin === undefined ? "warn" : "plain"}>
      <p className="font-semibold">
        {pin === undefined ? "No key is pinned: this verifies the integrity of the journal, but not its origin." : "This verifies the journal against the key pinned in this browser."}
      </p>
      <p className="mt-1 text-sm">
        This gateway served the verifying code. To verify independently of the gateway, use an export with the <a className="text-accent underline" href="/palyra-verifier.html" download>single-file verifier</a>, whose digest is in the
        documentation, or with <code className="font-mono">palyra journal verify FILE</code>. The command also checks each attestation against its events, and votes against their passkeys.
      </p>
    </Notice>
  );
}

function ProgressRate({ progress: { events, seconds } }: { progress: Progress }) {
  return (
    <p>
      {events.toLocaleString()} events verified in {seconds.toFixed(1)} s{seconds > 0 && `, ${Math.round(events / seconds).toLocaleString()} a second`}
    </p>
  );
}

function Result({ outcome, progress, pinned, onPin }: { outcome: Outcome; progress: Progress; pinned: boolean; onPin: (text: string) => void }) {
  const { summary, ca } = outcome;
  return (
    <div className="flex flex-col gap-3">
      <Notice tone={outcome.originProven ? "good" : "warn"}>
        <p className="font-semibold">{describeProof(outcome)}</p>
      </Notice>
      <ProgressRate progress={progress} />
      <KeyValue
        rows={[
          ["Gateway", <Untrusted text={summary.gateway} />],
          ["Events", `${summary.events.toLocaleString()}, up to ${summary.last.toLocaleString()}`],
          ["Checkpoints", summary.checkpoints.toLocaleString()],
          ["Key rotations", summary.rotations > 0 && String(summary.rotations)],
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
          <span className="text-sm text-quiet">Compare it over another channel first, with the output of `palyra attest keys` on the gateway's host.</span>
        </div>
      )}
    </div>
  );
}

function FailureNotice({ failure }: { failure: Failure }) {
  return (
    <div role="alert" className="rounded-lg border border-bad bg-bad-soft px-4 py-3">
      <p className="font-semibold">
        <Badge tone="bad">not valid</Badge> {failure.seq !== undefined ? `The first invalid event is ${failure.seq}.` : "The failure is not in a single event."}
      </p>
      <p className="mt-1">
        <Untrusted text={failure.what} />
        {failure.line !== undefined && ` (line ${failure.line} of the export)`}
      </p>
      <p className="mt-1 text-sm">
        Keep an export as evidence, and verify it on the gateway's host: <code className="font-mono">{palyra("journal", "export", "journal.ndjson")}</code>
      </p>
    </div>
  );
}

function PinSection({ pin, disabledReason, onPin, onDrop }: { pin: Pin | undefined; disabledReason: string | undefined; onPin: (text: string) => void; onDrop: () => void }) {
  const [text, setText] = useState("");
  const input = text.trim();
  const problem = input === "" ? "Enter a fingerprint or a key." : pinProblem(input);
  return (
    <Section title="Pinned key">
      {pin === undefined ? (
        <form
          className="flex flex-col gap-2 sm:max-w-3xl"
          onSubmit={(event) => {
            event.preventDefault();
            if (problem === undefined) onPin(input);
          }}
        >
          <TextField label="CA fingerprint or checkpoint key" hint="The output of `palyra attest keys` on the gateway's host, obtained over another channel than this page." value={text} onChange={(event) => setText(event.target.value)} />
          <div>
            <Button type="submit" disabledReason={disabledReason ?? problem}>
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
            <Button size="small" disabledReason={disabledReason} onClick={onDrop}>
              Unpin
            </Button>
          </div>
        </>
      )}
    </Section>
  );
}

function LastVerification({ lastState, onForget }: { lastState: VerifiedState | undefined; onForget: () => void }) {
  if (lastState === undefined) return null;
  return (
    <Section title="Last verification">
      <p className="text-sm text-quiet">The next verification compares the journal with this state and detects a rollback or a fork.</p>
      <KeyValue
        rows={[
          ["Verified", new Date(lastState.at).toLocaleString()],
          ["Size", `${lastState.size.toLocaleString()} events`],
          ["Root", <Id id={lastState.root} />],
          ["CA", lastState.ca !== undefined && <Id id={lastState.ca} keep={24} />],
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
