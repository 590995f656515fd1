import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import type { SkillPublisher } from "../../gen/palyra/v1/skill_pb";
import { SkillService } from "../../gen/palyra/v1/skill_pb";
import { sentence } from "../../text/sentence";
import { plain } from "../../text/visible";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice, Words } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { keyId, publicKey } from "./words";

/** Whose keys are known, and which of them count. */
export function Publishers() {
  const query = useQuery({ queryKey: ["publishers"], queryFn: ({ signal }) => client(SkillService).listPublishers({}, { signal }) });
  return (
    <div className="flex flex-col gap-3">
      <div>
        <Trust />
      </div>
      {query.isPending ? (
        <Loading what="publishers" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.publishers.length === 0 ? (
        <EmptyState title="No publisher is known">The first package of a publisher pins their key, once somebody said yes to it.</EmptyState>
      ) : (
        <ul aria-label="Publishers" className="flex flex-col gap-3">
          {query.data.publishers.map((publisher) => (
            <One key={publisher.name} publisher={publisher} />
          ))}
        </ul>
      )}
    </div>
  );
}

function One({ publisher }: { publisher: SkillPublisher }) {
  const { name, publicKey } = publisher;
  return (
    <li aria-label={plain(name)} className="flex flex-col gap-2 rounded-lg border border-line p-3">
      <div className="flex flex-wrap items-center gap-2">
        <Untrusted text={name} className="font-semibold" />
        {publisher.problem !== "" ? <Badge tone="bad">damaged</Badge> : publisher.distrusted ? <Badge tone="bad">distrusted</Badge> : <Badge tone="good">trusted</Badge>}
        <span className="ml-auto">
          {publisher.distrusted ? (
            <Act label="Trust again" title="Trust this key again?" does="Trust this key" said="The publisher is trusted." needs="skill.write" keys={["publishers", "skills", "approvals"]} run={() => client(SkillService).trustPublisher({ name, publicKey })}>
              <p>
                What <code className="font-mono break-all">{publisher.keyId}</code> signs for <Untrusted text={name} /> counts again. Their skills stay quarantined until each is enabled. Where changes take two people, this asks the second one, and waits for them.
              </p>
            </Act>
          ) : (
            <Act label="Distrust" title="End the trust in this publisher?" does="Distrust the publisher" said="The publisher is not trusted any more." look="bad" needs="skill.write" keys={["publishers", "skills", "tools"]} run={() => client(SkillService).distrustPublisher({ name })}>
              <p>
                All skills of <Untrusted text={name} /> are quarantined at once, also for calls that wait for people now. To take it back, trust the key again and enable each of them.
              </p>
            </Act>
          )}
        </span>
      </div>
      {publisher.problem !== "" && (
        <Notice tone="bad">
          <Untrusted text={sentence(publisher.problem)} /> <Words text={publisher.remedy} />
        </Notice>
      )}
      <KeyValue
        rows={[
          ["Key", <Id id={publisher.keyId} keep={60} />],
          ["Pinned", publisher.firstUse ? "by the first package" : "by name"],
          [publisher.distrusted ? "Distrusted" : "Since", <Time at={publisher.addedAt} full />],
          ["By", <Untrusted text={publisher.addedBy} />],
        ]}
      />
    </li>
  );
}

function Trust() {
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const key = publicKey(text);
  return (
    <Act
      label="Trust a publisher"
      title="Whose signature counts from now on?"
      does="Trust this key"
      said="The publisher is trusted."
      needs="skill.write"
      keys={["publishers", "approvals"]}
      run={async () => {
        if (key === undefined) throw new Error("this is no public key: copy it whole, it is 32 bytes in base64");
        await client(SkillService).trustPublisher({ name: name.trim(), publicKey: key });
        setName("");
        setText("");
      }}
    >
      <p>Packages that this key signs under this name can be installed then, and none that another key signs. Where changes take two people, this asks the second one, and waits for them.</p>
      <TextField label="Publisher" placeholder="example.org" className="font-mono" required maxLength={64} pattern="[a-z0-9]+([._\-][a-z0-9]+)*" value={name} onChange={(event) => setName(event.target.value)} />
      <TextField label="Public key" hint="32 bytes in base64, as palyra skills keygen and palyra skills verify print it." className="font-mono" required value={text} onChange={(event) => setText(event.target.value)} />
      {key !== undefined && (
        <p>
          Compare its id with what the publisher tells you over another way: <code className="font-mono break-all">{keyId(key)}</code>
        </p>
      )}
    </Act>
  );
}
