import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { useWhoami } from "../../api/whoami";
import type { Member } from "../../gen/palyra/v1/access_pb";
import { AccessService } from "../../gen/palyra/v1/access_pb";
import { AccessReviewService, ToolAccessVerdict } from "../../gen/palyra/v1/access_review_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Checkbox } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The users and agents, with their access and actions. */
export default function Members() {
  const name = useParam("member");
  return name === "" ? <MembersPage /> : <MemberPage key={name} name={name} />;
}

function MembersPage() {
  const [removed, setRemoved] = useQueryParam("removed", "no");
  const query = useMembers(removed === "yes");
  return (
    <Screen title="Members" command={palyra("members", "list", ...(removed === "yes" ? ["--all"] : []))} fill actions={<Checkbox label="Include removed members" checked={removed === "yes"} onChange={(event) => setRemoved(event.target.checked ? "yes" : "no")} />}>
      {query.isPending ? (
        <Loading what="members" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <Table
          label="Members"
          rows={query.data.members}
          rowKey={(member) => member.principal}
          href={(member) => `/members/${encodeURIComponent(member.principal)}`}
          isDimmed={(member) => member.removedAt !== undefined || member.disabled}
          columns={[
            { id: "name", label: "Member", className: "grow", cell: (member) => <Untrusted text={member.principal} line={80} /> },
            { id: "roles", label: "Roles", className: "w-48 max-sm:hidden", cell: (member) => <Untrusted text={member.roles.join(", ")} line={60} /> },
            { id: "owner", label: "Acts for", className: "w-40 max-md:hidden", cell: (member) => <Untrusted text={member.owner} line={40} /> },
            { id: "state", label: "State", className: "w-36", cell: (member) => <State member={member} /> },
          ]}
        />
      )}
    </Screen>
  );
}

function useMembers(removed: boolean) {
  return useQuery({ queryKey: ["members", removed], queryFn: ({ signal }) => client(AccessService).listMembers({ removed }, { signal }) });
}

function State({ member }: { member: Member }) {
  if (member.removedAt !== undefined) return <Badge tone="bad">removed</Badge>;
  if (member.disabled) return <Badge tone="warn">disabled</Badge>;
  if (member.awaitsConsent) return <Badge tone="warn">awaits consent</Badge>;
  if (member.noDevice) return <Badge>no device</Badge>;
  return member.decides ? <Badge tone="accent">may decide</Badge> : <Badge tone="good">active</Badge>;
}

function MemberPage({ name }: { name: string }) {
  const query = useMembers(true);
  const member = query.data?.members.find((m) => m.principal === name);
  return (
    <Screen
      title={name}
      command={palyra("members", "show", name)}
      actions={
        <>
          <ScreenLink to="/members">All members</ScreenLink>
          {member !== undefined && member.removedAt === undefined && <MemberActions member={member} />}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the member" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : member === undefined ? (
        <EmptyState title="Member not found" />
      ) : (
        <>
          <KeyValue
            rows={[
              ["State", <State member={member} />],
              ["Roles", <Untrusted text={member.roles.join(", ")} />],
              ["Acts for", member.owner !== "" && <ScreenLink to={`/members/${encodeURIComponent(member.owner)}`}>{member.owner}</ScreenLink>],
              ["Added", <Time at={member.createdAt} full />],
              ["Removed", member.removedAt !== undefined && <Time at={member.removedAt} full />],
              ["Controlled by", member.inHandsOf.length > 0 && <Untrusted text={`${member.inHandsOf.join(", ")}, who added or changed this member. Its votes do not count as those of a separate person until another member confirms it.`} />],
              ["Logs in as", member.loginSubject !== "" && <Untrusted text={`${member.loginSubject} at ${member.loginIssuer}`} />],
            ]}
          />
          {member.removedAt === undefined && <MemberAccess name={name} />}
        </>
      )}
    </Screen>
  );
}

function MemberActions({ member }: { member: Member }) {
  const me = useWhoami();
  const [acceptsLoss, setAcceptsLoss] = useState(false);
  const isSelf = me?.principal === member.principal;
  const lossCheckbox = <Checkbox label="Continue even if the gateway loses the only member with a required capability" checked={acceptsLoss} onChange={(event) => setAcceptsLoss(event.target.checked)} />;
  const name = member.principal;
  return (
    <>
      {member.disabled ? (
        <ActionButton label="Enable" title="Enable this member?" confirmLabel="Enable the member" announcement="The member is enabled." needs="access.write" reason="Reason (kept in the journal)" keys={["members"]} run={(reason) => client(AccessService).enableMember({ member: name, reason, acceptLoss: acceptsLoss })}>
          {lossCheckbox}
        </ActionButton>
      ) : (
        <ActionButton label="Disable" title="Disable this member?" confirmLabel="Disable the member" announcement="The member is disabled." needs="access.write" disabledReason={isSelf ? "You cannot disable yourself." : undefined} reason="Reason (kept in the journal)" keys={["members"]} run={(reason) => client(AccessService).disableMember({ member: name, reason, acceptLoss: acceptsLoss })}>
          <p>Its pending calls are cancelled, its grants are suspended, and its devices are refused until it is enabled.</p>
          {lossCheckbox}
        </ActionButton>
      )}
      {member.inHandsOf.length > 0 && (
        <ActionButton label="Confirm" title="Confirm that this member is a separate person?" confirmLabel="Confirm the member" announcement="The member is confirmed." needs="access.write" keys={["members"]} run={() => client(AccessService).confirmMember({ member: name })}>
          <p>Its votes then count in addition to those of the member who added it. Confirm it only if you have verified over another channel that it is a separate person.</p>
        </ActionButton>
      )}
      <ActionButton label="Remove" title="Remove this member permanently?" confirmLabel="Remove the member" announcement="The member is removed." variant="bad" needs="access.write" disabledReason={isSelf ? "You cannot remove yourself." : undefined} reason="Reason (kept in the journal)" keys={["members", "devices", "tokens"]} run={(reason) => client(AccessService).removeMember({ member: name, reason, acceptLoss: acceptsLoss })}>
        <p>Its devices, tokens, grants and logins end, its calls are cancelled, and its name cannot be used again. This cannot be undone.</p>
        {lossCheckbox}
      </ActionButton>
    </>
  );
}

/** The access of a member: tools, and permissions of the gateway. */
function MemberAccess({ name }: { name: string }) {
  const query = useQuery({ queryKey: ["access", name], queryFn: ({ signal }) => client(AccessReviewService).showAccess({ principal: name }, { signal }) });
  if (query.isPending) return <Loading what="the access of the member" />;
  if (query.isError) return <ErrorState error={query.error} />;
  const { tools, permissions, notes } = query.data;
  return (
    <>
      {notes.length > 0 && (
        <Notice>
          <ul className="list-disc pl-5">
            {notes.map((note) => (
              <li key={note}>
                <Untrusted text={note} />
              </li>
            ))}
          </ul>
        </Notice>
      )}
      <Section title="Tools">
        <ul className="grid gap-x-6 gap-y-1 md:grid-cols-2">
          {tools.map((tool) => (
            <li key={tool.tool} className="flex flex-wrap items-baseline gap-2">
              <ToolVerdict verdict={tool.verdict} />
              <Untrusted text={tool.tool} line={80} />
              {tool.message !== "" && <Untrusted text={tool.message} className="text-sm text-quiet" />}
            </li>
          ))}
        </ul>
      </Section>
      <Section title="Gateway permissions" actions={<ScreenLink to={`/access?who=${encodeURIComponent(name)}`}>Check access</ScreenLink>}>
        <ul className="flex flex-wrap gap-1.5">
          {permissions.map((permission) => (
            <li key={permission.permission}>
              <Badge tone={permission.allowed ? "good" : "plain"}>
                {permission.permission}: {permission.allowed ? "allowed" : "denied"}
              </Badge>
            </li>
          ))}
        </ul>
      </Section>
    </>
  );
}

function ToolVerdict({ verdict }: { verdict: ToolAccessVerdict }) {
  switch (verdict) {
    case ToolAccessVerdict.ALLOWED:
      return <Badge tone="good">allowed</Badge>;
    case ToolAccessVerdict.ASKED:
      return <Badge tone="accent">requires approval</Badge>;
    default:
      return <Badge tone="bad">denied</Badge>;
  }
}
