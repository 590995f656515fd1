import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { useWhoami } from "../../api/whoami";
import type { Member } from "../../gen/palyra/v1/access_pb";
import { AccessService } from "../../gen/palyra/v1/access_pb";
import { AccessReviewService, ToolAccessVerdict } from "../../gen/palyra/v1/access_review_pb";
import { hasScreen } from "../../routes";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Checkbox } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** Users and agents: who they are, what they may do, and the changes that one can make. */
export default function Members() {
  const name = useParam("member");
  return name === "" ? <All /> : <One key={name} name={name} />;
}

function All() {
  const [removed, setRemoved] = useQueryParam("removed", "no");
  const query = useMembers(removed === "yes");
  return (
    <Screen title="Members" command={palyra("members", "list", ...(removed === "yes" ? ["--all"] : []))} fill actions={<Checkbox label="Also those that were removed" checked={removed === "yes"} onChange={(event) => setRemoved(event.target.checked ? "yes" : "no")} />}>
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
          dim={(member) => member.removedAt !== undefined || member.disabled}
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

function One({ name }: { name: string }) {
  const query = useMembers(true);
  const member = query.data?.members.find((m) => m.principal === name);
  return (
    <Screen
      title={name}
      command={palyra("members", "show", name)}
      actions={
        <>
          <ScreenLink to="/members">All members</ScreenLink>
          {member !== undefined && member.removedAt === undefined && <Acts member={member} />}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the member" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : member === undefined ? (
        <EmptyState title="There is no such member" />
      ) : (
        <>
          <KeyValue
            rows={[
              ["State", <State member={member} />],
              ["Roles", <Untrusted text={member.roles.join(", ")} />],
              ["Acts for", member.owner !== "" && <ScreenLink to={`/members/${encodeURIComponent(member.owner)}`}>{member.owner}</ScreenLink>],
              ["Added", <Time at={member.createdAt} full />],
              ["Removed", member.removedAt !== undefined && <Time at={member.removedAt} full />],
              ["In the hands of", member.inHandsOf.length > 0 && <Untrusted text={`${member.inHandsOf.join(", ")}: who made or changed it. Until somebody else confirms it, its votes do not count as another person's.`} />],
              ["Logs in as", member.loginSubject !== "" && <Untrusted text={`${member.loginSubject} at ${member.loginIssuer}`} />],
            ]}
          />
          {member.removedAt === undefined && <May name={name} />}
        </>
      )}
    </Screen>
  );
}

function Acts({ member }: { member: Member }) {
  const me = useWhoami();
  const [loss, setLoss] = useState(false);
  const self = me?.principal === member.principal;
  const accept = <Checkbox label="Also where the gateway loses somebody who can do what only they can" checked={loss} onChange={(event) => setLoss(event.target.checked)} />;
  const name = member.principal;
  return (
    <>
      {member.disabled ? (
        <Act label="Enable" title="Let this member act again?" does="Enable the member" said="The member is enabled." needs="access.write" reason="Reason (kept in the journal)" keys={["members"]} run={(reason) => client(AccessService).enableMember({ member: name, reason, acceptLoss: loss })}>
          {accept}
        </Act>
      ) : (
        <Act label="Disable" title="Keep this member from acting?" does="Disable the member" said="The member is disabled." needs="access.write" off={self ? "You cannot disable yourself." : undefined} reason="Reason (kept in the journal)" keys={["members"]} run={(reason) => client(AccessService).disableMember({ member: name, reason, acceptLoss: loss })}>
          <p>Its calls that wait are cancelled, its grants are suspended, and its devices are refused until it is enabled.</p>
          {accept}
        </Act>
      )}
      {member.inHandsOf.length > 0 && (
        <Act label="Confirm" title="Say that this member is who it is said to be?" does="Confirm the member" said="The member is confirmed." needs="access.write" keys={["members"]} run={() => client(AccessService).confirmMember({ member: name })}>
          <p>From then on its votes count beside those of the member that made it. Confirm it only if you know, by another way, that it is another person.</p>
        </Act>
      )}
      <Act label="Remove" title="Remove this member for good?" does="Remove the member" said="The member is removed." look="bad" needs="access.write" off={self ? "You cannot remove yourself." : undefined} reason="Reason (kept in the journal)" keys={["members", "devices", "tokens"]} run={(reason) => client(AccessService).removeMember({ member: name, reason, acceptLoss: loss })}>
        <p>Its devices, tokens, grants and logins end, its calls are cancelled, and its name is never given again. This cannot be undone.</p>
        {accept}
      </Act>
    </>
  );
}

/** What policy lets a member do: tools, and the gateway's own methods. */
function May({ name }: { name: string }) {
  const query = useQuery({ queryKey: ["access", name], queryFn: ({ signal }) => client(AccessReviewService).showAccess({ principal: name }, { signal }) });
  if (query.isPending) return <Loading what="what it may do" />;
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
      <Section title="The gateway's own permissions" actions={hasScreen("/access") && <ScreenLink to={`/access?who=${encodeURIComponent(name)}`}>Ask why</ScreenLink>}>
        <ul className="flex flex-wrap gap-1.5">
          {permissions.map((permission) => (
            <li key={permission.permission}>
              <Badge tone={permission.allowed ? "good" : "plain"}>
                {permission.allowed ? "may" : "may not"} {permission.permission}
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
      return <Badge tone="accent">asks</Badge>;
    default:
      return <Badge tone="bad">denied</Badge>;
  }
}
