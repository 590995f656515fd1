import { useInfiniteQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { PolicyVersion } from "../../gen/palyra/v1/policy_pb";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The sets that were in force, and how one comes back. */
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
  if (rows.length === 0) return <EmptyState title="No version yet" />;
  return (
    <div className="flex h-[60vh] min-h-72 flex-col">
      <Table
        label="Policy versions"
        rows={rows}
        rowKey={(version) => version.version}
        rowHeight={60}
        href={(version) => `/policies?version=${version.version}`}
        columns={[
          { id: "version", label: "Version", className: "grow", cell: (version) => <Named version={version} /> },
          { id: "policies", label: "Policies", className: "w-20 text-right max-sm:hidden", cell: (version) => version.policies },
          { id: "by", label: "Loaded by", className: "w-36 max-md:hidden", cell: (version) => <Untrusted text={version.loadedBy} line={30} /> },
          { id: "at", label: "First loaded", className: "w-28 max-sm:hidden", cell: (version) => <Time at={version.firstLoadedAt} /> },
          { id: "act", label: "", className: "w-28 text-right", cell: (version) => (version.inForce ? <Badge tone="good">in force</Badge> : <Activate version={version.version} />) },
        ]}
        onEnd={() => {
          if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
        }}
        end={query.hasNextPage ? "More follow." : "No more."}
      />
    </div>
  );
}

function Named({ version }: { version: PolicyVersion }) {
  return (
    <>
      <span className="block truncate font-mono">{version.version.slice(0, 26)}…</span>
      <span className="block truncate text-sm text-quiet">
        <Untrusted text={version.files.join(", ") || "built-in policies alone"} line={160} />
      </span>
    </>
  );
}

/** The act that puts a kept version in force. */
export function Activate({ version }: { version: string }) {
  return (
    <Act
      label="Activate"
      title="Put this version in force?"
      does="Activate the version"
      said="The version is in force, or waits for a second person where two have to agree."
      needs="policy.activate"
      keys={["policies", "policy", "status", "approvals"]}
      run={() => client(PolicyService).activatePolicy({ version })}
    >
      <p>
        <code className="font-mono break-all">{version}</code> decides every call from then on. It stays over a restart, and the policy directory does not count, until somebody reloads it. Where changes take two people, this asks the second one.
      </p>
    </Act>
  );
}
