import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { GetSkillResponse, Skill } from "../../gen/palyra/v1/skill_pb";
import { SkillService, SkillStatus } from "../../gen/palyra/v1/skill_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useGo } from "../../shell/router";
import { palyra } from "../../text/cli";
import { sentence } from "../../text/sentence";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice, CommandText } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { useSkills } from "./list";
import { AuditFindings, ToolList } from "./Manifest";
import { describeLimits, versionAddress, versionStatus, versionName } from "./words";

/** A version of a skill; "" is the current version. */
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
          {skill !== undefined && <VersionActions skill={skill} />}
        </>
      }
    >
      {query.isPending ? <Loading what="the skill" /> : query.isError ? <ErrorState error={query.error} retry={() => void query.refetch()} /> : skill === undefined ? <EmptyState title="Skill not found" /> : <VersionDetail response={query.data} skill={skill} />}
    </Screen>
  );
}

function VersionDetail({ response, skill }: { response: GetSkillResponse; skill: Skill }) {
  const { manifest } = skill;
  const { word, tone } = versionStatus(skill);
  return (
    <>
      {response.problem !== "" && (
        <Notice tone={skill.problem === "" ? "warn" : "bad"}>
          <p className="font-semibold">The tools of this version cannot be called</p>
          <p>
            <Untrusted text={sentence(response.problem)} /> <CommandText text={response.remedy} />
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
          ["Reason", skill.why !== "" && <Untrusted text={skill.why} />],
          ["Name", manifest !== undefined && <Untrusted text={manifest.name} />],
          ["Version", <Untrusted text={skill.version} />],
          ["Publisher", <Untrusted text={skill.publisher} />],
          ["Signed by", <Id id={skill.keyId} keep={60} />],
          ["License", manifest !== undefined && manifest.license !== "" && <Untrusted text={manifest.license} />],
          ["Homepage", manifest !== undefined && manifest.homepage !== "" && <Untrusted text={manifest.homepage} />],
          ["Limits", describeLimits(manifest?.quotas).join(", ")],
          ["Package", <Id id={skill.digest} />],
          ["Installed", <Time at={skill.installedAt} full />],
          ["Installed by", <Untrusted text={skill.installedBy} />],
          ["Status since", <Time at={skill.changedAt} full />],
          ["Status set by", skill.changedBy !== "" && <Untrusted text={skill.changedBy} />],
        ]}
      />
      {manifest !== undefined && manifest.tools.length > 0 && <ToolList manifest={manifest} />}
      {(skill.problem === "" || response.findings.length > 0) && <AuditFindings findings={response.findings} />}
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
          <ActionButton label="Remove all versions" title="Remove this skill?" confirmLabel="Remove the skill" announcement="The skill is removed." variant="bad" needs="skill.write" keys={["skills", "tools"]} run={remove}>
            <p>This removes all {all.length} versions and the data that the skill stored for its users. This cannot be undone. The journal keeps its calls.</p>
          </ActionButton>
        )
      }
    >
      <ul aria-label="Versions" className="flex flex-col gap-1">
        {all.map((each) => {
          const { word, tone } = versionStatus(each);
          return (
            <li key={each.version} className="flex flex-wrap items-center gap-3">
              <ScreenLink to={versionAddress(each)} className="w-28 font-mono text-accent underline">
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

/** Returns a function that removes a version, or all versions for "", and opens the list. */
function useRemove(skill: string, version: string): () => Promise<void> {
  const go = useGo();
  return async () => {
    await client(SkillService).removeSkill({ skill, version });
    go("/skills", { replace: true });
  };
}

function VersionActions({ skill }: { skill: Skill }) {
  const remove = useRemove(skill.skill, skill.version);
  const set = (status: SkillStatus) => (reason: string) => client(SkillService).setSkillStatus({ skill: skill.skill, version: skill.version, status, reason });
  const reason = "Reason (kept in the journal)";
  const keys = ["skills", "tools", "approvals"];
  const name = <Untrusted text={versionName(skill)} className="font-mono" />;
  return (
    <>
      {(skill.status !== SkillStatus.ACTIVE || !skill.current || skill.problem !== "") && (
        <ActionButton label="Enable" title="Enable this version?" confirmLabel="Enable the version" announcement="The version is enabled." needs="skill.write" reason={reason} keys={keys} run={set(SkillStatus.ACTIVE)}>
          <p>{name} becomes the current version: the tools of its other versions can then not be called. If changes require two people, this waits for the second one.</p>
        </ActionButton>
      )}
      {skill.status !== SkillStatus.QUARANTINED && (
        <ActionButton label="Quarantine" title="Quarantine this version?" confirmLabel="Quarantine the version" announcement="The version is quarantined." variant="bad" needs="skill.write" reason={reason} keys={keys} run={set(SkillStatus.QUARANTINED)}>
          <p>This blocks the tools of {name} because of a suspicion, also for calls that wait for approval. Its stored data is kept.</p>
        </ActionButton>
      )}
      {skill.status !== SkillStatus.DISABLED && (
        <ActionButton label="Disable" title="Disable this version?" confirmLabel="Disable the version" announcement="The version is disabled." needs="skill.write" reason={reason} keys={keys} run={set(SkillStatus.DISABLED)}>
          <p>This blocks the tools of {name} until it is enabled, also for calls that wait for approval. Its stored data is kept.</p>
        </ActionButton>
      )}
      <ActionButton label="Remove" title="Remove this version?" confirmLabel="Remove the version" announcement="The version is removed." variant="bad" needs="skill.write" keys={keys} run={remove}>
        <p>This removes {name}, and with the last version the data that the skill stored for its users. This cannot be undone. The journal keeps its calls.</p>
      </ActionButton>
    </>
  );
}
