import type { MessageInitShape } from "@bufbuild/protobuf";
import { create, fromBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { SkillCapabilitiesSchema, SkillFindingSchema, SkillManifestSchema, SkillQuotasSchema, SkillSchema, SkillStatus } from "../../gen/palyra/v1/skill_pb";
import { asksFor, asksInShort, bounds, keyId, mostFuel, placeOf, publicKey, sized, standing, versionName, worstFirst } from "./words";

const asking = (c: MessageInitShape<typeof SkillCapabilitiesSchema>) => asksFor(create(SkillCapabilitiesSchema, c));

test("what a tool asks for, in words", () => {
  expect(asking({})).toEqual([]);
  expect(asksFor(undefined)).toEqual([]);
  expect(asking({ http: ["api.example.org:443", "*"], secrets: [{ name: "global/token", use: "placeholder" }, { name: "global/seed", use: "read" }], storageBytes: 65536n, channels: ["ops"], clock: true, random: true })).toEqual([
    "requests to api.example.org:443",
    "requests to every host that the gateway's rules allow (*)",
    "the secret global/token in its requests, without seeing it",
    "the value of the secret global/seed, which it sees; people are asked at each call",
    "storage of 64 KiB for each user",
    "messages to the channel ops",
    "the real time",
    "real randomness",
  ]);
});

test("a use that this page does not know is said as it is", () => {
  expect(asking({ secrets: [{ name: "a/b", use: "lend" }] })).toEqual(['the secret a/b, for "lend"']);
});

test("what a skill asks for in short, and the most fuel of its calls", () => {
  const manifest = create(SkillManifestSchema, { tools: [{ fuel: 5n }, { fuel: 200_000_000n, capabilities: { clock: true } }, { fuel: 7n, capabilities: { http: ["a.example"], storageBytes: 1n } }] });
  expect(asksInShort(manifest)).toBe("network, storage, clock");
  expect(mostFuel(manifest)).toBe(200_000_000n);
  expect(asksInShort(create(SkillManifestSchema, { tools: [{ capabilities: {} }] }))).toBe("nothing");
  expect(asksInShort(undefined)).toBe("nothing");
  expect(mostFuel(undefined)).toBe(0n);
});

test("a version that is active can be called where it is the current one and whole", () => {
  const as = (status: SkillStatus, current: boolean, problem = "") => standing({ status, current, problem });
  expect(as(SkillStatus.ACTIVE, true)).toEqual({ word: "active", tone: "good" });
  expect(as(SkillStatus.ACTIVE, false)).toEqual({ word: "not current", tone: "plain" });
  expect(as(SkillStatus.QUARANTINED, true).word).toBe("quarantined");
  expect(as(SkillStatus.DISABLED, false).word).toBe("disabled");
  expect(as(SkillStatus.ACTIVE, true, "its package was changed")).toEqual({ word: "damaged", tone: "bad" });
  // A status that this page does not know is not taken for a good one.
  expect(standing(fromBinary(SkillSchema, Uint8Array.of(0x30, 9)))).toEqual({ word: "unknown", tone: "warn" });
});

test("a version has one name and one address", () => {
  const skill = { skill: "notebook", version: "1.0.0+a b" };
  expect(versionName(skill)).toBe("notebook@1.0.0+a b");
  expect(placeOf(skill)).toBe("/skills/notebook?version=1.0.0%2Ba+b");
});

test("sizes are exact", () => {
  expect(sized(1n)).toBe("1 byte");
  expect(sized(1025n)).toBe("1,025 bytes");
  expect(sized(64n << 20n)).toBe("64 MiB");
  expect(sized(1536n << 10n)).toBe("1,536 KiB");
});

test("what is not bounded is not said", () => {
  expect(bounds(undefined)).toEqual([]);
  expect(bounds(create(SkillQuotasSchema, { memoryBytes: 16n << 20n, uses: 1n }))).toEqual(["16 MiB of memory", "1 use of grants in a call"]);
});

test("errors come before warnings", () => {
  const found = ["warning", "error", "warning", "error"].map((severity, i) => create(SkillFindingSchema, { severity, code: String(i) }));
  expect(worstFirst(found).map(({ code }) => code)).toEqual(["1", "3", "0", "2"]);
});

test("a publisher's key is 32 bytes in base64, and its id is the one that ssh-keygen gives it", () => {
  const key = publicKey(" AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
  expect(key).toEqual(Uint8Array.from({ length: 32 }, (_, i) => i));
  expect(keyId(key ?? new Uint8Array())).toBe("SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA");
  for (const no of ["", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", "ssh-ed25519 AAAA"]) expect(publicKey(no), no).toBeUndefined();
});
