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
import { permissionKinds, maxFuel, versionAddress, versionStatus, versionName } from "./words";

/** The installed skills and the trusted publishers. */
export default function Skills() {
  const name = useParam("name");
  const [version] = useQueryParam("version");
  return name === "" ? <SkillsPage /> : <Version key={`${name}@${version}`} name={name} version={version} />;
}

function SkillsPage() {
  const [tab, setTab] = useQueryParam("tab", "installed");
  return (
    <Screen title="Skills" command={tab === "publishers" ? palyra("skills", "trust", "list") : palyra("skills", "list")} actions={<Install />}>
      <Tabs
        label="Skills"
        value={tab}
        onChange={setTab}
        tabs={[
          { id: "installed", label: "Installed", content: <InstalledSkills /> },
          { id: "publishers", label: "Publishers", content: <Publishers /> },
        ]}
      />
    </Screen>
  );
}

function InstalledSkills() {
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
        href={versionAddress}
        isDimmed={(skill) => !skill.current}
        columns={[
          { id: "skill", label: "Skill", className: "grow", cell: (skill) => <SkillCell skill={skill} /> },
          { id: "version", label: "Version", className: "w-28", cell: (skill) => <Untrusted text={skill.version} line={20} /> },
          { id: "fuel", label: "Fuel per call", className: "w-32 text-right tabular-nums max-md:hidden", cell: (skill) => maxFuel(skill.manifest).toLocaleString() },
          { id: "status", label: "Status", className: "w-28", cell: (skill) => <StatusBadge skill={skill} /> },
        ]}
      />
    </div>
  );
}

function SkillCell({ skill }: { skill: Skill }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={skill.skill} line={40} className="font-semibold" />
      </span>
      <Meta>
        <Untrusted text={skill.publisher} line={64} />
        {`permissions: ${permissionKinds(skill.manifest)}`}
      </Meta>
    </>
  );
}

function StatusBadge({ skill }: { skill: Skill }) {
  const { word, tone } = versionStatus(skill);
  return <Badge tone={tone}>{word}</Badge>;
}
