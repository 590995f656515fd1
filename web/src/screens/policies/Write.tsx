import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useRef, useState } from "react";
import { client } from "../../api/transport";
import { useCan } from "../../api/whoami";
import type { PolicyFinding } from "../../gen/palyra/v1/policy_pb";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { Section } from "../../shell/Screen";
import { useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { counted } from "../../text/count";
import { plain } from "../../text/visible";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Copy } from "../../ui/Copy";
import { cx } from "../../ui/cx";
import { Select, TextArea, TextField } from "../../ui/Field";
import { ErrorState, Notice } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { useDrafts } from "./drafts";
import { Explanation } from "./Explanation";
import { Findings, placed } from "./Findings";
import { useOwnSources, usePolicy } from "./Sources";
import type { Draft } from "./words";
import { describe, marks, offsetOf, withSource } from "./words";

const fresh = "new file";
const pause = 400;
const validName = /^[A-Za-z0-9._-]+\.cedar$/;

/**
 * A file of policies, checked as it is written, with a call to try it on. Nothing is
 * written on the gateway's host: the text is the person's to put there.
 */
export function Write() {
  const kept = useDrafts();
  const { draft, write } = kept;
  const [file, setFile] = useQueryParam("file");
  const own = useOwnSources();
  const area = useRef<HTMLTextAreaElement>(null);
  const begin = (name: string) => {
    const source = own.data?.find((each) => each.name === name);
    if (source !== undefined) kept.begin({ name: source.name, text: source.text });
  };
  // The file that the address names is taken up once: as a draft of it that there is, or anew.
  const takeUp = useEffectEvent(() => {
    const before = kept.drafts.find((each) => each.name === file);
    if (before !== undefined) kept.show(before.id);
    else begin(file);
    setFile("");
  });
  const named = file !== "" && own.data !== undefined;
  useEffect(() => {
    if (named) takeUp();
  }, [named]);
  const check = useCheck(draft, own.data ?? []);
  const findings = check.data?.findings ?? [];
  const go = (finding: PolicyFinding) => {
    const at = offsetOf(draft.text, finding.line, finding.column);
    area.current?.focus();
    area.current?.setSelectionRange(at, at);
  };
  return (
    <div className="grid gap-6 xl:grid-cols-2">
      <div className="flex min-w-0 flex-col gap-3">
        <div className="grid gap-3 sm:grid-cols-2">
          <Select
            label="Begin with"
            hint="What stands below stays among the drafts."
            value=""
            options={[{ value: "", label: "Choose…" }, { value: fresh, label: "A new file" }, ...(own.data ?? []).map((source) => ({ value: source.name, label: source.name }))]}
            onChange={(event) => {
              if (event.target.value === fresh) kept.show("");
              else begin(event.target.value);
            }}
          />
          <TextField
            label="Name of the file"
            className="font-mono"
            hint={validName.test(draft.name) ? undefined : "Letters, digits, dots, hyphens and underscores, with .cedar at the end."}
            value={draft.name}
            onChange={(event) => write({ ...draft, name: event.target.value })}
          />
        </div>
        <Editor area={area} text={draft.text} marks={marks(findings, draft.name)} onText={(text) => write({ ...draft, text })} />
        <Drafts kept={kept} />
        <Checked check={check} empty={draft.text.trim() === ""} findings={findings} />
        {findings.length > 0 && (
          <Findings
            findings={findings}
            onGo={(finding) => {
              if (finding.file === draft.name) go(finding);
            }}
          />
        )}
        <Put draft={draft} />
      </div>
      <Simulate key={kept.open} draft={draft} />
    </div>
  );
}

/** What this browser keeps, with the way back to it. */
function Drafts({ kept }: { kept: ReturnType<typeof useDrafts> }) {
  if (kept.full) return <Notice tone="bad">The browser has no room to keep this draft: it is lost with this page. Copy the text.</Notice>;
  if (kept.drafts.length === 0) return null;
  return (
    <Section title="Drafts">
      <p className="text-sm text-quiet">Kept in this browser as you write. They are gone when you log out.</p>
      <ul className="flex flex-col gap-1">
        {kept.drafts.map((each) => (
          <li key={each.id} className="flex flex-wrap items-center gap-2 rounded-lg border border-line px-3 py-1.5" aria-label={plain(each.name)}>
            <Untrusted text={each.name} className="font-mono" />
            <span className="text-sm text-quiet">
              {counted(each.text.split("\n").length, "line")}, <Time at={timestampFromMs(each.at)} />
            </span>
            <span className="ml-auto flex gap-2">
              {each.id === kept.open ? <Badge tone="accent">open</Badge> : <Button size="small" onClick={() => kept.show(each.id)}>Open</Button>}
              <Act label="Discard" title="Discard this draft?" does="Discard the draft" said="The draft is gone." keys={[]} run={() => {
                  kept.discard(each.id);
                  return Promise.resolve();
                }}>
                <p>It is kept nowhere else. What is in force stays as it is.</p>
              </Act>
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function useCheck(draft: Draft, own: Parameters<typeof withSource>[0]) {
  const [settled, setSettled] = useState(draft);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(draft), pause);
    return () => clearTimeout(timer);
  }, [draft]);
  const can = useCan("policy.check");
  const query = useQuery({
    queryKey: ["policy", "check", settled.name, settled.text, own.length],
    enabled: can && settled.text.trim() !== "" && settled.name !== "",
    gcTime: 5_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => client(PolicyService).validatePolicy({ sources: withSource(own, settled.name, settled.text) }, { signal }),
  });
  // What is said of a text is never said of another one.
  return { ...query, underway: query.isFetching || settled !== draft || query.data === undefined };
}

function Checked({ check, empty, findings }: { check: ReturnType<typeof useCheck>; empty: boolean; findings: readonly PolicyFinding[] }) {
  const can = useCan("policy.check");
  if (!can) return <p className="text-sm text-quiet">You lack the permission policy.check: what you write is not checked here.</p>;
  if (empty) return <p className="text-sm text-quiet">It is checked as you write, together with the operator's other files in force.</p>;
  if (check.isError) return <ErrorState error={check.error} retry={() => void check.refetch()} />;
  const errors = findings.filter((finding) => finding.severity === "error").length;
  return (
    <p role="status" className="flex flex-wrap items-center gap-2 text-sm">
      {check.underway ? (
        <span className="text-quiet">Checking…</span>
      ) : errors > 0 ? (
        <Badge tone="bad">{errors === 1 ? "1 error: it would not load" : `${errors} errors: it would not load`}</Badge>
      ) : findings.some(placed) ? (
        <Badge tone="warn">It would load, with warnings</Badge>
      ) : (
        <Badge tone="good">It would load</Badge>
      )}
    </p>
  );
}

// The lines are as high as their numbers, and the frame scrolls both.
function Editor({ area, text, marks: marked, onText }: { area: React.RefObject<HTMLTextAreaElement | null>; text: string; marks: ReadonlyMap<number, string>; onText: (text: string) => void }) {
  const lines = text.split("\n").length;
  return (
    <div className="flex max-h-[60vh] min-h-64 overflow-y-auto rounded-md border border-edge bg-page font-mono text-sm leading-6">
      <div aria-hidden className="shrink-0 border-r border-line bg-panel px-2 py-1.5 text-right text-quiet select-none">
        {Array.from({ length: lines }, (_, i) => {
          const mark = marked.get(i + 1);
          return (
            <div key={i} className={cx(mark === "error" && "font-semibold text-bad", mark === "warning" && "font-semibold text-warn")}>
              {mark === "error" ? "✗ " : mark === "warning" ? "! " : ""}
              {i + 1}
            </div>
          );
        })}
      </div>
      <textarea
        ref={area}
        aria-label="Policies, as Cedar"
        wrap="off"
        spellCheck={false}
        autoComplete="off"
        autoCapitalize="off"
        rows={Math.max(lines, 10)}
        value={text}
        placeholder={'@id("team.no-curl")\nforbid (principal, action == Action::"tool.execute/process.run", resource)\nwhen { context has exec && context.exec.basename == "curl" };'}
        onChange={(event) => onText(event.target.value)}
        className="min-w-0 flex-1 resize-none overflow-x-auto overflow-y-hidden bg-transparent px-2.5 py-1.5 leading-6 text-ink placeholder:text-quiet"
      />
    </div>
  );
}

/** What brings the text into force: never this page. */
function Put({ draft }: { draft: Draft }) {
  const inForce = usePolicy("");
  const directory = inForce.data?.directory?.path ?? "";
  if (draft.text.trim() === "" || !validName.test(draft.name)) return null;
  const path = directory === "" ? draft.name : `${directory}/${draft.name}`;
  const commands = [palyra("policy", "check", path), palyra("policy", "reload")];
  return (
    <Section title="To bring it into force">
      <Notice>
        <p>This page writes no file on the gateway's host. Copy the text, save it there, check it and reload:</p>
        <ol className="mt-2 flex list-decimal flex-col gap-2 pl-5">
          <li>
            <span className="flex flex-wrap items-center gap-2">
              <Untrusted text={path} className="font-mono" />
              <Copy text={draft.text} label="Copy the text" />
              <Copy text={path} label="Copy the path" />
            </span>
            {directory === "" && <span className="block text-sm text-quiet">policy.dir is not set: set it in palyra.toml, and save the file in that directory.</span>}
          </li>
          {commands.map((command) => (
            <li key={command}>
              <span className="flex flex-wrap items-center gap-2">
                <Untrusted text={command} className="font-mono" />
                <Copy text={command} label="Copy" name={`Copy ${command}`} />
              </span>
            </li>
          ))}
        </ol>
      </Notice>
    </Section>
  );
}

/** One described call under what is in force, and under the draft. */
function Simulate({ draft }: { draft: Draft }) {
  const [tool, setTool] = useState(draft.call?.tool ?? "");
  const [principal, setPrincipal] = useState(draft.call?.principal ?? "");
  const [input, setInput] = useState(draft.call?.input ?? "");
  const [facts, setFacts] = useState(draft.call?.facts ?? "");
  const drafted = draft.text.trim() !== "";
  const found = describe({ tool, principal, input, facts });
  const simulate = useMutation({
    mutationFn: () => {
      if (!("call" in found)) throw new Error(found.wrong);
      return client(PolicyService).simulatePolicy({ call: found.call, sources: drafted ? [{ name: draft.name, text: draft.text }] : [] });
    },
  });
  const off = "wrong" in found ? found.wrong : simulate.isPending ? "On its way." : undefined;
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <Section title="Simulate a call">
        <p className="text-sm text-quiet">{drafted ? "Under the draft, which takes the place of the file of its name, and beside it under what is in force." : "Under what is in force."} Nothing runs and nobody is asked.</p>
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (off === undefined) simulate.mutate();
          }}
        >
          <div className="grid gap-3 sm:grid-cols-2">
            <TextField label="Tool" placeholder="process.run" className="font-mono" value={tool} onChange={(event) => setTool(event.target.value)} />
            <TextField label="Principal" placeholder="agent:claude" hint="Empty for yourself." className="font-mono" value={principal} onChange={(event) => setPrincipal(event.target.value)} />
          </div>
          <TextArea label="Input, as a JSON object" placeholder='{"argv": ["curl", "https://example.com"]}' rows={4} className="font-mono text-sm" value={input} onChange={(event) => setInput(event.target.value)} />
          <TextArea label="Facts that replace what the gateway would find, as a JSON object" placeholder='{"session": {"tainted": true}}' rows={2} className="font-mono text-sm" value={facts} onChange={(event) => setFacts(event.target.value)} />
          <div>
            <Button type="submit" look="primary" needs="policy.simulate" off={off}>
              Simulate it
            </Button>
          </div>
        </form>
      </Section>
      {simulate.isError && <ErrorState error={simulate.error} />}
      {simulate.data?.explanation !== undefined && (
        <div role="status">
          <Explanation of={simulate.data.explanation} inForce={simulate.data.verdictInForce} />
        </div>
      )}
    </div>
  );
}
