import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { PolicySource } from "../../gen/palyra/v1/policy_pb";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { Section } from "../../shell/Screen";
import { ScreenLink, useQueryParam } from "../../shell/router";
import { formatCount } from "../../text/count";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Copy, Id } from "../../ui/Copy";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { ActivateButton } from "./Versions";

/** Queries the active policy set, or a stored version. */
export function usePolicy(version: string) {
  return useQuery({ queryKey: ["policies", "set", version], queryFn: ({ signal }) => client(PolicyService).getPolicy({ version }, { signal }) });
}

/** Queries the operator's files of the active set; a stored version excludes the built-in files. */
export function useOwnSources() {
  const inForce = usePolicy("");
  const version = inForce.data?.version ?? "";
  return useQuery({
    queryKey: ["policies", "own", version],
    enabled: version !== "",
    queryFn: async ({ signal }) => (await client(PolicyService).getPolicy({ version }, { signal })).sources,
  });
}

/** The active policy set or a version, with its origin and files. */
export function Sources() {
  const [version] = useQueryParam("version");
  const query = usePolicy(version);
  const own = useOwnSources();
  if (query.isPending) return <Loading what="the policies" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  const set = query.data;
  const directory = set.directory;
  const isBuiltin = (source: PolicySource) => version === "" && own.data !== undefined && !own.data.some((each) => each.name === source.name);
  return (
    <div className="flex flex-col gap-4">
      {version !== "" && (
        <Notice tone="warn">
          <div className="flex flex-wrap items-center gap-3">
            <span>This is a stored version, which may not be active.</span>
            <ScreenLink to="/policies">Active policies</ScreenLink>
            <ActivateButton version={set.version} />
          </div>
        </Notice>
      )}
      {set.activated && version === "" && <Notice tone="warn">An operator activated this version: the policy directory is not used until it is reloaded.</Notice>}
      {directory !== undefined && directory.problem !== "" && (
        <Notice tone="bad">
          <Untrusted text={directory.problem} />
        </Notice>
      )}
      <KeyValue
        rows={[
          ["Version", <Id id={set.version} keep={19} />],
          ["Loaded", <Time at={set.loadedAt} full />],
          ["Snapshot", set.snapshotDigest !== "" && <Id id={set.snapshotDigest} keep={19} />],
          ["Schema", set.schemaDigest !== "" && <Id id={set.schemaDigest} keep={19} />],
          ["Directory", directory !== undefined && directory.path !== "" && <Untrusted text={directory.path} className="font-mono" />],
          ["Contents", directory !== undefined && `${formatCount(directory.files, "file")}; ${formatCount(directory.policies, "policy", "policies")} active in addition to the built-in ones${directory.inForce ? "" : "; its files differ from the active set"}`],
        ]}
      />
      <Section title="Files" actions={version === "" && <ReloadButton />}>
        {set.sources.length === 0 ? (
          <EmptyState title="No operator files">Only the built-in policies decided.</EmptyState>
        ) : (
          <ul className="flex flex-col gap-2">
            {set.sources.map((source, i) => (
              <li key={i}>
                <SourceFile source={source} builtin={isBuiltin(source)} />
              </li>
            ))}
          </ul>
        )}
      </Section>
      {set.schema !== "" && (
        <details>
          <summary className="cursor-pointer font-semibold">Policy schema</summary>
          <Untrusted block text={set.schema} className="mt-2" />
        </details>
      )}
    </div>
  );
}

function SourceFile({ source, builtin }: { source: PolicySource; builtin: boolean }) {
  return (
    <details className="rounded-lg border border-line bg-panel px-3 py-2">
      <summary className="cursor-pointer">
        <Untrusted text={source.name} className="font-mono font-semibold" /> {builtin && <Badge>built in</Badge>} <span className="text-sm text-quiet">{formatCount(source.text.split("\n").length, "line")}</span>
      </summary>
      <div className="mt-2 flex flex-col gap-2">
        <div className="flex flex-wrap items-center gap-3">
          <Copy text={source.text} label="Copy the text" name={`Copy the text of ${source.name}`} />
          {!builtin && <ScreenLink to={`/policies?tab=write&file=${encodeURIComponent(source.name)}`}>Edit</ScreenLink>}
        </div>
        <Untrusted block text={source.text} />
      </div>
    </details>
  );
}

function ReloadButton() {
  return (
    <ActionButton
      label="Reload the directory"
      title="Reload the policy directory?"
      confirmLabel="Reload the directory"
      announcement="The directory is reloaded and active, or a second approval is pending."
      needs="policy.activate"
      keys={["policies", "policy", "status", "approvals"]}
      run={() => client(PolicyService).reloadPolicy({})}
    >
      <p>Its tests run first. A set that does not load or fails its tests changes nothing. If changes require two people, this asks the second one.</p>
    </ActionButton>
  );
}
