import type { MessageInitShape } from "@bufbuild/protobuf";
import { create, fromBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { SkillCapabilitiesSchema, SkillFindingSchema, SkillManifestSchema, SkillQuotasSchema, SkillSchema, SkillStatus } from "../../gen/palyra/v1/skill_pb";
import { describePermissions, permissionKinds, describeLimits, keyId, maxFuel, versionAddress, parsePublicKey, formatSize, versionStatus, versionName, errorsFirst } from "./words";

const describe = (c: MessageInitShape<typeof SkillCapabilitiesSchema>) => describePermissions(create(SkillCapabilitiesSchema, c));

test("asksFor describes the permissions of a tool", () => {
  expect(describe({})).toEqual([]);
  expect(describePermissions(undefined)).toEqual([]);
  expect(describe({ http: ["api.example.org:443", "*"], secrets: [{ name: "global/token", use: "placeholder" }, { name: "global/seed", use: "read" }], storageBytes: 65536n, channels: ["ops"], clock: true, random: true })).toEqual([
    "requests to api.example.org:443",
    "requests to every host that the gateway's rules allow (*)",
    "the secret global/token in its requests, without seeing it",
    "the secret global/seed by value; each call needs approval",
    "storage of 64 KiB for each user",
    "messages to the channel ops",
    "the real time",
    "real randomness",
  ]);
});

test("an unsupported use of a secret is displayed unchanged", () => {
  expect(describe({ secrets: [{ name: "a/b", use: "lend" }] })).toEqual(['the secret a/b, for "lend"']);
});

test("asksInShort and mostFuel summarize a manifest", () => {
  const manifest = create(SkillManifestSchema, { tools: [{ fuel: 5n }, { fuel: 200_000_000n, capabilities: { clock: true } }, { fuel: 7n, capabilities: { http: ["a.example"], storageBytes: 1n } }] });
  expect(permissionKinds(manifest)).toBe("network, storage, clock");
  expect(maxFuel(manifest)).toBe(200_000_000n);
  expect(permissionKinds(create(SkillManifestSchema, { tools: [{ capabilities: {} }] }))).toBe("nothing");
  expect(permissionKinds(undefined)).toBe("nothing");
  expect(maxFuel(undefined)).toBe(0n);
});

test("only an active, current and undamaged version can be called", () => {
  const as = (status: SkillStatus, current: boolean, problem = "") => versionStatus({ status, current, problem });
  expect(as(SkillStatus.ACTIVE, true)).toEqual({ word: "active", tone: "good" });
  expect(as(SkillStatus.ACTIVE, false)).toEqual({ word: "not current", tone: "plain" });
  expect(as(SkillStatus.QUARANTINED, true).word).toBe("quarantined");
  expect(as(SkillStatus.DISABLED, false).word).toBe("disabled");
  expect(as(SkillStatus.ACTIVE, true, "its package was changed")).toEqual({ word: "damaged", tone: "bad" });
  // An unsupported status is not displayed as good.
  expect(versionStatus(fromBinary(SkillSchema, Uint8Array.of(0x30, 9)))).toEqual({ word: "unknown", tone: "warn" });
});

test("versionName and placeOf identify a version", () => {
  const skill = { skill: "notebook", version: "1.0.0+a b" };
  expect(versionName(skill)).toBe("notebook@1.0.0+a b");
  expect(versionAddress(skill)).toBe("/skills/notebook?version=1.0.0%2Ba+b");
});

test("sizes are exact", () => {
  expect(formatSize(1n)).toBe("1 byte");
  expect(formatSize(1025n)).toBe("1,025 bytes");
  expect(formatSize(64n << 20n)).toBe("64 MiB");
  expect(formatSize(1536n << 10n)).toBe("1,536 KiB");
});

test("bounds omits absent limits", () => {
  expect(describeLimits(undefined)).toEqual([]);
  expect(describeLimits(create(SkillQuotasSchema, { memoryBytes: 16n << 20n, uses: 1n }))).toEqual(["16 MiB of memory", "1 use of grants in a call"]);
});

test("errors come before warnings", () => {
  const found = ["warning", "error", "warning", "error"].map((severity, i) => create(SkillFindingSchema, { severity, code: String(i) }));
  expect(errorsFirst(found).map(({ code }) => code)).toEqual(["1", "3", "0", "2"]);
});

test("publicKey parses 32 bytes in base64, and keyId equals the fingerprint of ssh-keygen", () => {
  const key = parsePublicKey(" AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
  expect(key).toEqual(Uint8Array.from({ length: 32 }, (_, i) => i));
  expect(keyId(key ?? new Uint8Array())).toBe("SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA");
  for (const no of ["", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", "ssh-ed25519 AAAA"]) expect(parsePublicKey(no), no).toBeUndefined();
});
