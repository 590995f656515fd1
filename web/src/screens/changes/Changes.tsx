import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { ChangeSet } from "../../gen/palyra/v1/workspace_pb";
import { ChangeSetState, WorkspaceService } from "../../gen/palyra/v1/workspace_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { DiffText } from "../../ui/DiffText";
import { Select } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The changes that calls committed to workspaces, with their files and undo. */
export default function Changes() {
  const id = useParam("id");
  const [workspace, setWorkspace] = useQueryParam("workspace");
  const spaces = useQuery({ queryKey: ["workspaces"], queryFn: ({ signal }) => client(WorkspaceService).listWorkspaces({}, { signal }) });
  const names = spaces.data?.workspaces.map((space) => space.name) ?? [];
  const chosen = workspace === "" ? (names[0] ?? "") : workspace;
  if (id !== "" && chosen !== "") return <ChangePage key={id} workspace={chosen} id={id} />;
  return (
    <Screen
      title="Changes"
      {...(chosen === "" ? {} : { command: palyra("workspace", "changes", chosen) })}
      fill
      actions={names.length > 1 && <Select label="Workspace" value={chosen} options={names.map((name) => ({ value: name, label: name }))} onChange={(event) => setWorkspace(event.target.value)} />}
    >
      {spaces.isPending ? <Loading what="workspaces" /> : spaces.isError ? <ErrorState error={spaces.error} retry={() => void spaces.refetch()} /> : chosen === "" ? <EmptyState title="No workspace is declared">Add one with palyra workspace add or in the configuration.</EmptyState> : <ChangesTable workspace={chosen} />}
    </Screen>
  );
}

function ChangesTable({ workspace }: { workspace: string }) {
  const query = useQuery({ queryKey: ["changes", workspace], queryFn: ({ signal }) => client(WorkspaceService).listChangeSets({ workspace }, { signal }) });
  if (query.isPending) return <Loading what="changes" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  if (query.data.changeSets.length === 0) return <EmptyState title="No changes in this workspace" />;
  return (
    <Table
      label="Changes"
      rows={query.data.changeSets}
      rowKey={(set) => set.changeSetId}
      href={(set) => `/changes/${encodeURIComponent(set.changeSetId)}?workspace=${encodeURIComponent(workspace)}`}
      isDimmed={(set) => set.state === ChangeSetState.UNDONE}
      columns={[
        { id: "what", label: "Change", className: "grow", cell: (set) => <span>{countsOf(set)}</span> },
        { id: "who", label: "Principal", className: "w-44 max-sm:hidden", cell: (set) => <Untrusted text={set.principal} line={40} /> },
        { id: "state", label: "State", className: "w-24", cell: (set) => <State set={set} /> },
        { id: "at", label: "When", className: "w-24 text-right", cell: (set) => <Time at={set.committedAt} /> },
      ]}
    />
  );
}

function countsOf(set: ChangeSet): string {
  const parts = [set.added > 0n && `${set.added} added`, set.modified > 0n && `${set.modified} changed`, set.deleted > 0n && `${set.deleted} deleted`].filter(Boolean);
  return parts.length === 0 ? "nothing" : parts.join(", ");
}

function State({ set }: { set: ChangeSet }) {
  return set.state === ChangeSetState.UNDONE ? <Badge tone="warn">undone</Badge> : <Badge tone="good">committed</Badge>;
}

function ChangePage({ workspace, id }: { workspace: string; id: string }) {
  const query = useInfiniteQuery({
    queryKey: ["changes", workspace, id],
    queryFn: ({ pageParam, signal }) => client(WorkspaceService).getChangeSet({ workspace, changeSetId: id, pageSize: 200, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const first = query.data?.pages[0];
  const set = first?.changeSet;
  const changes = query.data?.pages.flatMap((page) => page.changes) ?? [];
  return (
    <Screen
      title="Change"
      command={palyra("workspace", "show", id, "-w", workspace)}
      actions={
        <>
          <ScreenLink to={`/changes?workspace=${encodeURIComponent(workspace)}`}>All changes</ScreenLink>
          {set !== undefined && (
            <ActionButton
              label="Undo"
              title="Undo this change?"
              confirmLabel="Undo the change"
              announcement="The change is undone."
              variant="bad"
              needs="workspace.undo"
              disabledReason={set.undoable ? undefined : "The change cannot be undone: files have changed since, or the earlier contents are no longer stored."}
              reason="Reason (kept in the journal)"
              keys={["changes"]}
              run={(reason) => client(WorkspaceService).undoChangeSet({ workspace, changeSetId: id, reason })}
            >
              <p>{countsOf(set)}: each file gets its earlier contents. If any file has changed since, nothing is undone.</p>
            </ActionButton>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the change" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : set === undefined ? (
        <EmptyState title="Change not found" />
      ) : (
        <>
          <KeyValue
            rows={[
              ["State", <State set={set} />],
              ["Files", countsOf(set)],
              ["Workspace", <Untrusted text={workspace} />],
              ["Principal", <Untrusted text={set.principal} />],
              ["When", <Time at={set.committedAt} full />],
              ["Call", set.proposalId !== "" && <ScreenLink to={`/calls/${set.proposalId}`}>{set.proposalId}</ScreenLink>],
              ["Undoes", set.undoes !== "" && <ScreenLink to={`/changes/${encodeURIComponent(set.undoes)}?workspace=${encodeURIComponent(workspace)}`}>{set.undoes}</ScreenLink>],
              ["Protected paths", set.protected.length > 0 && <Untrusted text={set.protected.join(", ")} />],
              ["Digest", set.root !== "" && <Id id={set.root} />],
            ]}
          />
          <Section title="Files">
            <ul className="flex flex-col gap-1">
              {changes.map((change) => (
                <li key={change.path} className="flex flex-wrap items-center gap-2">
                  <Badge tone={change.kind === "deleted" ? "bad" : change.kind === "added" ? "good" : "plain"}>{change.kind}</Badge>
                  <Untrusted text={change.path} className="font-mono" />
                  {change.is !== undefined && change.is.sha256 !== "" && <Id id={change.is.sha256} />}
                </li>
              ))}
            </ul>
          </Section>
          {first !== undefined && first.diff !== "" && (
            <Section title="Diff">
              <DiffText text={first.diff} label="Diff of the change" />
            </Section>
          )}
          {first !== undefined && first.restrictedFiles > 0 && (
            <Notice>The content of {first.restrictedFiles} files is omitted: policy does not allow you to read them (fs.read).</Notice>
          )}
        </>
      )}
    </Screen>
  );
}
