import type { ExplainedConjunct, ExplainedPolicy, ExplainPolicyResponse, PolicyFlip } from "../../gen/palyra/v1/policy_pb";
import { Section } from "../../shell/Screen";
import { ScreenLink } from "../../shell/router";
import { sentence } from "../../text/sentence";
import { Badge } from "../../ui/Badge";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { Notice, PointList } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { verdictTone } from "./words";

/** The explanation of a decision: the verdict, the changes that would alter it, and the policies with the values of their conditions. */
export function Explanation({ of, inForce = "" }: { of: ExplainPolicyResponse; inForce?: string }) {
  return (
    <div className="flex flex-col gap-4">
      <Notice tone={verdictTone(of.verdict) === "good" ? "good" : verdictTone(of.verdict) === "bad" ? "bad" : "plain"}>
        <div className="flex flex-wrap items-center gap-2">
          <Badge tone={verdictTone(of.verdict)}>{of.verdict}</Badge>
          {of.decision !== "" && <Badge tone={verdictTone(of.decision)}>the call was {of.decision}</Badge>}
          {inForce !== "" && <Badge tone={verdictTone(inForce)}>{inForce === of.verdict ? "same as active" : `active: ${inForce}`}</Badge>}
          {of.reason !== "" && <code className="font-mono text-sm">{of.reason}</code>}
        </div>
        {[of.summary, of.message, of.remedy]
          .filter((text, i, all) => text !== "" && all.indexOf(text) === i)
          .map((text) => (
            <p key={text} className="mt-1">
              <Untrusted text={text} />
            </p>
          ))}
      </Notice>
      <PointList tone="warn" title="Notes" texts={of.notes} />
      <PointList tone="bad" title="Errors (each denies the call)" texts={of.errors} />
      <KeyValue
        rows={[
          ["Tool", <Untrusted text={of.tool} />],
          ["Principal", <Untrusted text={of.principal} />],
          ["File", of.path !== "" && <Untrusted text={of.path} className="font-mono" />],
          ["Missing", of.missing !== "" && <Untrusted text={of.missing} />],
          ["Nearest permit", of.nearestPermit !== "" && <Untrusted text={of.nearestPermit} className="font-mono" />],
          ["Call", of.proposalId !== "" && <ScreenLink to={`/calls/${of.proposalId}`}>{of.proposalId}</ScreenLink>],
          ["Policy version", of.policyVersion !== "" && <ScreenLink to={`/policies?version=${of.policyVersion}`}>{of.policyVersion.slice(0, 19)}</ScreenLink>],
        ]}
      />
      {of.flips.length > 0 && (
        <Section title="Changes that would alter the verdict">
          <ol className="flex list-decimal flex-col gap-2 pl-5">
            {of.flips.map((flip, i) => (
              <li key={i}>
                <Flip flip={flip} />
              </li>
            ))}
          </ol>
        </Section>
      )}
      <Section title="Policies in scope">
        <ul className="flex flex-col gap-2">
          {of.policies.map((policy) => (
            <li key={policy.policyId}>
              <Policy policy={policy} />
            </li>
          ))}
        </ul>
        {of.policies.length === 0 && <p className="text-quiet">No policy is in scope. A call that no policy permits is denied.</p>}
      </Section>
      {of.contextJson.length > 0 && (
        <details>
          <summary className="cursor-pointer font-semibold">Facts</summary>
          <div className="mt-2">
            <Json bytes={of.contextJson} />
          </div>
        </details>
      )}
    </div>
  );
}

function Flip({ flip }: { flip: PolicyFlip }) {
  return (
    <>
      <span className="mr-2">
        <Untrusted text={flip.summary} />
      </span>
      <Badge tone={verdictTone(flip.verdict)}>then: {flip.verdict}</Badge>
      <ul className="mt-1 flex flex-col gap-0.5 text-sm">
        {flip.steps.map((step, i) => (
          <li key={i} className="flex flex-wrap gap-x-2">
            <Badge>{step.kind}</Badge>
            <Untrusted text={step.path} className="font-mono" />
            {(step.was !== "" || step.becomes !== "") && (
              <>
                <Untrusted text={step.was || "(none)"} className="font-mono text-quiet" />
                <span aria-label="becomes">→</span>
                <Untrusted text={step.becomes || "(none)"} className="font-mono" />
              </>
            )}
            {step.file !== "" && <Untrusted text={`${step.file}:${step.line}`} className="font-mono text-quiet" />}
          </li>
        ))}
      </ul>
    </>
  );
}

function Policy({ policy }: { policy: ExplainedPolicy }) {
  const place = policy.file === "" ? "" : `${policy.file}:${policy.line}`;
  return (
    <details open={policy.determining} className="rounded-lg border border-line bg-panel px-3 py-2">
      <summary className="cursor-pointer">
        <span className="inline-flex flex-wrap items-baseline gap-2">
          <Badge tone={policy.effect === "permit" ? "good" : "bad"}>{policy.effect}</Badge>
          <Untrusted text={policy.policyId} className="font-mono font-semibold" />
          <Untrusted text={place} className="font-mono text-sm text-quiet" />
          <Badge tone={policy.outcome === "error" ? "bad" : "plain"}>{policy.outcome.replaceAll("_", " ")}</Badge>
          {policy.determining && <Badge tone="accent">determining</Badge>}
        </span>
      </summary>
      {policy.reason !== "" && (
        <p className="mt-1 text-sm">
          <Untrusted text={sentence(policy.reason)} /> {policy.remedy !== "" && <Untrusted text={policy.remedy} />}
        </p>
      )}
      {policy.conjuncts.length === 0 ? <p className="mt-1 text-sm text-quiet">No conditions: only the scope applies.</p> : <Conjuncts conjuncts={policy.conjuncts} label={`Conditions of ${policy.policyId}`} />}
    </details>
  );
}

// The conditions as nested lists, for screen readers, with outcomes and values.
function Conjuncts({ conjuncts, label }: { conjuncts: readonly ExplainedConjunct[]; label?: string }) {
  return (
    <ul aria-label={label} className="mt-1 flex flex-col gap-1.5 border-l-2 border-line pl-3">
      {conjuncts.map((conjunct, i) => (
        <li key={i}>
          <div className="flex flex-wrap items-baseline gap-2">
            <Outcome outcome={conjunct.outcome} />
            {conjunct.clause !== "" && <span className="text-sm text-quiet">{conjunct.clause}</span>}
            <Untrusted text={conjunct.text} className="font-mono text-sm" />
          </div>
          {conjunct.values.length > 0 && (
            <ul className="mt-0.5 pl-4 font-mono text-sm text-quiet">
              {conjunct.values.map((value) => (
                <li key={value.path}>
                  <Untrusted text={`${value.path} = ${value.value}`} />
                </li>
              ))}
            </ul>
          )}
          {conjunct.error !== "" && (
            <p className="pl-4 text-sm text-bad">
              <Untrusted text={conjunct.error} />
            </p>
          )}
          {conjunct.parts.length > 0 && <Conjuncts conjuncts={conjunct.parts} />}
        </li>
      ))}
    </ul>
  );
}

function Outcome({ outcome }: { outcome: string }) {
  switch (outcome) {
    case "true":
      return <Badge tone="good">✓ true</Badge>;
    case "false":
      return <Badge tone="warn">✗ false</Badge>;
    case "error":
      return <Badge tone="bad">error</Badge>;
    default:
      return <Badge>not evaluated</Badge>;
  }
}
