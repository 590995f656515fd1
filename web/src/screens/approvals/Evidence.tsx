import { useState } from "react";
import type { Approval, ApprovalDifference, ApprovalVote, ApprovalWhy } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalScope } from "../../gen/palyra/v1/approvals_pb";
import { ScreenLink } from "../../shell/router";
import { Section } from "../../shell/Screen";
import { durationMillis, formatDuration } from "../../text/time";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Id } from "../../ui/Copy";
import { Diff } from "../../ui/Diff";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { Coverage } from "./Decision";
import { offerName, isPending } from "./decide";
import { matches, scopes, types, nameOf } from "./words";

/** The evidence for the decision. Long values are expandable, never cut. */
export function Evidence({ approval }: { approval: Approval }) {
  const prompt = approval.prompt;
  if (prompt === undefined) return null;
  return (
    <>
      {prompt.notes.length > 0 && (
        <ul className="list-disc pl-5">
          {prompt.notes.map((note) => (
            <li key={note}>
              <Untrusted text={note} />
            </li>
          ))}
        </ul>
      )}
      {(prompt.files.length > 0 || prompt.diff !== "") && (
        <Section title="Changes">{prompt.files.length > 0 ? <Diff files={prompt.files} /> : <Untrusted block text={prompt.diff} />}</Section>
      )}
      {prompt.changed.length > 0 && (
        <Section title="Edits of the proposed call">
          <Differences label="Edits" isComparable differences={prompt.changed} />
        </Section>
      )}
      <Section title="Arguments">
        <Json bytes={prompt.argumentsJson} redacted={prompt.redacted} />
      </Section>
      <Section title="Execution">
        <KeyValue
          rows={[
            ["Tool", <Untrusted key="t" text={prompt.tool} className="font-mono" />],
            ["Program", prompt.executable !== "" && <Untrusted key="e" text={prompt.executable} className="font-mono" />],
            ["Program digest", prompt.executableDigest !== "" && <Id key="d" id={prompt.executableDigest} />],
            ["Arguments", prompt.argv.length > 0 && <ArgumentList key="w" words={prompt.argv} />],
            ["Directory", prompt.cwd !== "" && <Untrusted key="c" text={prompt.cwd} className="font-mono" />],
            ["Executor", prompt.executor],
            ["Sandbox", [prompt.sandboxTier === "" ? "" : `tier ${prompt.sandboxTier}`, prompt.sandboxProfile].filter((part) => part !== "").join(", ")],
            ["Network", prompt.egress.length > 0 && <Untrusted key="g" text={prompt.egress.join(", ")} className="font-mono" />],
            ["Secrets", prompt.secrets.length > 0 && <Untrusted key="s" text={prompt.secrets.join(", ")} className="font-mono" />],
            ["Files", prompt.operands.length > 0 && <Operands key="o" approval={approval} />],
          ]}
        />
      </Section>
      <Section title="Policies that require approval">
        <Causes causes={prompt.why} />
      </Section>
      {isPending(approval) && (
        <Section title="Scopes">
          <Offers approval={approval} />
        </Section>
      )}
      <Section title="Differences from the last approved call">
        <Differences label="Differences" isComparable={prompt.lastAllowed} differences={prompt.differsFromLast} />
      </Section>
      <Section title="Approval">
        <KeyValue
          rows={[
            ["Approval ID", <Id key="a" id={approval.approvalId} keep={26} />],
            ["Type", nameOf(types, approval.subjectType)],
            ["Subject", <Untrusted key="s" text={approval.subjectId} className="font-mono break-all" />],
            ["Call digest", <Id key="c" id={approval.callDigest} />],
            ["Policy snapshot", <Id key="p" id={approval.snapshotDigest} />],
            ["Run", approval.run !== "" && <IdLink key="r" base="/runs" id={approval.run} />],
            ["Call", approval.proposalId !== "" && <IdLink key="l" base="/calls" id={approval.proposalId} />],
            ["Session", <Untrusted key="n" text={approval.session} className="font-mono" />],
            ["Device", <Untrusted key="v" text={approval.device} className="font-mono" />],
            ["Channel", approval.channel !== "" && <Untrusted key="h" text={approval.channel} className="font-mono" />],
            ["Requested", <Time key="at" at={approval.createdAt} full />],
            ["Expires", <Time key="ex" at={approval.expiresAt} full />],
            ["Answered", approval.answeredAt !== undefined && <Time key="an" at={approval.answeredAt} full />],
            ["Grant", approval.grantId !== "" && <IdLink key="gr" base="/grants" id={approval.grantId} />],
          ]}
        />
      </Section>
      {approval.votes.length > 0 && (
        <Section title="Votes">
          <Votes votes={approval.votes} />
        </Section>
      )}
    </>
  );
}

function IdLink({ base, id }: { base: string; id: string }) {
  return (
    <ScreenLink to={`${base}/${encodeURIComponent(id)}`} className="font-mono text-accent underline">
      {id}
    </ScreenLink>
  );
}

// Each argument has its own box, so that one with a space cannot pass for two.
function ArgumentList({ words }: { words: readonly string[] }) {
  const [limit, setLimit] = useState(200);
  return (
    <>
      <ol className="flex flex-wrap gap-1">
        {words.slice(0, limit).map((text, i) => (
          <li key={i} className="rounded border border-line bg-panel px-1.5 font-mono text-sm break-all whitespace-pre-wrap">
            {text === "" ? <span className="text-quiet">(empty)</span> : <Untrusted text={text} />}
          </li>
        ))}
      </ol>
      {words.length > limit && (
        <Button size="small" onClick={() => setLimit(limit + 1000)}>
          Show more ({words.length - limit} left)
        </Button>
      )}
    </>
  );
}

function Operands({ approval }: { approval: Approval }) {
  return (
    <ul className="flex flex-col gap-1">
      {(approval.prompt?.operands ?? []).map((file) => (
        <li key={file.path} className="flex flex-wrap items-center gap-2">
          <Untrusted text={file.path} className="font-mono" />
          {file.sha256 === "" ? <span className="text-quiet">no such file yet</span> : <Id id={file.sha256} />}
        </li>
      ))}
    </ul>
  );
}

function Causes({ causes }: { causes: readonly ApprovalWhy[] }) {
  if (causes.length === 0) return <p className="text-quiet">You cannot read the policy, or it was not recorded.</p>;
  return (
    <ul className="flex flex-col gap-2">
      {causes.map((cause) => (
        <li key={`${cause.policyId}${cause.file}${cause.line}`} className="rounded-lg border border-line p-3">
          <p className="font-semibold">
            <Untrusted text={cause.reason || cause.policyId} />
          </p>
          <p className="text-sm text-quiet">
            <Untrusted text={cause.policyId} className="font-mono" /> at <Untrusted text={`${cause.file}:${cause.line}`} className="font-mono" />
          </p>
          {cause.condition !== "" && <Untrusted block text={cause.condition} className="mt-2" />}
        </li>
      ))}
    </ul>
  );
}

function Offers({ approval }: { approval: Approval }) {
  const prompt = approval.prompt;
  return (
    <>
      <ul className="flex flex-col gap-1.5">
        {(prompt?.scopes ?? []).map((offer) => (
          <li key={`${offer.scope}/${offer.match}`}>
            <span className="font-medium">{offerName(offer)}: </span>
            <span className="text-quiet">
              <Coverage offer={offer} />
            </span>
          </li>
        ))}
      </ul>
      {prompt !== undefined && prompt.exactOnly !== "" && (
        <p>
          No wider scope: <Untrusted text={prompt.exactOnly} />
        </p>
      )}
    </>
  );
}

function Differences({ label, isComparable, differences }: { label: string; isComparable: boolean; differences: readonly ApprovalDifference[] }) {
  if (!isComparable && differences.length === 0) return <p className="text-quiet">No earlier call of this tool by this requester was approved.</p>;
  if (differences.length === 0) return <p>No differences.</p>;
  return (
    <div className="overflow-x-auto" role="region" aria-label={label} tabIndex={0}>
      <table className="w-full text-left text-sm">
        <thead className="text-quiet">
          <tr>
            <th className="pr-4 font-normal">Field</th>
            <th className="pr-4 font-normal">Before</th>
            <th className="font-normal">After</th>
          </tr>
        </thead>
        <tbody>
          {differences.map((d) => (
            <tr key={d.field} className="border-t border-line align-top">
              <td className="py-1 pr-4 font-mono">
                <Untrusted text={d.field} />
              </td>
              <td className="bg-bad-soft px-2 py-1 font-mono break-all">
                <Untrusted text={d.was} />
              </td>
              <td className="bg-good-soft px-2 py-1 font-mono break-all">
                <Untrusted text={d.is} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Votes({ votes }: { votes: readonly ApprovalVote[] }) {
  return (
    <ol className="flex flex-col gap-2">
      {votes.map((vote, i) => (
        <li key={i} className="flex flex-wrap items-center gap-2 rounded-lg border border-line px-3 py-2">
          <Badge tone={vote.allow ? "good" : "bad"}>{vote.allow ? "allow" : "deny"}</Badge>
          <Untrusted text={vote.user} className="font-semibold" />
          {vote.allow && <span>{[nameOf(scopes, vote.scope), vote.scope === ApprovalScope.ONCE ? "" : nameOf(matches, vote.match), durationMillis(vote.ttl) > 0 ? formatDuration(durationMillis(vote.ttl)) : ""].filter((w) => w !== "").join(", ")}</span>}
          <span className="text-quiet">
            by {vote.surface}
            {vote.present ? (vote.passkey === undefined ? ", present" : ", present, by passkey") : ""}
            {vote.paired ? ", paired device" : ""}
          </span>
          <Time at={vote.at} full />
          {vote.reason !== "" && (
            <p className="w-full">
              “<Untrusted text={vote.reason} />”
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}
