import { useInfiniteQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { PolicyVersion } from "../../gen/palyra/v1/policy_pb";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The earlier policy sets, and their activation. */
export function Versions() {
  const query = useInfiniteQuery({
    queryKey: ["policies", "versions"],
    queryFn: ({ pageParam, signal }) => client(PolicyService).listPolicyVersions({ pageSize: 100, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  if (query.isPending) return <Loading what="versions" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  const rows = query.data.pages.flatMap((page) => page.versions);
  if (rows.length === 0) return <EmptyState title="No versions yet" />;
  return (
    <div className="flex h-[60vh] min-h-72 flex-col">
      <Table
        label="Policy versions"
        rows={rows}
        rowKey={(version) => version.version}
        rowHeight={60}
        href={(version) => `/policies?version=${version.version}`}
        columns={[
          { id: "version", label: "Version", className: "grow", cell: (version) => <VersionCell version={version} /> },
          { id: "policies", label: "Policies", className: "w-20 text-right max-sm:hidden", cell: (version) => version.policies },
          { id: "by", label: "Loaded by", className: "w-36 max-md:hidden", cell: (version) => <Untrusted text={version.loadedBy} line={30} /> },
          { id: "at", label: "First loaded", className: "w-28 max-sm:hidden", cell: (version) => <Time at={version.firstLoadedAt} /> },
          { id: "act", label: "", className: "w-28 text-right", cell: (version) => (version.inForce ? <Badge tone="good">active</Badge> : <ActivateButton version={version.version} />) },
        ]}
        onEnd={() => {
          if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
        }}
        end={query.hasNextPage ? "Scroll for more." : "End of the list."}
      />
    </div>
  );
}

function VersionCell({ version }: { version: PolicyVersion }) {
  return (
    <>
      <span className="block truncate font-mono">{version.version.slice(0, 26)}…</span>
      <span className="block truncate text-sm text-quiet">
        <Untrusted text={version.files.join(", ") || "built-in policies only"} line={160} />
      </span>
    </>
  );
}

/** The action that activates a stored version. */
export function ActivateButton({ version }: { version: string }) {
  return (
    <ActionButton
      label="Activate"
      title="Activate this version?"
      confirmLabel="Activate the version"
      announcement="The version is active, or a second approval is pending."
      needs="policy.activate"
      keys={["policies", "policy", "status", "approvals"]}
      run={() => client(PolicyService).activatePolicy({ version })}
    >
      <p>
        <code className="font-mono break-all">{version}</code> then decides every call, also after a restart. The policy directory is not used until it is reloaded. If changes require two people, this asks the second one.
      </p>
    </ActionButton>
  );
}
