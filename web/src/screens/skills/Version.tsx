import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { GetSkillResponse, Skill } from "../../gen/palyra/v1/skill_pb";
import { SkillService, SkillStatus } from "../../gen/palyra/v1/skill_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useGo } from "../../shell/router";
import { palyra } from "../../text/cli";
import { sentence } from "../../text/sentence";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice, Words } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { useSkills } from "./list";
import { Found, ToolsOf } from "./Manifest";
import { bounds, placeOf, standing, versionName } from "./words";

/** One version of a skill, the current one where the version is "". */
export function Version({ name, version }: { name: string; version: string }) {
  const query = useQuery({ queryKey: ["skills", name, version], queryFn: ({ signal }) => client(SkillService).getSkill({ skill: name, version }, { signal }) });
  const skill = query.data?.skill;
  return (
    <Screen
      title={version === "" ? name : `${name} ${version}`}
      command={palyra("skills", "show", version === "" ? name : `${name}@${version}`)}
      actions={
        <>
          <ScreenLink to="/skills">All skills</ScreenLink>
          {skill !== undefined && <Acts skill={skill} />}
        </>
      }
    >
      {query.isPending ? <Loading what="the skill" /> : query.isError ? <ErrorState error={query.error} retry={() => void query.refetch()} /> : skill === undefined ? <EmptyState title="There is no such skill" /> : <Whole found={query.data} skill={skill} />}
    </Screen>
  );
}

function Whole({ found, skill }: { found: GetSkillResponse; skill: Skill }) {
  const { manifest } = skill;
  const { word, tone } = standing(skill);
  return (
    <>
      {found.problem !== "" && (
        <Notice tone={skill.problem === "" ? "warn" : "bad"}>
          <p className="font-semibold">Its tools cannot be called</p>
          <p>
            <Untrusted text={sentence(found.problem)} /> <Words text={found.remedy} />
          </p>
        </Notice>
      )}
      {manifest !== undefined && manifest.description !== "" && (
        <p>
          <Untrusted text={manifest.description} />
        </p>
      )}
      <KeyValue
        rows={[
          ["Status", <Badge tone={tone}>{word}</Badge>],
          ["Why", skill.why !== "" && <Untrusted text={skill.why} />],
          ["Name", manifest !== undefined && <Untrusted text={manifest.name} />],
          ["Version", <Untrusted text={skill.version} />],
          ["Publisher", <Untrusted text={skill.publisher} />],
          ["Signed by", <Id id={skill.keyId} keep={60} />],
          ["License", manifest !== undefined && manifest.license !== "" && <Untrusted text={manifest.license} />],
          ["Homepage", manifest !== undefined && manifest.homepage !== "" && <Untrusted text={manifest.homepage} />],
          ["Holds itself to", bounds(manifest?.quotas).join(", ")],
          ["Package", <Id id={skill.digest} />],
          ["Installed", <Time at={skill.installedAt} full />],
          ["Installed by", <Untrusted text={skill.installedBy} />],
          ["Status since", <Time at={skill.changedAt} full />],
          ["Status by", skill.changedBy !== "" && <Untrusted text={skill.changedBy} />],
        ]}
      />
      {manifest !== undefined && manifest.tools.length > 0 && <ToolsOf manifest={manifest} />}
      {(skill.problem === "" || found.findings.length > 0) && <Found findings={found.findings} />}
      <Versions of={skill} />
    </>
  );
}

function Versions({ of }: { of: Skill }) {
  const all = (useSkills().data?.skills ?? []).filter((each) => each.skill === of.skill);
  const remove = useRemove(of.skill, "");
  return (
    <Section
      title="Versions"
      actions={
        all.length > 1 && (
          <Act label="Remove all versions" title="Remove this skill?" does="Remove the skill" said="The skill is removed." look="bad" needs="skill.write" keys={["skills", "tools"]} run={remove}>
            <p>All {all.length} versions go, and with them what the skill stored for its users. That cannot be undone. The journal keeps what was called.</p>
          </Act>
        )
      }
    >
      <ul aria-label="Versions" className="flex flex-col gap-1">
        {all.map((each) => {
          const { word, tone } = standing(each);
          return (
            <li key={each.version} className="flex flex-wrap items-center gap-3">
              <ScreenLink to={placeOf(each)} className="w-28 font-mono text-accent underline">
                {each.version}
              </ScreenLink>
              <Badge tone={tone}>{word}</Badge>
              <Time at={each.installedAt} />
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

/** Removes a version, or all of them where it is "", and leaves the view of what is gone. */
function useRemove(skill: string, version: string): () => Promise<void> {
  const go = useGo();
  return async () => {
    await client(SkillService).removeSkill({ skill, version });
    go("/skills", { replace: true });
  };
}

function Acts({ skill }: { skill: Skill }) {
  const remove = useRemove(skill.skill, skill.version);
  const set = (status: SkillStatus) => (reason: string) => client(SkillService).setSkillStatus({ skill: skill.skill, version: skill.version, status, reason });
  const reason = "Reason (kept in the journal)";
  const keys = ["skills", "tools", "approvals"];
  const name = <Untrusted text={versionName(skill)} className="font-mono" />;
  return (
    <>
      {(skill.status !== SkillStatus.ACTIVE || !skill.current || skill.problem !== "") && (
        <Act label="Enable" title="Let its tools be called?" does="Enable the version" said="The version is enabled." needs="skill.write" reason={reason} keys={keys} run={set(SkillStatus.ACTIVE)}>
          <p>{name} becomes the current version: the tools of its other versions cannot be called then. Where changes take two people, this asks the second one, and waits for them.</p>
        </Act>
      )}
      {skill.status !== SkillStatus.QUARANTINED && (
        <Act label="Quarantine" title="Keep it from being called, because something may be wrong?" does="Quarantine the version" said="The version is quarantined." look="bad" needs="skill.write" reason={reason} keys={keys} run={set(SkillStatus.QUARANTINED)}>
          <p>No tool of {name} runs from then on, also for calls that wait for people now. What it stored stays.</p>
        </Act>
      )}
      {skill.status !== SkillStatus.DISABLED && (
        <Act label="Disable" title="Keep it from being called?" does="Disable the version" said="The version is disabled." needs="skill.write" reason={reason} keys={keys} run={set(SkillStatus.DISABLED)}>
          <p>No tool of {name} runs until it is enabled again, also for calls that wait for people now. What it stored stays.</p>
        </Act>
      )}
      <Act label="Remove" title="Remove this version?" does="Remove the version" said="The version is removed." look="bad" needs="skill.write" keys={keys} run={remove}>
        <p>{name} goes, and with the last version of a skill what it stored for its users. That cannot be undone. The journal keeps what was called.</p>
      </Act>
    </>
  );
}
