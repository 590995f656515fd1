import { Screen } from "../../shell/Screen";
import { ScreenLink, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Tabs } from "../../ui/Tabs";
import { useDrafts } from "./drafts";
import { Explain } from "./Explain";
import { Sources } from "./Sources";
import { Tests } from "./Tests";
import { Versions } from "./Versions";
import { PolicyEditor } from "./PolicyEditor";

/** The policies: active set, versions, editor, tests and explanations. */
export default function Policies() {
  const [tab, setTab] = useQueryParam("tab", "sources");
  const [version] = useQueryParam("version");
  const [id] = useQueryParam("id");
  const { draft } = useDrafts();
  return (
    <Screen title="Policies" command={command(tab, version, id, draft.name)} actions={<ScreenLink to="/members">Access by member</ScreenLink>}>
      <Tabs
        label="Policies"
        value={tab}
        onChange={setTab}
        tabs={[
          { id: "sources", label: version === "" ? "Active" : "Version", content: <Sources /> },
          { id: "versions", label: "Versions", content: <Versions /> },
          { id: "write", label: "Write and simulate", content: <PolicyEditor /> },
          { id: "tests", label: "Tests", content: <Tests draft={draft} /> },
          { id: "explain", label: "Explain", content: <Explain /> },
        ]}
      />
    </Screen>
  );
}

function command(tab: string, version: string, id: string, file: string): string {
  switch (tab) {
    case "versions":
      return palyra("policy", "versions");
    case "write":
      return palyra("policy", "check", file);
    case "tests":
      return palyra("policy", "test");
    case "explain":
      return palyra("policy", "explain", ...(id === "" ? [] : [id]));
    default:
      return palyra("policy", "show", ...(version === "" ? [] : [version]));
  }
}
