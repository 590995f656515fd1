import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Said } from "../../api/passkey";
import { counts, enrol, prove, whyNoPasskeys } from "../../api/passkey";
import { client } from "../../api/transport";
import { useCan, useWhoami } from "../../api/whoami";
import type { Passkey } from "../../gen/palyra/v1/presence_pb";
import { PresenceService } from "../../gen/palyra/v1/presence_pb";
import { announce } from "../../shell/announce";
import { Screen, Section } from "../../shell/Screen";
import { Act } from "../../ui/Act";
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
import { goodName, recent, usePasskeys } from "./list";
import { Waits } from "./Waits";

/** The passkeys by which members prove that they are there. */
export default function Passkeys() {
  const all = useCan("access.read");
  const query = usePasskeys(all);
  const me = useWhoami();
  const passkeys = query.data ?? [];
  const own = passkeys.filter((p) => p.member === me?.principal);
  const others = passkeys.filter((p) => p.member !== me?.principal);
  const off = whyNoPasskeys();
  return (
    <Screen title="Passkeys" actions={<Enrol off={off} />}>
      {off !== undefined && (
        <Notice tone="warn">
          <p className="font-semibold">No passkey can be made or used here.</p>
          <p>{off}</p>
        </Notice>
      )}
      {query.isPending ? (
        <Loading what="passkeys" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <>
          <News passkeys={passkeys} />
          <Section title="Yours">
            {own.length === 0 ? (
              <EmptyState title="You have no passkey">Where policy wants a person to be there, an answer in the console takes one. Make it before an agent is connected: then it counts at once.</EmptyState>
            ) : (
              <List passkeys={own} own={own} />
            )}
          </Section>
          {all && (
            <Section title="Of other members">
              {others.length === 0 ? <p className="text-quiet">No other member has a passkey.</p> : <List passkeys={others} own={own} />}
            </Section>
          )}
        </>
      )}
    </Screen>
  );
}

// Each enrolment is shown for 7 days, so that nobody has a passkey unseen.
function News({ passkeys }: { passkeys: readonly Passkey[] }) {
  const news = recent(passkeys, useNow());
  const lost = passkeys.filter((p) => p.lost);
  return (
    <>
      {news.length > 0 && (
        <Notice tone="warn">
          <p className="font-semibold">Enrolled in the last 7 days</p>
          <ul className="list-disc pl-5">
            {news.map((p) => (
              <li key={p.passkeyId}>
                <Untrusted text={p.name} className="font-semibold" /> of <Untrusted text={p.member} />, <Time at={p.enrolledAt} />
                {p.waits && ", not confirmed yet"}
              </li>
            ))}
          </ul>
          <p>If one is not known to its member, remove it: somebody else made it.</p>
        </Notice>
      )}
      {lost.length > 0 && (
        <Notice tone="bad">
          <p className="font-semibold">The console has another address than when {lost.length === 1 ? "a passkey was" : `${lost.length} passkeys were`} made: browsers offer {lost.length === 1 ? "it" : "them"} no more.</p>
          <ul className="list-disc pl-5">
            {lost.map((p) => (
              <li key={p.passkeyId}>
                <Untrusted text={p.name} className="font-semibold" /> of <Untrusted text={p.member} />, for <Untrusted text={p.rpId} className="font-mono" />
              </li>
            ))}
          </ul>
          <p>
            Set <code className="font-mono">console.origin</code> back, or remove {lost.length === 1 ? "it" : "them"} and enrol anew.
          </p>
        </Notice>
      )}
    </>
  );
}

function Enrol({ off }: { off: string | undefined }) {
  const [open, setOpen] = useState(false);
  const [name, setName] = useState("");
  const queries = useQueryClient();
  const act = useMutation({
    mutationFn: enrol,
    onSuccess: async (passkey) => {
      await queries.invalidateQueries({ queryKey: ["passkeys"] });
      announce(passkey.waits ? "The passkey is enrolled and waits to be confirmed." : "The passkey is enrolled and counts.");
    },
  });
  const close = () => {
    setOpen(false);
    setName("");
    act.reset();
  };
  const made = act.data;
  const badName = goodName.test(name) ? undefined : "Letters, digits, spaces, dots, hyphens and underscores; at most 63.";
  return (
    <>
      <Button look="primary" size="small" off={off} onClick={() => setOpen(true)}>
        Enrol a passkey
      </Button>
      <Dialog open={open} onClose={close} title="Enrol a passkey">
        {made !== undefined ? (
          <div className="flex flex-col gap-3">
            {made.waits ? (
              <Waits passkey={made} />
            ) : (
              <Notice tone="good">
                <Untrusted text={made.name} className="font-semibold" /> counts from now on.
              </Notice>
            )}
            <div className="flex justify-end">
              <Button look="primary" onClick={close}>
                Done
              </Button>
            </div>
          </div>
        ) : (
          <form
            className="flex flex-col gap-3"
            onSubmit={(event) => {
              event.preventDefault();
              if (badName === undefined && !act.isPending) act.mutate(name);
            }}
          >
            <p>It lives in this machine, a phone or a security key, and asks for your finger, face or PIN each time that it is used. It works at this address alone.</p>
            <TextField label="Name" hint={name === "" ? "What you call it, such as laptop." : badName} maxLength={63} value={name} onChange={(event) => setName(event.target.value)} />
            {act.isPending && <Notice>The browser asks you now.</Notice>}
            {act.isError && <ErrorState error={act.error} />}
            <div className="flex flex-wrap justify-end gap-2">
              <Button onClick={close}>Leave it</Button>
              <Button type="submit" look="primary" off={act.isPending ? "The browser asks you now." : badName}>
                Make the passkey
              </Button>
            </div>
          </form>
        )}
      </Dialog>
    </>
  );
}

function List({ passkeys, own }: { passkeys: readonly Passkey[]; own: readonly Passkey[] }) {
  return (
    <ul className="flex flex-col gap-3">
      {passkeys.map((passkey) => (
        <One key={passkey.passkeyId} passkey={passkey} own={own} />
      ))}
    </ul>
  );
}

function One({ passkey, own }: { passkey: Passkey; own: readonly Passkey[] }) {
  const mine = own.includes(passkey);
  const proving = own.filter(counts);
  // Who has a passkey that counts gives their word with it. Another admin without one
  // sends none, and the gateway says whether that is enough.
  const proof = async (said: Said) => (proving.length > 0 ? { proof: await prove(said) } : {});
  const { passkeyId } = passkey;
  return (
    <li aria-label={passkey.name} className="flex flex-col gap-2 rounded-lg border border-line p-3">
      <div className="flex flex-wrap items-center gap-2">
        <Untrusted text={passkey.name} className="font-semibold" />
        {!mine && <Untrusted text={passkey.member} className="text-quiet" />}
        {passkey.lost ? <Badge tone="bad">lost: made for another address</Badge> : passkey.waits ? <Badge tone="warn">waits to be confirmed</Badge> : <Badge tone="good">counts</Badge>}
        {passkey.backedUp && <Badge>backed up</Badge>}
        {passkey.counterBackAt !== undefined && <Badge tone="bad">may be copied</Badge>}
        <span className="ml-auto flex gap-2">
          {passkey.waits && (!mine || proving.length > 0) && (
            <Act
              label="Confirm"
              title={`Confirm ${passkey.name}?`}
              does="Confirm the passkey"
              said="The passkey is confirmed and counts."
              keys={["passkeys"]}
              run={async () => client(PresenceService).confirmPasskey({ passkeyId, ...(await proof({ case: "confirm", value: passkeyId })) })}
            >
              <p>
                From then on it proves that <Untrusted text={passkey.member} /> is there. {mine ? "Confirm it only if you made it." : "Ask them whether it is theirs, not by a message that an agent could answer."}
              </p>
            </Act>
          )}
          <Act
            label="Remove"
            title={`Remove ${passkey.name}?`}
            does="Remove the passkey"
            said="The passkey is removed."
            look="bad"
            keys={["passkeys"]}
            run={async () => client(PresenceService).removePasskey({ passkeyId, ...(mine && passkey.waits ? {} : await proof({ case: "remove", value: passkeyId })) })}
          >
            <p>It proves nothing from then on. This cannot be undone; votes that it signed stay what they are.</p>
            {mine && !passkey.waits && <p>The next passkey {own.length === 1 ? "is no first one any more: it" : ""} waits to be confirmed.</p>}
          </Act>
        </span>
      </div>
      {passkey.waits && <Waits passkey={passkey} />}
      {passkey.counterBackAt !== undefined && (
        <Notice tone="bad">
          It showed a counter that went back <Time at={passkey.counterBackAt} />: there may be a copy of it. Remove it, unless you know why.
        </Notice>
      )}
      <KeyValue
        rows={[
          ["Enrolled", <Time key="e" at={passkey.enrolledAt} full />],
          ["Last used", <Time key="l" at={passkey.lastUsedAt} full />],
          ["For", <Untrusted key="r" text={passkey.rpId} className="font-mono" />],
          ["Make", /[1-9a-f]/.test(passkey.aaguid) && <code className="font-mono text-sm">{passkey.aaguid}</code>],
          ["Attested", passkey.attestation !== "none" && passkey.attestation],
          ["Id", <Id key="i" id={passkeyId} keep={26} />],
        ]}
      />
    </li>
  );
}
