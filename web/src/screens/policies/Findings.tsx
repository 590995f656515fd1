import type { PolicyFinding } from "../../gen/palyra/v1/policy_pb";
import { formatCount } from "../../text/count";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Notice } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { caret } from "./words";

/** The findings on policy sources: position, message, source line with a caret, and help. */
export function Findings({ findings, onGo }: { findings: readonly PolicyFinding[]; onGo?: (finding: PolicyFinding) => void }) {
  const here = findings.filter(concernsPolicies);
  const others = findings.filter((finding) => !concernsPolicies(finding));
  return (
    <>
      {here.length > 0 && <List label="Findings" findings={here} {...(onGo === undefined ? {} : { onGo })} />}
      {others.length > 0 && (
        <details>
          <summary className="cursor-pointer text-sm text-quiet">{formatCount(others.length, "finding")} about tools, independent of the policies</summary>
          <List label="Findings about tools" findings={others} />
        </details>
      )}
    </>
  );
}

/** Whether a finding concerns the policies: it has a position in them or prevents them from loading. Other findings concern the tools. */
export function concernsPolicies(finding: PolicyFinding): boolean {
  return finding.file !== "" || finding.severity === "error";
}

function List({ label, findings, onGo }: { label: string; findings: readonly PolicyFinding[]; onGo?: (finding: PolicyFinding) => void }) {
  return (
    <ul aria-label={label} className="flex flex-col gap-2">
      {findings.map((finding, i) => (
        // Findings can be identical, so the index is the key.
        <li key={i}>
          <Notice tone={finding.severity === "error" ? "bad" : "warn"}>
            <div className="flex flex-wrap items-baseline gap-2">
              <Badge tone={finding.severity === "error" ? "bad" : "warn"}>{finding.severity}</Badge>
              {finding.file !== "" && <Untrusted text={`${finding.file}:${finding.line}:${finding.column}`} className="font-mono text-sm" />}
              <code className="font-mono text-sm text-quiet">{finding.code}</code>
              {onGo !== undefined && finding.line > 0 && (
                <Button size="small" variant="bare" onClick={() => onGo(finding)}>
                  Go to line
                </Button>
              )}
            </div>
            <p className="mt-1">
              <Untrusted text={finding.message} />
            </p>
            {finding.sourceLine !== "" && <SourceExcerpt finding={finding} />}
            {finding.help !== "" && (
              <p className="mt-1 text-sm">
                <Untrusted text={finding.help} />
              </p>
            )}
          </Notice>
        </li>
      ))}
    </ul>
  );
}

function SourceExcerpt({ finding }: { finding: PolicyFinding }) {
  return (
    <div tabIndex={0} role="region" aria-label={`Line ${finding.line}`} className="mt-1 overflow-x-auto font-mono text-sm whitespace-pre">
      <Untrusted text={finding.sourceLine} className="whitespace-pre" />
      <div aria-hidden>{caret(finding.sourceLine, finding.column)}</div>
    </div>
  );
}
