import { useInfiniteQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { Grant } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalScope, ApprovalsService } from "../../gen/palyra/v1/approvals_pb";
import { Screen } from "../../shell/Screen";
import { useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { toMillis } from "../../text/time";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { useNow } from "../../ui/clock";
import { Checkbox } from "../../ui/Field";
import { Meta } from "../../ui/Meta";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The grants: their coverage, uses and revocation. */
export default function Grants() {
  const [includeEnded, setIncludeEnded] = useQueryParam("ended", "no");
  const now = useNow();
  const query = useInfiniteQuery({
    queryKey: ["grants", includeEnded],
    queryFn: ({ pageParam, signal }) => client(ApprovalsService).listGrants({ includeEnded: includeEnded === "yes", pageSize: 200, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const rows = query.data?.pages.flatMap((page) => page.grants) ?? [];
  const isActive = (grant: Grant) => grant.revokedAt === undefined && (toMillis(grant.expiresAt) ?? Infinity) > now;
  return (
    <Screen title="Grants" command={palyra("grants", "list", ...(includeEnded === "yes" ? ["--all"] : []))} fill actions={<Checkbox label="Include ended grants" checked={includeEnded === "yes"} onChange={(event) => setIncludeEnded(event.target.checked ? "yes" : "no")} />}>
      {query.isPending ? (
        <Loading what="grants" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <EmptyState title="No active grants">An approval for a session or a limited time creates a grant. Policy still evaluates each use.</EmptyState>
      ) : (
        <Table
          label="Grants"
          rows={rows}
          rowKey={(grant) => grant.grantId}
          rowHeight={68}
          isDimmed={(grant) => !isActive(grant)}
          columns={[
            { id: "covers", label: "Covers", className: "grow", cell: (grant) => <CoverageCell grant={grant} /> },
            { id: "uses", label: "Uses", className: "w-20 text-right max-sm:hidden", cell: (grant) => (grant.mostUses > 0n ? `${grant.uses} of ${grant.mostUses}` : String(grant.uses)) },
            { id: "left", label: "Time left", className: "w-28 text-right", cell: (grant) => (isActive(grant) ? <Countdown until={grant.expiresAt} /> : <Badge tone={grant.revokedAt === undefined ? "warn" : "bad"}>{grant.revokedAt === undefined ? "ended" : "revoked"}</Badge>) },
            { id: "act", label: "Action", className: "w-24 text-right", cell: (grant) => isActive(grant) && <Revoke grant={grant} /> },
          ]}
          onEnd={() => {
            if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
          }}
          end={query.hasNextPage ? "Scroll for more." : "End of the list."}
        />
      )}
    </Screen>
  );
}

function CoverageCell({ grant }: { grant: Grant }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={grant.covers || `${grant.tool} ${grant.subject}`} line={200} />
      </span>
      <Meta>
        <span>{grant.scope === ApprovalScope.SESSION ? "for a session" : "for a limited time"}</span>
        <Untrusted text={grant.principal} line={60} />
        <span>
          by <Untrusted text={grant.approvers.join(", ")} line={80} />
        </span>
        <Time at={grant.createdAt} />
      </Meta>
    </>
  );
}

function Revoke({ grant }: { grant: Grant }) {
  return (
    <ActionButton
      label="Revoke"
      title="Revoke this grant?"
      confirmLabel="Revoke the grant"
      announcement="The grant is revoked."
      variant="bad"
      needs="grant.revoke"
      reason="Reason (kept in the journal)"
      keys={["grants", "grant"]}
      run={(reason) => client(ApprovalsService).revokeGrant({ grantId: grant.grantId, reason })}
    >
      <Untrusted block text={grant.covers || `${grant.tool} ${grant.subject}`} />
      <p className="text-quiet">Such calls require approval again. A call that it allowed but that has not started does not start.</p>
    </ActionButton>
  );
}
