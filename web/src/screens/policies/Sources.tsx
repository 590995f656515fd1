import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { PolicySource } from "../../gen/palyra/v1/policy_pb";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { Section } from "../../shell/Screen";
import { ScreenLink, useQueryParam } from "../../shell/router";
import { counted } from "../../text/count";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Copy, Id } from "../../ui/Copy";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { Activate } from "./Versions";

/** The set in force, or a kept version. */
export function usePolicy(version: string) {
  return useQuery({ queryKey: ["policies", "set", version], queryFn: ({ signal }) => client(PolicyService).getPolicy({ version }, { signal }) });
}

/** The operator's own files of those in force: what is kept of a version is without the built-in ones. */
export function useOwnSources() {
  const inForce = usePolicy("");
  const version = inForce.data?.version ?? "";
  return useQuery({
    queryKey: ["policies", "own", version],
    enabled: version !== "",
    queryFn: async ({ signal }) => (await client(PolicyService).getPolicy({ version }, { signal })).sources,
  });
}

/** What decides, or decided: where it comes from, and its files. */
export function Sources() {
  const [version] = useQueryParam("version");
  const query = usePolicy(version);
  const own = useOwnSources();
  if (query.isPending) return <Loading what="the policies" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  const set = query.data;
  const directory = set.directory;
  const builtin = (source: PolicySource) => version === "" && own.data !== undefined && !own.data.some((each) => each.name === source.name);
  return (
    <div className="flex flex-col gap-4">
      {version !== "" && (
        <Notice tone="warn">
          <div className="flex flex-wrap items-center gap-3">
            <span>This is a version that was kept, not necessarily the one in force.</span>
            <ScreenLink to="/policies">What is in force</ScreenLink>
            <Activate version={set.version} />
          </div>
        </Notice>
      )}
      {set.activated && version === "" && <Notice tone="warn">An operator activated this version: the policy directory does not count until it is reloaded.</Notice>}
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
          ["In it", directory !== undefined && `${counted(directory.files, "file")}; ${counted(directory.policies, "policy", "policies")} in force beside the built-in ones${directory.inForce ? "" : "; its files are not those in force"}`],
        ]}
      />
      <Section title="Files" actions={version === "" && <Reload />}>
        {set.sources.length === 0 ? (
          <EmptyState title="No file of the operator">The built-in policies alone decided.</EmptyState>
        ) : (
          <ul className="flex flex-col gap-2">
            {set.sources.map((source, i) => (
              <li key={i}>
                <File source={source} builtin={builtin(source)} />
              </li>
            ))}
          </ul>
        )}
      </Section>
      {set.schema !== "" && (
        <details>
          <summary className="cursor-pointer font-semibold">The schema that policies are written against</summary>
          <Untrusted block text={set.schema} className="mt-2" />
        </details>
      )}
    </div>
  );
}

function File({ source, builtin }: { source: PolicySource; builtin: boolean }) {
  return (
    <details className="rounded-lg border border-line bg-panel px-3 py-2">
      <summary className="cursor-pointer">
        <Untrusted text={source.name} className="font-mono font-semibold" /> {builtin && <Badge>built in</Badge>} <span className="text-sm text-quiet">{counted(source.text.split("\n").length, "line")}</span>
      </summary>
      <div className="mt-2 flex flex-col gap-2">
        <div className="flex flex-wrap items-center gap-3">
          <Copy text={source.text} label="Copy the text" name={`Copy the text of ${source.name}`} />
          {!builtin && <ScreenLink to={`/policies?tab=write&file=${encodeURIComponent(source.name)}`}>Change it in the editor</ScreenLink>}
        </div>
        <Untrusted block text={source.text} />
      </div>
    </details>
  );
}

function Reload() {
  return (
    <Act
      label="Reload the directory"
      title="Read the policy directory again?"
      does="Reload the directory"
      said="The directory was read; what it holds is in force, or waits for a second person."
      needs="policy.activate"
      keys={["policies", "policy", "status", "approvals"]}
      run={() => client(PolicyService).reloadPolicy({})}
    >
      <p>Its tests run first. A set that does not load, or whose tests fail, changes nothing. Where changes take two people, this asks the second one.</p>
    </Act>
  );
}
