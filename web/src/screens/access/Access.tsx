import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { useCan, useWhoami } from "../../api/whoami";
import type { ExplainAccessResponse } from "../../gen/palyra/v1/access_review_pb";
import { AccessReviewService } from "../../gen/palyra/v1/access_review_pb";
import type { Determining } from "../../gen/palyra/v1/gateway_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useGo, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Select, TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Tabs } from "../../ui/Tabs";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** Access review: an explained permission check, the roles, and the admitted principals. */
export default function Access() {
  const [tab, setTab] = useQueryParam("tab", "explain");
  const [who] = useQueryParam("who");
  const [what] = useQueryParam("what");
  const read = useCan("access.read");
  return (
    <Screen
      title="Access"
      command={tab === "roles" ? palyra("roles") : tab === "ceilings" ? palyra("access", "ceilings") : palyra("access", "explain", ...(who === "" || what === "" ? [] : [who, what]))}
      actions={read && <ScreenLink to="/members">Access by member</ScreenLink>}
    >
      <Tabs
        label="Access"
        value={tab}
        onChange={setTab}
        tabs={[
          { id: "explain", label: "Check access", content: <Explain /> },
          ...(read
            ? [
                { id: "roles", label: "Roles", content: <Roles /> },
                { id: "ceilings", label: "Admission", content: <Ceilings /> },
              ]
            : []),
        ]}
      />
    </Screen>
  );
}

function Explain() {
  const me = useWhoami();
  const [who] = useQueryParam("who");
  const [what] = useQueryParam("what");
  const go = useGo();
  const [typedWho, setTypedWho] = useState<string | undefined>(who === "" ? undefined : who);
  const [typedWhat, setTypedWhat] = useState(what);
  const name = typedWho ?? me?.principal ?? "";
  const query = useQuery({
    queryKey: ["access", "explain", who, what],
    enabled: who !== "" && what !== "",
    queryFn: ({ signal }) => client(AccessReviewService).explainAccess({ principal: who, method: what }, { signal }),
  });
  const disabledReason = name.trim() === "" ? "Enter a member." : typedWhat.trim() === "" ? "Enter a permission or a method." : undefined;
  return (
    <div className="flex flex-col gap-4">
      <form
        className="grid items-end gap-3 sm:grid-cols-[1fr_1fr_auto]"
        onSubmit={(event) => {
          event.preventDefault();
          if (disabledReason === undefined) go(`/access?${new URLSearchParams({ who: name.trim(), what: typedWhat.trim() }).toString()}`);
        }}
      >
        <TextField label="Member" placeholder="user:bob" className="font-mono" value={name} onChange={(event) => setTypedWho(event.target.value)} />
        <TextField label="Permission or method" placeholder="approval.decide" className="font-mono" value={typedWhat} onChange={(event) => setTypedWhat(event.target.value)} />
        <Button type="submit" variant="primary" disabledReason={disabledReason}>
          Check
          </Button>
      </form>
      {who === "" || what === "" ? (
        <EmptyState title="No check yet">You can check yourself and your agents. Checking other members requires access.read.</EmptyState>
      ) : query.isPending ? (
        <Loading what="the result" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <CheckResult of={query.data} />
      )}
    </div>
  );
}

function CheckResult({ of }: { of: ExplainAccessResponse }) {
  return (
    <>
      <Notice tone={of.allowed ? "good" : "bad"}>
        <p className="flex flex-wrap items-center gap-2">
          <Badge tone={of.allowed ? "good" : "bad"}>{of.allowed ? "allowed" : "denied"}</Badge>
          {of.reason !== "" && <code className="font-mono text-sm">{of.reason}</code>}
          <Untrusted text={of.message} />
        </p>
        {of.remedy !== "" && (
          <p className="mt-1">
            <Untrusted text={of.remedy} />
          </p>
        )}
      </Notice>
      <KeyValue
        rows={[
          ["Member", <Untrusted text={of.principal} />],
          ["Roles", <Untrusted text={of.roles.join(", ")} />],
          ["Permission", of.permission === "" ? "none required" : <code className="font-mono">{of.permission}</code>],
          ["Methods", <Untrusted text={of.methods.join(", ")} />],
          ["Other allowed members", of.whoMay.length > 0 && <Untrusted text={of.whoMay.join(", ")} />],
          ["Notes", of.notes.length > 0 && <Untrusted text={of.notes.join(" ")} />],
        ]}
      />
      {of.policies.length > 0 && (
        <Section title="Determining policies">
          <ul className="flex flex-col gap-1.5">
            {of.policies.map((policy) => (
              <li key={policy.policyId}>
                <DeterminingPolicy policy={policy} />
              </li>
            ))}
          </ul>
        </Section>
      )}
    </>
  );
}

function DeterminingPolicy({ policy }: { policy: Determining }) {
  return (
    <span className="flex flex-wrap items-baseline gap-2">
      <Badge tone={policy.effect === "permit" ? "good" : "bad"}>{policy.effect}</Badge>
      <Untrusted text={policy.policyId} className="font-mono font-semibold" />
      {policy.file !== "" && <Untrusted text={`${policy.file}:${policy.line}`} className="font-mono text-sm text-quiet" />}
      {policy.reason !== "" && <Untrusted text={policy.reason} className="w-full text-sm" />}
    </span>
  );
}

function Roles() {
  const query = useQuery({ queryKey: ["members", "roles"], queryFn: ({ signal }) => client(AccessReviewService).listRoles({}, { signal }) });
  if (query.isPending) return <Loading what="roles" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  return (
    <ul className="flex flex-col gap-2">
      {query.data.roles.map((role) => (
        <li key={role.role}>
          <details className="rounded-lg border border-line bg-panel px-3 py-2">
            <summary className="cursor-pointer">
              <span className="inline-flex flex-wrap items-baseline gap-2">
                <Untrusted text={role.role} className="font-semibold" />
                {role.builtin && <Badge>built in</Badge>}
                <span className="text-sm text-quiet">
                  {role.permissions.length} permissions, {role.members.length} members
                </span>
              </span>
            </summary>
            <div className="mt-2 flex flex-col gap-2">
              <KeyValue rows={[["Members", <Members members={role.members} />]]} />
              <ul aria-label={`Permissions of ${role.role}`} className="flex flex-wrap gap-1.5">
                {role.permissions.map((permission) => (
                  <li key={permission}>
                    <Badge>{permission}</Badge>
                  </li>
                ))}
              </ul>
            </div>
          </details>
        </li>
      ))}
    </ul>
  );
}

function Members({ members }: { members: readonly string[] }) {
  if (members.length === 0) return "none";
  return (
    <ul className="flex flex-wrap gap-x-4">
      {members.map((member) => (
        <li key={member}><ScreenLink to={`/members/${encodeURIComponent(member)}`}>{member}</ScreenLink></li>
      ))}
    </ul>
  );
}

function Ceilings() {
  const query = useQuery({ queryKey: ["members", "ceilings"], queryFn: ({ signal }) => client(AccessReviewService).listCeilings({}, { signal }) });
  if (query.isPending) return <Loading what="the admission list" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className="text-quiet">Excluded principals and channels can do nothing, regardless of policies. Entries here do not extend the lists of palyra.toml.</p>
        <SetCeiling />
      </div>
      {query.data.ceilings.length === 0 ? (
        <EmptyState title="No principal is excluded" />
      ) : (
        <ul className="flex flex-col gap-1.5">
          {query.data.ceilings.map((ceiling) => (
            <li key={`${ceiling.name} ${ceiling.setBy}`} className="flex flex-wrap items-baseline gap-2 border-b border-line py-1.5">
              <Badge tone={ceiling.allowed ? "good" : "bad"}>{ceiling.allowed ? "admitted" : "excluded"}</Badge>
              <Untrusted text={ceiling.name === "*" ? "every member" : ceiling.name} className="font-semibold" />
              <span className="text-sm text-quiet">{ceiling.setBy === "" ? "by palyra.toml" : <Author by={ceiling.setBy} />}</span>
              {ceiling.at !== undefined && (
                <span className="text-sm text-quiet">
                  <Time at={ceiling.at} />
                </span>
              )}
              {ceiling.reason !== "" && <Untrusted text={ceiling.reason} className="w-full text-sm" />}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Author({ by }: { by: string }) {
  return (
    <>
      by <Untrusted text={by} />
    </>
  );
}

function SetCeiling() {
  const [name, setName] = useState("");
  const [action, setAction] = useState("out");
  return (
    <ActionButton
      label="Admit or exclude"
      title="Admit or exclude a principal or channel"
      confirmLabel={action === "out" ? "Exclude" : "Admit"}
      announcement={action === "out" ? "The principal or channel is excluded." : "The principal or channel is admitted."}
      variant={action === "out" ? "bad" : "plain"}
      needs="access.write"
      reason="Reason (kept in the journal)"
      keys={["members", "access"]}
      run={(reason) => client(AccessReviewService).setCeiling({ name: name.trim(), allowed: action === "in", reason })}
    >
      <TextField label="Principal or channel" placeholder="agent:helper" hint="user:NAME, agent:NAME or channel:NAME." className="font-mono" required value={name} onChange={(event) => setName(event.target.value)} />
      <Select
        label="Action"
        value={action}
        options={[
          { value: "out", label: "Exclude: open streams and runs end" },
          { value: "in", label: "Admit: policies still decide" },
        ]}
        onChange={(event) => setAction(event.target.value)}
      />
    </ActionButton>
  );
}
