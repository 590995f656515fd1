import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { Setting } from "../../gen/palyra/v1/console_pb";
import { ConsoleService } from "../../gen/palyra/v1/console_pb";
import { Screen, Section } from "../../shell/Screen";
import { useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Badge } from "../../ui/Badge";
import { Checkbox, TextField } from "../../ui/Field";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { filterSettings } from "./settings";

/** The current settings and their sources. They can be changed only in the configuration file. */
export default function Settings() {
  const [words, setWords] = useQueryParam("q");
  const [changed, setChanged] = useQueryParam("changed", "no");
  const query = useQuery({ queryKey: ["settings"], queryFn: ({ signal }) => client(ConsoleService).getSettings({}, { signal }) });
  return (
    <Screen title="Settings" command={palyra("config", "show")}>
      <div className="flex flex-wrap items-end gap-4">
        <div className="min-w-56 flex-1">
          <TextField label="Filter" type="search" placeholder="listen api" value={words} onChange={(event) => setWords(event.target.value)} />
        </div>
        <Checkbox label="Only changed settings" checked={changed === "yes"} onChange={(event) => setChanged(event.target.checked ? "yes" : "no")} />
      </div>
      {query.isPending ? (
        <Loading what="settings" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <>
          <p className="text-quiet">
            {query.data.file === "" ? "No configuration file." : "Configuration file: "}
            {query.data.file !== "" && (
              <>
                <Untrusted text={query.data.file} className="font-mono" />.
              </>
            )}{" "}
            Secrets are stored in files and in the vault, and are not displayed.
          </p>
          <Groups groups={filterSettings(query.data.settings, words, changed === "yes")} file={query.data.file} />
        </>
      )}
    </Screen>
  );
}

function Groups({ groups, file }: { groups: [string, Setting[]][]; file: string }) {
  if (groups.length === 0) return <EmptyState title="No matching settings">Change the filter.</EmptyState>;
  return groups.map(([table, settings]) => (
    <Section key={table} title={table === "" ? "Top level" : table}>
      <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={`Settings of ${table === "" ? "the top level" : table}`}>
        <table className="w-full text-sm max-sm:block">
          <thead className="text-left text-quiet max-sm:sr-only">
            <tr>
              <th scope="col" className="py-1 pr-4 font-normal">
                Key
              </th>
              <th scope="col" className="py-1 pr-4 font-normal">
                Value
              </th>
              <th scope="col" className="py-1 font-normal">
                Source
                </th>
            </tr>
          </thead>
          <tbody className="max-sm:block">
            {settings.map((setting) => (
              <tr key={setting.key} className="border-t border-line align-top max-sm:block max-sm:py-1">
                <th scope="row" className="py-1 pr-4 text-left font-mono font-normal max-sm:block max-sm:py-0 max-sm:font-semibold sm:w-80 sm:min-w-80">
                  <Untrusted text={setting.key} />
                </th>
                <td className="py-1 pr-4 font-mono max-sm:block max-sm:py-0">
                  <Untrusted text={setting.toml} />
                </td>
                <td className="py-1 max-sm:block max-sm:py-0 sm:w-64">{setting.source === "default" ? <span className="text-quiet">default</span> : <Origin setting={setting} file={file} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  ));
}

// For the configuration file, the line number is sufficient.
function Origin({ setting, file }: { setting: Setting; file: string }) {
  const place = file !== "" && setting.origin.startsWith(`${file}:`) ? `line ${setting.origin.slice(file.length + 1)}` : setting.origin;
  return (
    <span className="inline-flex flex-wrap items-baseline gap-2">
      <Badge tone="accent">{setting.source}</Badge>
      <Untrusted text={place} className="font-mono" />
    </span>
  );
}
