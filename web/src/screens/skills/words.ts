// What a skill is and asks for, in words, and the keys of publishers.
import type { Skill, SkillCapabilities, SkillFinding, SkillManifest, SkillQuotas, SkillSecret } from "../../gen/palyra/v1/skill_pb";
import { SkillStatus } from "../../gen/palyra/v1/skill_pb";
import { counted } from "../../text/count";
import type { Tone } from "../../ui/Badge";
import type { Bytes } from "../../verify/bytes";
import { base64, toBase64, utf8 } from "../../verify/bytes";
import { sha256 } from "../../verify/sha256";

/** Whether the tools of a version can be called. */
export function standing(skill: Pick<Skill, "status" | "current" | "problem">): { word: string; tone: Tone } {
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

/** The version of a skill as commands name it: "notebook@1.2.0". */
export function versionName(skill: Pick<Skill, "skill" | "version">): string {
  return `${skill.skill}@${skill.version}`;
}

/** The address of a version's view. */
export function placeOf(skill: Pick<Skill, "skill" | "version">): string {
  return `/skills/${encodeURIComponent(skill.skill)}?${new URLSearchParams({ version: skill.version }).toString()}`;
}

/** What a tool asks for, each in words; nothing where it asks for nothing. */
export function asksFor(c: SkillCapabilities | undefined): string[] {
  if (c === undefined) return [];
  return [
    ...c.http.map((host) => `requests to ${host === "*" ? "every host that the gateway's rules allow (*)" : host}`),
    ...c.secrets.map(secret),
    ...(c.storageBytes > 0n ? [`storage of ${sized(c.storageBytes)} for each user`] : []),
    ...c.channels.map((name) => `messages to the channel ${name}`),
    ...(c.clock ? ["the real time"] : []),
    ...(c.random ? ["real randomness"] : []),
  ];
}

function secret({ name, use }: SkillSecret): string {
  switch (use) {
    case "read":
      return `the value of the secret ${name}, which it sees; people are asked at each call`;
    case "placeholder":
      return `the secret ${name} in its requests, without seeing it`;
    default:
      return `the secret ${name}, for "${use}"`;
  }
}

/** The kinds of what its tools ask for, for lists: "network, storage". */
export function asksInShort(manifest: SkillManifest | undefined): string {
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

/** The most fuel that one call of its tools may use. */
export function mostFuel(manifest: SkillManifest | undefined): bigint {
  return (manifest?.tools ?? []).reduce((most, { fuel }) => (fuel > most ? fuel : most), 0n);
}

/** What a skill holds itself to, below what the gateway allows. */
export function bounds(q: SkillQuotas | undefined): string[] {
  if (q === undefined) return [];
  return [
    ...(q.memoryBytes > 0n ? [`${sized(q.memoryBytes)} of memory`] : []),
    ...(q.wallMs > 0n ? [`${q.wallMs.toLocaleString()} ms for a call`] : []),
    ...(q.outputBytes > 0n ? [`${sized(q.outputBytes)} of result`] : []),
    ...(q.uses > 0n ? [`${counted(q.uses, "use")} of grants in a call`] : []),
  ];
}

/** A size in the largest unit that says it exactly: "64 KiB". */
export function sized(bytes: bigint): string {
  for (const [unit, size] of [["MiB", 1n << 20n], ["KiB", 1n << 10n]] as const) {
    if (bytes >= size && bytes % size === 0n) return `${(bytes / size).toLocaleString()} ${unit}`;
  }
  return counted(bytes, "byte");
}

/** Findings with the errors first, in their order otherwise. */
export function worstFirst(findings: readonly SkillFinding[]): SkillFinding[] {
  const errors = (f: SkillFinding) => f.severity === "error";
  return [...findings.filter(errors), ...findings.filter((f) => !errors(f))];
}

/** The key that a text is: 32 bytes in base64, as `palyra skills keygen` prints it; undefined for any other text. */
export function publicKey(text: string): Bytes | undefined {
  const key = base64(text.trim());
  return key?.length === 32 ? key : undefined;
}

/** The id of a publisher's key: its OpenSSH fingerprint (RFC 8709 section 4). */
export function keyId(key: Uint8Array): string {
  const kind = utf8("ssh-ed25519");
  return `SHA256:${toBase64(sha256(Uint8Array.of(0, 0, 0, kind.length), kind, Uint8Array.of(0, 0, 0, key.length), key)).replaceAll("=", "")}`;
}
