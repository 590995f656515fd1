import type { Skill } from "../../gen/palyra/v1/skill_pb";
import { Screen } from "../../shell/Screen";
import { useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Badge } from "../../ui/Badge";
import { Meta } from "../../ui/Meta";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Tabs } from "../../ui/Tabs";
import { Untrusted } from "../../ui/Untrusted";
import { Install } from "./Install";
import { useSkills } from "./list";
import { Publishers } from "./Publishers";
import { Version } from "./Version";
import { asksInShort, mostFuel, placeOf, standing, versionName } from "./words";

/** Skills: what is installed, by whom it was signed, and what may run. */
export default function Skills() {
  const name = useParam("name");
  const [version] = useQueryParam("version");
  return name === "" ? <All /> : <Version key={`${name}@${version}`} name={name} version={version} />;
}

function All() {
  const [tab, setTab] = useQueryParam("tab", "installed");
  return (
    <Screen title="Skills" command={tab === "publishers" ? palyra("skills", "trust", "list") : palyra("skills", "list")} actions={<Install />}>
      <Tabs
        label="Skills"
        value={tab}
        onChange={setTab}
        tabs={[
          { id: "installed", label: "Installed", content: <Installed /> },
          { id: "publishers", label: "Publishers", content: <Publishers /> },
        ]}
      />
    </Screen>
  );
}

function Installed() {
  const query = useSkills();
  if (query.isPending) return <Loading what="skills" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  const { skills } = query.data;
  if (skills.length === 0) {
    return (
      <EmptyState title="No skill is installed">
        A skill is a signed package of tools. Install one here or with <code className="font-mono">palyra skills install</code>; write one with <code className="font-mono">palyra skills new</code>.
      </EmptyState>
    );
  }
  return (
    <div className="flex h-[65vh] min-h-72 flex-col">
      <Table
        label="Skills"
        rows={skills}
        rowKey={versionName}
        rowHeight={60}
        href={placeOf}
        dim={(skill) => !skill.current}
        columns={[
          { id: "skill", label: "Skill", className: "grow", cell: (skill) => <Named skill={skill} /> },
          { id: "version", label: "Version", className: "w-28", cell: (skill) => <Untrusted text={skill.version} line={20} /> },
          { id: "fuel", label: "Fuel of a call", className: "w-32 text-right tabular-nums max-md:hidden", cell: (skill) => mostFuel(skill.manifest).toLocaleString() },
          { id: "status", label: "Status", className: "w-28", cell: (skill) => <Standing skill={skill} /> },
        ]}
      />
    </div>
  );
}

function Named({ skill }: { skill: Skill }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={skill.skill} line={40} className="font-semibold" />
      </span>
      <Meta>
        <Untrusted text={skill.publisher} line={64} />
        {`asks for ${asksInShort(skill.manifest)}`}
      </Meta>
    </>
  );
}

function Standing({ skill }: { skill: Skill }) {
  const { word, tone } = standing(skill);
  return <Badge tone={tone}>{word}</Badge>;
}
