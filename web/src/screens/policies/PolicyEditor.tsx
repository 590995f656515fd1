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
import { formatCount } from "../../text/count";
import { visibleText } from "../../text/visible";
import { ActionButton } from "../../ui/ActionButton";
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
import { Findings, concernsPolicies } from "./Findings";
import { useOwnSources, usePolicy } from "./Sources";
import type { Draft } from "./words";
import { parseCall, severityByLine, offsetOf, withSource } from "./words";

const newFile = "new file";
const checkDelay = 400;
const validName = /^[A-Za-z0-9._-]+\.cedar$/;

/**
 * An editor for a policy file with live checks and the simulation of a call. It writes nothing
 * on the gateway's host: the user saves the text there.
 */
export function PolicyEditor() {
  const drafts = useDrafts();
  const { draft, write } = drafts;
  const [file, setFile] = useQueryParam("file");
  const own = useOwnSources();
  const area = useRef<HTMLTextAreaElement>(null);
  const start = (name: string) => {
    const source = own.data?.find((each) => each.name === name);
    if (source !== undefined) drafts.start({ name: source.name, text: source.text });
  };
  // Open the file of the address once: its existing draft, or a new one.
  const openNamedFile = useEffectEvent(() => {
    const before = drafts.drafts.find((each) => each.name === file);
    if (before !== undefined) drafts.show(before.id);
    else start(file);
    setFile("");
  });
  const named = file !== "" && own.data !== undefined;
  useEffect(() => {
    if (named) openNamedFile();
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
            label="Start from"
            hint="The current text stays in the drafts."
            value=""
            options={[{ value: "", label: "Choose…" }, { value: newFile, label: "A new file" }, ...(own.data ?? []).map((source) => ({ value: source.name, label: source.name }))]}
            onChange={(event) => {
              if (event.target.value === newFile) drafts.show("");
              else start(event.target.value);
            }}
          />
          <TextField
            label="File name"
            className="font-mono"
            hint={validName.test(draft.name) ? undefined : "Letters, digits, dots, hyphens and underscores, with .cedar at the end."}
            value={draft.name}
            onChange={(event) => write({ ...draft, name: event.target.value })}
          />
        </div>
        <Editor area={area} text={draft.text} marks={severityByLine(findings, draft.name)} onText={(text) => write({ ...draft, text })} />
        <DraftList drafts={drafts} />
        <CheckStatus check={check} empty={draft.text.trim() === ""} findings={findings} />
        {findings.length > 0 && (
          <Findings
            findings={findings}
            onGo={(finding) => {
              if (finding.file === draft.name) go(finding);
            }}
          />
        )}
        <ActivationSteps draft={draft} />
      </div>
      <Simulation key={drafts.open} draft={draft} />
    </div>
  );
}

/** The drafts that this browser stores. */
function DraftList({ drafts }: { drafts: ReturnType<typeof useDrafts> }) {
  if (drafts.isFull) return <Notice tone="bad">The browser's storage is full: this draft is lost when you leave the page. Copy the text.</Notice>;
  if (drafts.drafts.length === 0) return null;
  return (
    <Section title="Drafts">
      <p className="text-sm text-quiet">Saved in this browser as you type, until you log out.</p>
      <ul className="flex flex-col gap-1">
        {drafts.drafts.map((each) => (
          <li key={each.id} className="flex flex-wrap items-center gap-2 rounded-lg border border-line px-3 py-1.5" aria-label={visibleText(each.name)}>
            <Untrusted text={each.name} className="font-mono" />
            <span className="text-sm text-quiet">
              {formatCount(each.text.split("\n").length, "line")}, <Time at={timestampFromMs(each.at)} />
            </span>
            <span className="ml-auto flex gap-2">
              {each.id === drafts.open ? <Badge tone="accent">open</Badge> : <Button size="small" onClick={() => drafts.show(each.id)}>Open</Button>}
              <ActionButton label="Discard" title="Discard this draft?" confirmLabel="Discard the draft" announcement="The draft is discarded." keys={[]} run={() => {
                  drafts.discard(each.id);
                  return Promise.resolve();
                }}>
                <p>The draft is not stored anywhere else. The active policies do not change.</p>
              </ActionButton>
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function useCheck(draft: Draft, own: Parameters<typeof withSource>[0]) {
  const [settledDraft, setSettledDraft] = useState(draft);
  useEffect(() => {
    const timer = setTimeout(() => setSettledDraft(draft), checkDelay);
    return () => clearTimeout(timer);
  }, [draft]);
  const can = useCan("policy.check");
  const query = useQuery({
    queryKey: ["policy", "check", settledDraft.name, settledDraft.text, own.length],
    enabled: can && settledDraft.text.trim() !== "" && settledDraft.name !== "",
    gcTime: 5_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => client(PolicyService).validatePolicy({ sources: withSource(own, settledDraft.name, settledDraft.text) }, { signal }),
  });
  // A result is displayed only for the text that was checked.
  return { ...query, isChecking: query.isFetching || settledDraft !== draft || query.data === undefined };
}

function CheckStatus({ check, empty, findings }: { check: ReturnType<typeof useCheck>; empty: boolean; findings: readonly PolicyFinding[] }) {
  const can = useCan("policy.check");
  if (!can) return <p className="text-sm text-quiet">You lack the permission policy.check: the text is not checked.</p>;
  if (empty) return <p className="text-sm text-quiet">The text is checked as you type, together with the operator's other active files.</p>;
  if (check.isError) return <ErrorState error={check.error} retry={() => void check.refetch()} />;
  const errors = findings.filter((finding) => finding.severity === "error").length;
  return (
    <p role="status" className="flex flex-wrap items-center gap-2 text-sm">
      {check.isChecking ? (
        <span className="text-quiet">Checking…</span>
      ) : errors > 0 ? (
        <Badge tone="bad">{errors === 1 ? "1 error: the policies would not load" : `${errors} errors: the policies would not load`}</Badge>
      ) : findings.some(concernsPolicies) ? (
        <Badge tone="warn">Valid, with warnings</Badge>
      ) : (
        <Badge tone="good">Valid</Badge>
      )}
    </p>
  );
}

// Line numbers and text have the same line height and scroll together.
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

/** The instructions for activating the draft, which this page cannot do. */
function ActivationSteps({ draft }: { draft: Draft }) {
  const inForce = usePolicy("");
  const directory = inForce.data?.directory?.path ?? "";
  if (draft.text.trim() === "" || !validName.test(draft.name)) return null;
  const path = directory === "" ? draft.name : `${directory}/${draft.name}`;
  const commands = [palyra("policy", "check", path), palyra("policy", "reload")];
  return (
    <Section title="Activation">
      <Notice>
        <p>This page cannot write files on the gateway's host. Copy the text, save it there, check it and reload:</p>
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

/** The simulation of a call under the active policies and under the draft. */
function Simulation({ draft }: { draft: Draft }) {
  const [tool, setTool] = useState(draft.call?.tool ?? "");
  const [principal, setPrincipal] = useState(draft.call?.principal ?? "");
  const [input, setInput] = useState(draft.call?.input ?? "");
  const [facts, setFacts] = useState(draft.call?.facts ?? "");
  const hasDraft = draft.text.trim() !== "";
  const parsed = parseCall({ tool, principal, input, facts });
  const simulate = useMutation({
    mutationFn: () => {
      if (!("call" in parsed)) throw new Error(parsed.problem);
      return client(PolicyService).simulatePolicy({ call: parsed.call, sources: hasDraft ? [{ name: draft.name, text: draft.text }] : [] });
    },
  });
  const disabledReason = "problem" in parsed ? parsed.problem : simulate.isPending ? "In progress." : undefined;
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <Section title="Simulate a call">
        <p className="text-sm text-quiet">{hasDraft ? "Evaluates the call under the draft, which replaces the file of its name, and under the active policies." : "Evaluates the call under the active policies."} No tool runs and no approval is requested.</p>
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (disabledReason === undefined) simulate.mutate();
          }}
        >
          <div className="grid gap-3 sm:grid-cols-2">
            <TextField label="Tool" placeholder="process.run" className="font-mono" value={tool} onChange={(event) => setTool(event.target.value)} />
            <TextField label="Principal" placeholder="agent:claude" hint="Leave it empty for yourself." className="font-mono" value={principal} onChange={(event) => setPrincipal(event.target.value)} />
          </div>
          <TextArea label="Input, as a JSON object" placeholder='{"argv": ["curl", "https://example.com"]}' rows={4} className="font-mono text-sm" value={input} onChange={(event) => setInput(event.target.value)} />
          <TextArea label="Facts that override the gateway's, as a JSON object" placeholder='{"session": {"tainted": true}}' rows={2} className="font-mono text-sm" value={facts} onChange={(event) => setFacts(event.target.value)} />
          <div>
            <Button type="submit" variant="primary" needs="policy.simulate" disabledReason={disabledReason}>
              Simulate
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
