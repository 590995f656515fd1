import type { SkillFinding, SkillManifest, SkillTool } from "../../gen/palyra/v1/skill_pb";
import { Section } from "../../shell/Screen";
import { plain } from "../../text/visible";
import { Badge } from "../../ui/Badge";
import { Json } from "../../ui/Json";
import { Notice, Words } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { asksFor, worstFirst } from "./words";

/** The tools of a skill, with what each asks for. */
export function ToolsOf({ manifest }: { manifest: SkillManifest }) {
  return (
    <Section title="Tools">
      <ul aria-label="Tools" className="flex flex-col gap-3">
        {manifest.tools.map((tool) => (
          <li key={tool.id} aria-label={plain(tool.name)} className="flex flex-col gap-2 rounded-lg border border-line p-3">
            <OneTool tool={tool} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function OneTool({ tool }: { tool: SkillTool }) {
  const asks = asksFor(tool.capabilities);
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
      {asks.length === 0 ? <p className="text-sm text-quiet">It asks for nothing beside its input.</p> : <Asks title="It asks for" texts={asks} />}
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

/** What is asked for, each on a line. Its names are the publisher's. */
export function Asks({ title, texts }: { title: string; texts: readonly string[] }) {
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

/** What an audit found, the errors first. */
export function Found({ findings }: { findings: readonly SkillFinding[] }) {
  return (
    <Section title="What an audit found">
      {findings.length === 0 ? (
        <p className="text-quiet">Nothing.</p>
      ) : (
        <ul aria-label="Findings" className="flex flex-col gap-2">
          {worstFirst(findings).map((finding, i) => (
            // Two findings can be the same in all they say.
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
                    <Words text={finding.remedy} />
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
