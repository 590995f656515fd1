import type { SkillFinding, SkillManifest, SkillTool } from "../../gen/palyra/v1/skill_pb";
import { Section } from "../../shell/Screen";
import { visibleText } from "../../text/visible";
import { Badge } from "../../ui/Badge";
import { Json } from "../../ui/Json";
import { Notice, CommandText } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { describePermissions, errorsFirst } from "./words";

/** The tools of a skill with their permissions. */
export function ToolList({ manifest }: { manifest: SkillManifest }) {
  return (
    <Section title="Tools">
      <ul aria-label="Tools" className="flex flex-col gap-3">
        {manifest.tools.map((tool) => (
          <li key={tool.id} aria-label={visibleText(tool.name)} className="flex flex-col gap-2 rounded-lg border border-line p-3">
            <ToolDetail tool={tool} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function ToolDetail({ tool }: { tool: SkillTool }) {
  const permissions = describePermissions(tool.capabilities);
  return (
    <>
      <p className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
        <Untrusted text={tool.name} className="font-mono font-semibold" />
        <span className="text-sm text-quiet">
          risk {tool.risk} · up to {tool.fuel.toLocaleString()} of fuel for a call{tool.features.length > 0 && ` · uses ${tool.features.join(", ")}`}
        </span>
      </p>
      <p className="whitespace-pre-wrap">
        <Untrusted text={tool.description} />
      </p>
      {permissions.length === 0 ? <p className="text-sm text-quiet">No permissions.</p> : <PermissionList title="Permissions" texts={permissions} />}
      <Schema title="Input schema" bytes={tool.inputSchemaJson} />
      <Schema title="Output schema" bytes={tool.outputSchemaJson} />
    </>
  );
}

function Schema({ title, bytes }: { title: string; bytes: Uint8Array }) {
  if (bytes.length === 0) return null;
  return (
    <details>
      <summary className="cursor-pointer text-sm">{title}</summary>
      <Json bytes={bytes} />
    </details>
  );
}

/** A list of permissions. Names in it are chosen by the publisher and untrusted. */
export function PermissionList({ title, texts }: { title: string; texts: readonly string[] }) {
  return (
    <div>
      <p className="text-sm font-medium">{title}</p>
      <ul className="list-disc pl-5">
        {texts.map((text) => (
          <li key={text}>
            <Untrusted text={text} />
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The findings of the audit, errors first. */
export function AuditFindings({ findings }: { findings: readonly SkillFinding[] }) {
  return (
    <Section title="Audit findings">
      {findings.length === 0 ? (
        <p className="text-quiet">None.</p>
      ) : (
        <ul aria-label="Findings" className="flex flex-col gap-2">
          {errorsFirst(findings).map((finding, i) => (
            // Findings can be identical, so the index is the key.
            <li key={i}>
              <Notice tone={finding.severity === "error" ? "bad" : "warn"}>
                <div className="flex flex-wrap items-baseline gap-2">
                  <Badge tone={finding.severity === "error" ? "bad" : "warn"}>{finding.severity}</Badge>
                  <code className="font-mono text-sm">{finding.code}</code>
                  {finding.about !== "" && <Untrusted text={finding.about} className="font-mono text-sm" />}
                </div>
                <p className="mt-1">
                  <Untrusted text={finding.what} />
                </p>
                {finding.remedy !== "" && (
                  <p>
                    <CommandText text={finding.remedy} />
                  </p>
                )}
              </Notice>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
