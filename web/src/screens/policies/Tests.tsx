import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import type { PolicyCoverage, TestPolicyResponse } from "../../gen/palyra/v1/policy_pb";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { Section } from "../../shell/Screen";
import { visibleText } from "../../text/visible";
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
  - name: make requires approval
    call: {tool: process.run, args: {argv: [make]}, facts: {exec: {basename: make}}}
    expect: {verdict: ask}
`;

/** Runs test cases against the active policies, optionally with the draft, and displays their coverage. */
export function Tests({ draft }: { draft: Draft }) {
  const [name, setName] = useState("console.test.yaml");
  const [text, setText] = useState("");
  const [usesDraft, setUsesDraft] = useState(draft.text !== "");
  const own = useOwnSources();
  const sources = usesDraft && draft.text !== "" && own.data !== undefined ? withSource(own.data, draft.name, draft.text) : [];
  const run = useMutation({ mutationFn: () => client(PolicyService).testPolicy({ sources, tests: [{ name: name.trim(), text }] }) });
  const disabledReason = text.trim() === "" ? "Enter test cases." : name.trim() === "" ? "Enter a file name." : run.isPending ? "In progress." : undefined;
  return (
    <div className="flex flex-col gap-4">
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (disabledReason === undefined) run.mutate();
        }}
      >
        <TextField label="Name of the test file" value={name} onChange={(event) => setName(event.target.value)} className="font-mono" />
        <TextArea label="Cases, as YAML" hint="A case describes a call and its expected verdict. No tool runs and no approval is requested. See docs/policy.md." placeholder={example} rows={12} value={text} onChange={(event) => setText(event.target.value)} className="font-mono text-sm" />
        {draft.text !== "" && <Checkbox label={`With ${visibleText(draft.name)} from the editor`} checked={usesDraft} onChange={(event) => setUsesDraft(event.target.checked)} />}
        <div>
          <Button type="submit" variant="primary" needs="policy.test" disabledReason={disabledReason}>
            Run the tests
          </Button>
        </div>
      </form>
      {run.isError && <ErrorState error={run.error} />}
      {run.data !== undefined && <TestResults of={run.data} />}
    </div>
  );
}

function TestResults({ of }: { of: TestPolicyResponse }) {
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
                <CoverageItem policy={policy} />
              </li>
            ))}
          </ul>
        </Section>
      )}
    </>
  );
}

function CoverageItem({ policy }: { policy: PolicyCoverage }) {
  return (
    <details>
      <summary className="cursor-pointer">
        <span className="inline-flex flex-wrap items-baseline gap-2">
          <Badge tone={policy.determined > 0 ? "good" : "warn"}>{policy.determined > 0 ? `determined ${policy.determined}` : policy.applied > 0 ? `applied to ${policy.applied}` : "never in scope"}</Badge>
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
