import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import type { SkillPublisher } from "../../gen/palyra/v1/skill_pb";
import { SkillService } from "../../gen/palyra/v1/skill_pb";
import { sentence } from "../../text/sentence";
import { visibleText } from "../../text/visible";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice, CommandText } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { keyId, parsePublicKey } from "./words";

/** The publishers with their keys and trust. */
export function Publishers() {
  const query = useQuery({ queryKey: ["publishers"], queryFn: ({ signal }) => client(SkillService).listPublishers({}, { signal }) });
  return (
    <div className="flex flex-col gap-3">
      <div>
        <TrustButton />
      </div>
      {query.isPending ? (
        <Loading what="publishers" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.publishers.length === 0 ? (
        <EmptyState title="No publishers">The confirmed installation of a publisher's first package pins the key.</EmptyState>
      ) : (
        <ul aria-label="Publishers" className="flex flex-col gap-3">
          {query.data.publishers.map((publisher) => (
            <PublisherItem key={publisher.name} publisher={publisher} />
          ))}
        </ul>
      )}
    </div>
  );
}

function PublisherItem({ publisher }: { publisher: SkillPublisher }) {
  const { name, publicKey } = publisher;
  return (
    <li aria-label={visibleText(name)} className="flex flex-col gap-2 rounded-lg border border-line p-3">
      <div className="flex flex-wrap items-center gap-2">
        <Untrusted text={name} className="font-semibold" />
        {publisher.problem !== "" ? <Badge tone="bad">damaged</Badge> : publisher.distrusted ? <Badge tone="bad">distrusted</Badge> : <Badge tone="good">trusted</Badge>}
        <span className="ml-auto">
          {publisher.distrusted ? (
            <ActionButton label="Trust again" title="Trust this key again?" confirmLabel="Trust this key" announcement="The publisher is trusted." needs="skill.write" keys={["publishers", "skills", "approvals"]} run={() => client(SkillService).trustPublisher({ name, publicKey })}>
              <p>
                A package that <code className="font-mono break-all">{publisher.keyId}</code> signs for <Untrusted text={name} /> is accepted again. Their skills stay quarantined until each is enabled. If changes require two people, this waits for the second one.
              </p>
            </ActionButton>
          ) : (
            <ActionButton label="Distrust" title="Distrust this publisher?" confirmLabel="Distrust the publisher" announcement="The publisher is no longer trusted." variant="bad" needs="skill.write" keys={["publishers", "skills", "tools"]} run={() => client(SkillService).distrustPublisher({ name })}>
              <p>
                All skills of <Untrusted text={name} /> are quarantined immediately, also for calls that wait for approval. To revert this, trust the key again and enable each skill.
              </p>
            </ActionButton>
          )}
        </span>
      </div>
      {publisher.problem !== "" && (
        <Notice tone="bad">
          <Untrusted text={sentence(publisher.problem)} /> <CommandText text={publisher.remedy} />
        </Notice>
      )}
      <KeyValue
        rows={[
          ["Key", <Id id={publisher.keyId} keep={60} />],
          ["Pinned", publisher.firstUse ? "by the first package" : "by an operator"],
          [publisher.distrusted ? "Distrusted" : "Since", <Time at={publisher.addedAt} full />],
          ["By", <Untrusted text={publisher.addedBy} />],
        ]}
      />
    </li>
  );
}

function TrustButton() {
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const key = parsePublicKey(text);
  return (
    <ActionButton
      label="Trust a publisher"
      title="Trust a publisher"
      confirmLabel="Trust this key"
      announcement="The publisher is trusted."
      needs="skill.write"
      keys={["publishers", "approvals"]}
      run={async () => {
        if (key === undefined) throw new Error("the text is not a public key: enter 32 bytes in base64");
        await client(SkillService).trustPublisher({ name: name.trim(), publicKey: key });
        setName("");
        setText("");
      }}
    >
      <p>Packages of this publisher can then be installed if this key signed them. Other keys are refused. If changes require two people, this waits for the second one.</p>
      <TextField label="Publisher" placeholder="example.org" className="font-mono" required maxLength={64} pattern="[a-z0-9]+([._\-][a-z0-9]+)*" value={name} onChange={(event) => setName(event.target.value)} />
      <TextField label="Public key" hint="32 bytes in base64, the output of palyra skills keygen and palyra skills verify." className="font-mono" required value={text} onChange={(event) => setText(event.target.value)} />
      {key !== undefined && (
        <p>
          Compare the key id with the publisher over another channel: <code className="font-mono break-all">{keyId(key)}</code>
        </p>
      )}
    </ActionButton>
  );
}
