import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Statement } from "../../api/passkey";
import { isActive, enrol, prove, passkeyProblem } from "../../api/passkey";
import { client } from "../../api/transport";
import { useCan, useWhoami } from "../../api/whoami";
import type { Passkey } from "../../gen/palyra/v1/presence_pb";
import { PresenceService } from "../../gen/palyra/v1/presence_pb";
import { announce } from "../../shell/announce";
import { Screen, Section } from "../../shell/Screen";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { useNow } from "../../ui/clock";
import { Id } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { namePattern, recent, usePasskeys } from "./list";
import { ConfirmationNotice } from "./ConfirmationNotice";

/** The passkeys with which members prove presence. */
export default function Passkeys() {
  const canReadAll = useCan("access.read");
  const query = usePasskeys(canReadAll);
  const me = useWhoami();
  const passkeys = query.data ?? [];
  const own = passkeys.filter((p) => p.member === me?.principal);
  const others = passkeys.filter((p) => p.member !== me?.principal);
  const problem = passkeyProblem();
  return (
    <Screen title="Passkeys" actions={<EnrolButton problem={problem} />}>
      {problem !== undefined && (
        <Notice tone="warn">
          <p className="font-semibold">Passkeys cannot be created or used in this browser.</p>
          <p>{problem}</p>
        </Notice>
      )}
      {query.isPending ? (
        <Loading what="passkeys" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <>
          <PasskeyNotices passkeys={passkeys} />
          <Section title="Your passkeys">
            {own.length === 0 ? (
              <EmptyState title="You have no passkey">If policy requires a proof of presence, an answer in the console requires a passkey. A passkey that you enrol before an agent is connected counts immediately.</EmptyState>
            ) : (
              <PasskeyList passkeys={own} own={own} />
            )}
          </Section>
          {canReadAll && (
            <Section title="Passkeys of other members">
              {others.length === 0 ? <p className="text-quiet">No other member has a passkey.</p> : <PasskeyList passkeys={others} own={own} />}
            </Section>
          )}
        </>
      )}
    </Screen>
  );
}

// Each enrolment is displayed for 7 days, so that an unknown passkey is noticed.
function PasskeyNotices({ passkeys }: { passkeys: readonly Passkey[] }) {
  const recentPasskeys = recent(passkeys, useNow());
  const lost = passkeys.filter((p) => p.lost);
  return (
    <>
      {recentPasskeys.length > 0 && (
        <Notice tone="warn">
          <p className="font-semibold">Enrolled in the last 7 days</p>
          <ul className="list-disc pl-5">
            {recentPasskeys.map((p) => (
              <li key={p.passkeyId}>
                <Untrusted text={p.name} className="font-semibold" /> of <Untrusted text={p.member} />, <Time at={p.enrolledAt} />
                {p.waits && ", not confirmed yet"}
              </li>
            ))}
          </ul>
          <p>Remove any passkey that its member does not recognise: another person may have created it.</p>
        </Notice>
      )}
      {lost.length > 0 && (
        <Notice tone="bad">
          <p className="font-semibold">The address of the console has changed since {lost.length === 1 ? "a passkey was" : `${lost.length} passkeys were`} created: browsers no longer offer {lost.length === 1 ? "it" : "them"}.</p>
          <ul className="list-disc pl-5">
            {lost.map((p) => (
              <li key={p.passkeyId}>
                <Untrusted text={p.name} className="font-semibold" /> of <Untrusted text={p.member} />, for <Untrusted text={p.rpId} className="font-mono" />
              </li>
            ))}
          </ul>
          <p>
            Restore <code className="font-mono">console.origin</code>, or remove {lost.length === 1 ? "it" : "them"} and enrol again.
          </p>
        </Notice>
      )}
    </>
  );
}

function EnrolButton({ problem }: { problem: string | undefined }) {
  const [open, setOpen] = useState(false);
  const [name, setName] = useState("");
  const queries = useQueryClient();
  const enrolment = useMutation({
    mutationFn: enrol,
    onSuccess: async (passkey) => {
      await queries.invalidateQueries({ queryKey: ["passkeys"] });
      announce(passkey.waits ? "The passkey is enrolled and must be confirmed." : "The passkey is enrolled and active.");
    },
  });
  const close = () => {
    setOpen(false);
    setName("");
    enrolment.reset();
  };
  const created = enrolment.data;
  const nameProblem = namePattern.test(name) ? undefined : "Letters, digits, spaces, dots, hyphens and underscores; at most 63.";
  return (
    <>
      <Button variant="primary" size="small" disabledReason={problem} onClick={() => setOpen(true)}>
        Enrol a passkey
      </Button>
      <Dialog open={open} onClose={close} title="Enrol a passkey">
        {created !== undefined ? (
          <div className="flex flex-col gap-3">
            {created.waits ? (
              <ConfirmationNotice passkey={created} />
            ) : (
              <Notice tone="good">
                <Untrusted text={created.name} className="font-semibold" /> is active.
              </Notice>
            )}
            <div className="flex justify-end">
              <Button variant="primary" onClick={close}>
                Done
              </Button>
            </div>
          </div>
        ) : (
          <form
            className="flex flex-col gap-3"
            onSubmit={(event) => {
              event.preventDefault();
              if (nameProblem === undefined && !enrolment.isPending) enrolment.mutate(name);
            }}
          >
            <p>A passkey is stored on this machine, a phone or a security key. Each use requires your fingerprint, face or PIN. It works only at this address.</p>
            <TextField label="Name" hint={name === "" ? "For example: laptop." : nameProblem} maxLength={63} value={name} onChange={(event) => setName(event.target.value)} />
            {enrolment.isPending && <Notice>Follow the instructions of the browser.</Notice>}
            {enrolment.isError && <ErrorState error={enrolment.error} />}
            <div className="flex flex-wrap justify-end gap-2">
              <Button onClick={close}>Cancel</Button>
              <Button type="submit" variant="primary" disabledReason={enrolment.isPending ? "Follow the instructions of the browser." : nameProblem}>
                Create the passkey
              </Button>
            </div>
          </form>
        )}
      </Dialog>
    </>
  );
}

function PasskeyList({ passkeys, own }: { passkeys: readonly Passkey[]; own: readonly Passkey[] }) {
  return (
    <ul className="flex flex-col gap-3">
      {passkeys.map((passkey) => (
        <PasskeyItem key={passkey.passkeyId} passkey={passkey} own={own} />
      ))}
    </ul>
  );
}

function PasskeyItem({ passkey, own }: { passkey: Passkey; own: readonly Passkey[] }) {
  const isOwn = own.includes(passkey);
  const activePasskeys = own.filter(isActive);
  // A caller with an active passkey signs the change with it. A caller without one sends no
  // proof, and the gateway decides whether that is sufficient.
  const proof = async (statement: Statement) => (activePasskeys.length > 0 ? { proof: await prove(statement) } : {});
  const { passkeyId } = passkey;
  return (
    <li aria-label={passkey.name} className="flex flex-col gap-2 rounded-lg border border-line p-3">
      <div className="flex flex-wrap items-center gap-2">
        <Untrusted text={passkey.name} className="font-semibold" />
        {!isOwn && <Untrusted text={passkey.member} className="text-quiet" />}
        {passkey.lost ? <Badge tone="bad">lost: created for another address</Badge> : passkey.waits ? <Badge tone="warn">not confirmed</Badge> : <Badge tone="good">active</Badge>}
        {passkey.backedUp && <Badge>backed up</Badge>}
        {passkey.counterBackAt !== undefined && <Badge tone="bad">may be cloned</Badge>}
        <span className="ml-auto flex gap-2">
          {passkey.waits && (!isOwn || activePasskeys.length > 0) && (
            <ActionButton
              label="Confirm"
              title={`Confirm ${passkey.name}?`}
              confirmLabel="Confirm the passkey"
              announcement="The passkey is confirmed and active."
              keys={["passkeys"]}
              run={async () => client(PresenceService).confirmPasskey({ passkeyId, ...(await proof({ case: "confirm", value: passkeyId })) })}
            >
              <p>
                The passkey then proves the presence of <Untrusted text={passkey.member} />. {isOwn ? "Confirm it only if you created it." : "Ask the member whether it is theirs, over a channel that an agent cannot answer."}
              </p>
            </ActionButton>
          )}
          <ActionButton
            label="Remove"
            title={`Remove ${passkey.name}?`}
            confirmLabel="Remove the passkey"
            announcement="The passkey is removed."
            variant="bad"
            keys={["passkeys"]}
            run={async () => client(PresenceService).removePasskey({ passkeyId, ...(isOwn && passkey.waits ? {} : await proof({ case: "remove", value: passkeyId })) })}
          >
            <p>The passkey can no longer prove presence. This cannot be undone. Votes that it signed remain valid.</p>
            {isOwn && !passkey.waits && <p>Your next passkey must be confirmed{own.length === 1 ? ", even if it is your only one" : ""}.</p>}
          </ActionButton>
        </span>
      </div>
      {passkey.waits && <ConfirmationNotice passkey={passkey} />}
      {passkey.counterBackAt !== undefined && (
        <Notice tone="bad">
          Its signature counter decreased <Time at={passkey.counterBackAt} />, so a copy of it may exist. Remove it unless you know the reason.
        </Notice>
      )}
      <KeyValue
        rows={[
          ["Enrolled", <Time key="e" at={passkey.enrolledAt} full />],
          ["Last used", <Time key="l" at={passkey.lastUsedAt} full />],
          ["For", <Untrusted key="r" text={passkey.rpId} className="font-mono" />],
          ["Model", /[1-9a-f]/.test(passkey.aaguid) && <code className="font-mono text-sm">{passkey.aaguid}</code>],
          ["Attested", passkey.attestation !== "none" && passkey.attestation],
          ["Id", <Id key="i" id={passkeyId} keep={26} />],
        ]}
      />
    </li>
  );
}
