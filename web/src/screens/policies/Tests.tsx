import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import type { PolicyCoverage, TestPolicyResponse } from "../../gen/palyra/v1/policy_pb";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { Section } from "../../shell/Screen";
import { plain } from "../../text/visible";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Checkbox, TextArea, TextField } from "../../ui/Field";
import { ErrorState } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { Findings } from "./Findings";
import { useOwnSources } from "./Sources";
import type { Draft } from "./words";
import { verdictTone, withSource } from "./words";

const example = `tests:
  - name: make is asked about
    call: {tool: process.run, args: {argv: [make]}, facts: {exec: {basename: make}}}
    expect: {verdict: ask}
`;

/** Runs test cases against what is in force, or would be with the draft, and says what they cover. */
export function Tests({ draft }: { draft: Draft }) {
  const [name, setName] = useState("console.test.yaml");
  const [text, setText] = useState("");
  const [drafted, setDrafted] = useState(draft.text !== "");
  const own = useOwnSources();
  const sources = drafted && draft.text !== "" && own.data !== undefined ? withSource(own.data, draft.name, draft.text) : [];
  const run = useMutation({ mutationFn: () => client(PolicyService).testPolicy({ sources, tests: [{ name: name.trim(), text }] }) });
  const wrong = text.trim() === "" ? "Write or paste cases." : name.trim() === "" ? "Name the file." : run.isPending ? "On its way." : undefined;
  return (
    <div className="flex flex-col gap-4">
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (wrong === undefined) run.mutate();
        }}
      >
        <TextField label="Name of the test file" value={name} onChange={(event) => setName(event.target.value)} className="font-mono" />
        <TextArea label="Cases, as YAML" hint="Each is a described call and the verdict that it should get. Nothing runs and nobody is asked. docs/policy.md describes them." placeholder={example} rows={12} value={text} onChange={(event) => setText(event.target.value)} className="font-mono text-sm" />
        {draft.text !== "" && <Checkbox label={`With ${plain(draft.name)} as it stands in the editor`} checked={drafted} onChange={(event) => setDrafted(event.target.checked)} />}
        <div>
          <Button type="submit" look="primary" needs="policy.test" off={wrong}>
            Run the tests
          </Button>
        </div>
      </form>
      {run.isError && <ErrorState error={run.error} />}
      {run.data !== undefined && <Ran of={run.data} />}
    </div>
  );
}

function Ran({ of }: { of: TestPolicyResponse }) {
  return (
    <>
      <div role="status" className="flex flex-wrap gap-2">
        <Badge tone="good">{of.passed} passed</Badge>
        <Badge tone={of.failed > 0 ? "bad" : "plain"}>{of.failed} failed</Badge>
        <Badge>{of.coveragePercent} % covered</Badge>
      </div>
      {of.findings.length > 0 && <Findings findings={of.findings} />}
      {of.results.length > 0 && (
        <Section title="Cases">
          <ul className="flex flex-col gap-1.5">
            {of.results.map((result, i) => (
              <li key={i} className="flex flex-wrap items-baseline gap-2">
                <Badge tone={result.passed ? "good" : "bad"}>{result.passed ? "passed" : "failed"}</Badge>
                <Untrusted text={result.name} />
                <Badge tone={verdictTone(result.verdict)}>{result.verdict}</Badge>
                <Untrusted text={`${result.file}:${result.line}`} className="font-mono text-sm text-quiet" />
                {result.determining.length > 0 && <Untrusted text={result.determining.join(", ")} className="font-mono text-sm text-quiet" />}
                {result.message !== "" && <Untrusted text={result.message} className="w-full text-sm" />}
              </li>
            ))}
          </ul>
        </Section>
      )}
      {of.coverage.length > 0 && (
        <Section title="Coverage">
          <ul className="flex flex-col gap-1">
            {of.coverage.map((policy) => (
              <li key={policy.policyId}>
                <Covered policy={policy} />
              </li>
            ))}
          </ul>
        </Section>
      )}
    </>
  );
}

function Covered({ policy }: { policy: PolicyCoverage }) {
  return (
    <details>
      <summary className="cursor-pointer">
        <span className="inline-flex flex-wrap items-baseline gap-2">
          <Badge tone={policy.determined > 0 ? "good" : "warn"}>{policy.determined > 0 ? `decided ${policy.determined}` : policy.applied > 0 ? `applied to ${policy.applied}` : "never in scope"}</Badge>
          <Untrusted text={policy.policyId} className="font-mono" />
        </span>
      </summary>
      <ul className="pl-5 font-mono text-sm">
        {policy.conditions.map((condition, i) => (
          <li key={i}>
            <Untrusted text={condition.text} />{" "}
            <span className="text-quiet">
              true {condition.wasTrue}, false {condition.wasFalse}
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}
