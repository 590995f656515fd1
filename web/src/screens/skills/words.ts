// Descriptions of skills and their permissions (same words as internal/cli/things), and keys of publishers.
import type { Skill, SkillCapabilities, SkillFinding, SkillManifest, SkillQuotas, SkillSecret } from "../../gen/palyra/v1/skill_pb";
import { SkillStatus } from "../../gen/palyra/v1/skill_pb";
import { formatCount } from "../../text/count";
import type { Tone } from "../../ui/Badge";
import type { Bytes } from "../../verify/bytes";
import { base64, toBase64, utf8 } from "../../verify/bytes";
import { sha256 } from "../../verify/sha256";

/** Returns the status of a version: whether its tools can be called. */
export function versionStatus(skill: Pick<Skill, "status" | "current" | "problem">): { word: string; tone: Tone } {
  if (skill.problem !== "") return { word: "damaged", tone: "bad" };
  switch (skill.status) {
    case SkillStatus.ACTIVE:
      return skill.current ? { word: "active", tone: "good" } : { word: "not current", tone: "plain" };
    case SkillStatus.QUARANTINED:
      return { word: "quarantined", tone: "bad" };
    case SkillStatus.DISABLED:
      return { word: "disabled", tone: "warn" };
    default:
      return { word: "unknown", tone: "warn" };
  }
}

/** Returns the name of a version in commands: "notebook@1.2.0". */
export function versionName(skill: Pick<Skill, "skill" | "version">): string {
  return `${skill.skill}@${skill.version}`;
}

/** Returns the address of the page of a version. */
export function versionAddress(skill: Pick<Skill, "skill" | "version">): string {
  return `/skills/${encodeURIComponent(skill.skill)}?${new URLSearchParams({ version: skill.version }).toString()}`;
}

/** Describes the permissions of a tool. */
export function describePermissions(c: SkillCapabilities | undefined): string[] {
  if (c === undefined) return [];
  return [
    ...c.http.map((host) => `requests to ${host === "*" ? "every host that the gateway's rules allow (*)" : host}`),
    ...c.secrets.map(describeSecret),
    ...(c.storageBytes > 0n ? [`storage of ${formatSize(c.storageBytes)} for each user`] : []),
    ...c.channels.map((name) => `messages to the channel ${name}`),
    ...(c.clock ? ["the real time"] : []),
    ...(c.random ? ["real randomness"] : []),
  ];
}

function describeSecret({ name, use }: SkillSecret): string {
  switch (use) {
    case "read":
      return `the secret ${name} by value; each call needs approval`;
    case "placeholder":
      return `the secret ${name} in its requests, without seeing it`;
    default:
      return `the secret ${name}, for "${use}"`;
  }
}

/** Returns the kinds of permissions of a skill, for lists: "network, storage". */
export function permissionKinds(manifest: SkillManifest | undefined): string {
  const all = (manifest?.tools ?? []).flatMap((tool) => (tool.capabilities === undefined ? [] : [tool.capabilities]));
  const kinds: readonly [string, (c: SkillCapabilities) => boolean][] = [
    ["network", (c) => c.http.length > 0],
    ["secrets", (c) => c.secrets.length > 0],
    ["storage", (c) => c.storageBytes > 0n],
    ["channels", (c) => c.channels.length > 0],
    ["clock", (c) => c.clock],
    ["randomness", (c) => c.random],
  ];
  return kinds.flatMap(([kind, asks]) => (all.some(asks) ? [kind] : [])).join(", ") || "nothing";
}

/** Returns the largest fuel limit of the tools. */
export function maxFuel(manifest: SkillManifest | undefined): bigint {
  return (manifest?.tools ?? []).reduce((most, { fuel }) => (fuel > most ? fuel : most), 0n);
}

/** Describes the limits that a skill sets for itself, below the gateway's limits. */
export function describeLimits(q: SkillQuotas | undefined): string[] {
  if (q === undefined) return [];
  return [
    ...(q.memoryBytes > 0n ? [`${formatSize(q.memoryBytes)} of memory`] : []),
    ...(q.wallMs > 0n ? [`${q.wallMs.toLocaleString()} ms for a call`] : []),
    ...(q.outputBytes > 0n ? [`${formatSize(q.outputBytes)} of result`] : []),
    ...(q.uses > 0n ? [`${formatCount(q.uses, "use")} of grants in a call`] : []),
  ];
}

/** Formats a size in the largest unit that is exact: "64 KiB". */
export function formatSize(bytes: bigint): string {
  for (const [unit, size] of [["MiB", 1n << 20n], ["KiB", 1n << 10n]] as const) {
    if (bytes >= size && bytes % size === 0n) return `${(bytes / size).toLocaleString()} ${unit}`;
  }
  return formatCount(bytes, "byte");
}

/** Returns the findings with errors first; the order is otherwise kept. */
export function errorsFirst(findings: readonly SkillFinding[]): SkillFinding[] {
  const errors = (f: SkillFinding) => f.severity === "error";
  return [...findings.filter(errors), ...findings.filter((f) => !errors(f))];
}

/** Parses a public key as printed by `palyra skills keygen`: 32 bytes in base64. Returns undefined for other text. */
export function parsePublicKey(text: string): Bytes | undefined {
  const key = base64(text.trim());
  return key?.length === 32 ? key : undefined;
}

/** Returns the id of a publisher's key: its OpenSSH fingerprint (RFC 8709 section 4). */
export function keyId(key: Uint8Array): string {
  const kind = utf8("ssh-ed25519");
  return `SHA256:${toBase64(sha256(Uint8Array.of(0, 0, 0, kind.length), kind, Uint8Array.of(0, 0, 0, key.length), key)).replaceAll("=", "")}`;
}
