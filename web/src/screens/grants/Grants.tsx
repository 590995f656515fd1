import { useInfiniteQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { Grant } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalScope, ApprovalsService } from "../../gen/palyra/v1/approvals_pb";
import { Screen } from "../../shell/Screen";
import { useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ms } from "../../text/time";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { useNow } from "../../ui/clock";
import { Checkbox } from "../../ui/Field";
import { Meta } from "../../ui/Meta";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The standing yeses: what each covers, how often it was used, and how to end it. */
export default function Grants() {
  const [ended, setEnded] = useQueryParam("ended", "no");
  const now = useNow();
  const query = useInfiniteQuery({
    queryKey: ["grants", ended],
    queryFn: ({ pageParam, signal }) => client(ApprovalsService).listGrants({ includeEnded: ended === "yes", pageSize: 200, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const rows = query.data?.pages.flatMap((page) => page.grants) ?? [];
  const live = (grant: Grant) => grant.revokedAt === undefined && (ms(grant.expiresAt) ?? Infinity) > now;
  return (
    <Screen title="Grants" command={palyra("grants", "list", ...(ended === "yes" ? ["--all"] : []))} fill actions={<Checkbox label="Also those that ended" checked={ended === "yes"} onChange={(event) => setEnded(event.target.checked ? "yes" : "no")} />}>
      {query.isPending ? (
        <Loading what="grants" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <EmptyState title="No grant is in force">A yes for a session or for a time makes one. Each use of it is still judged by policy.</EmptyState>
      ) : (
        <Table
          label="Grants"
          rows={rows}
          rowKey={(grant) => grant.grantId}
          rowHeight={68}
          dim={(grant) => !live(grant)}
          columns={[
            { id: "covers", label: "Covers", className: "grow", cell: (grant) => <Covers grant={grant} /> },
            { id: "uses", label: "Uses", className: "w-20 text-right max-sm:hidden", cell: (grant) => (grant.mostUses > 0n ? `${grant.uses} of ${grant.mostUses}` : String(grant.uses)) },
            { id: "left", label: "Left", className: "w-28 text-right", cell: (grant) => (live(grant) ? <Countdown until={grant.expiresAt} /> : <Badge tone={grant.revokedAt === undefined ? "warn" : "bad"}>{grant.revokedAt === undefined ? "ended" : "revoked"}</Badge>) },
            { id: "act", label: "Act", className: "w-24 text-right", cell: (grant) => live(grant) && <Revoke grant={grant} /> },
          ]}
          onEnd={() => {
            if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
          }}
          end={query.hasNextPage ? "More follow." : "No more."}
        />
      )}
    </Screen>
  );
}

function Covers({ grant }: { grant: Grant }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={grant.covers || `${grant.tool} ${grant.subject}`} line={200} />
      </span>
      <Meta>
        <span>{grant.scope === ApprovalScope.SESSION ? "for a session" : "for a time"}</span>
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
    <Act
      label="Revoke"
      title="Revoke this grant?"
      does="Revoke the grant"
      said="The grant is revoked."
      look="bad"
      needs="grant.revoke"
      reason="Reason (kept in the journal)"
      keys={["grants", "grant"]}
      run={(reason) => client(ApprovalsService).revokeGrant({ grantId: grant.grantId, reason })}
    >
      <Untrusted block text={grant.covers || `${grant.tool} ${grant.subject}`} />
      <p className="text-quiet">From now on such calls ask again. A call that it let through and that has not started yet does not start.</p>
    </Act>
  );
}
