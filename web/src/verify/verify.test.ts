import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { verifyAttestation } from "./attestation";
import { hex, utf8 } from "./bytes";
import { canonical, readCanonical } from "./canonical";
import { readEvent } from "./event";
import type { Options, Summary } from "./export";
import { verifyExport } from "./export";
import { Fault } from "./fault";
import { proveKeySet } from "./keyset";
import { Sha256, sha256 } from "./sha256";
import { verifyStretch } from "./stretch";
import { Frontier, leaf } from "./tree";
import type { Pins } from "./trust";
import { evaluateTrust } from "./trust";

// The test vectors of the Go packages.
const internal = resolve(import.meta.dirname, "../../../internal");
const vector = (path: string) => readFileSync(resolve(internal, path), "utf8");

async function* chunks(text: string | Uint8Array, size = 1000): AsyncGenerator<Uint8Array> {
  const bytes = typeof text === "string" ? utf8(text) : text;
  for (let at = 0; at < bytes.length; at += size) {
    await Promise.resolve();
    yield bytes.subarray(at, at + size);
  }
}

function verify(text: string | Uint8Array, more: Partial<Options> = {}): Promise<Summary> {
  return verifyExport(chunks(text), { verify: verifyStretch, parallel: 2, ...more });
}

function pinned(text: string, pins: Pins): Promise<Summary> {
  return verify(text, { key: pins.key, trust: async (header) => (await evaluateTrust(header, pins)).trust });
}

async function fault(run: Promise<unknown>): Promise<Fault> {
  try {
    await run;
  } catch (thrown) {
    if (thrown instanceof Fault) return thrown;
    throw thrown;
  }
  throw new Error("no fault was found");
}

test("SHA-256 equals the system's, for all lengths and splits", () => {
  for (let length = 0; length < 300; length++) {
    const bytes = new Uint8Array(randomBytes(length));
    const want = createHash("sha256").update(bytes).digest("hex");
    expect(hex(sha256(bytes))).toBe(want);
    const cut = Math.floor(length / 3);
    const sum = new Sha256().update(bytes.subarray(0, cut));
    sum.digest();
    expect(hex(sum.update(bytes.subarray(cut)).digest())).toBe(want);
  }
});

test("readCanonical accepts only RFC 8785 form", () => {
  for (const text of ['{"a":1,"b":[true,null,"ä\\n"]}', '{"10":1,"9":2}', "[]", '{"a":"\\\\ud800"}', '{"__proto__":1,"a":2}']) expect(canonical(readCanonical(text))).toBe(text);
  for (const text of ['{"b":1,"a":2}', '{"a": 1}', '{"a":1,"a":1}', '{"a":1.0}', '{"a":1e400}', '{"a":-0}', '{"a":"\\u0041"}', '{"a":"\\ud800"}', '{"9":1,"10":2}', '{"a":9007199254740993}', "{", "\ufeff{}"])
    expect(() => readCanonical(text), text).toThrow(Fault);
});

describe("the published journal", () => {
  const text = vector("evidence/journal/testdata/export.ndjson");
  const entries = JSON.parse(vector("evidence/journal/testdata/events.json")) as { event: unknown; leaf: string; root: string }[];

  test("has the leaves and roots of the vectors", () => {
    const tree = new Frontier();
    for (const entry of entries) {
      const { event, check } = readEvent(utf8(canonical(entry.event)));
      check();
      tree.append(leaf(event.hash));
      expect(hex(leaf(event.hash))).toBe(entry.leaf);
      expect(hex(tree.root())).toBe(entry.root);
    }
  });

  test("verifies, and reports whether its key was pinned", async () => {
    const alone = await verify(text);
    expect(alone).toMatchObject({ gateway: "gateway.test", events: 5, checkpoints: 1, erased: 1, last: 5, keyPinned: false });
    expect(alone.signed.size).toBe(5);
    expect(await verify(text, { key: alone.key })).toMatchObject({ keyPinned: true });
    expect((await fault(verify(text, { key: alone.key.replace("af0fb86a", "af0fb86b") }))).line).toBe(1);
  });

  test("flipped bytes are detected", async () => {
    const bytes = utf8(text);
    for (let i = 0; i < bytes.length; i += 7) {
      const flipped = bytes.slice();
      flipped[i] = (flipped[i] ?? 0) ^ 1;
      await expect(verify(flipped), `byte ${i}`).rejects.toThrow(Fault);
    }
    for (const cut of [0, 1, bytes.length / 2, bytes.length - 1]) await expect(verify(bytes.subarray(0, cut))).rejects.toThrow("cut off");
    await expect(verify(text + "\n")).rejects.toThrow("data follows the trailer");
  });

  test("remembered roots are compared", async () => {
    await verify(text, { knownRoots: [{ size: 3, root: entries[2]?.root ?? "" }] });
    expect(await fault(verify(text, { knownRoots: [{ size: 3, root: entries[1]?.root ?? "" }] }))).toMatchObject({ seq: 1, line: 4 });
  });
});

interface Corpus {
  lines: string[];
  cases: { name: string; lines: number[]; seq: number; line: number }[];
}

describe("the corpus of falsified journals", () => {
  const corpus = JSON.parse(readFileSync(resolve(import.meta.dirname, "testdata/tampered.json"), "utf8")) as Corpus;
  const assemble = (lines: number[]) => lines.map((i) => `${corpus.lines[i] ?? ""}\n`).join("");
  const honest = corpus.cases.filter((c) => c.seq === 0);

  test("honest journals verify", async () => {
    expect(honest.length).toBeGreaterThan(0);
    for (const c of honest) await verify(assemble(c.lines));
  });

  test.each(corpus.cases.filter((c) => c.seq !== 0))("$name", async (c) => {
    const found = await fault(verify(assemble(c.lines)));
    expect({ seq: found.seq, line: found.line }, found.message).toEqual({ seq: c.seq, line: c.line });
  });
});

describe("an export of the first release", () => {
  const text = vector("cli/evidence/testdata/release-1/export.ndjson");
  const key = "vectors.example/journal+86670492+AbhWbfMjhkDqyQKRi0SpHE7YZgM9eo7MK1LUDOPPdc2G";

  test("verifies with its attestations, but does not prove the origin by itself", async () => {
    const sum = await pinned(text, {});
    expect(sum).toMatchObject({ attestations: 8, keyPinned: false });
    const root = (await proveKeySet(JSON.parse(vector("cli/evidence/testdata/release-1/keys.json")))).root;
    expect(await pinned(text, { root, key })).toMatchObject({ keyPinned: true });
    expect((await fault(pinned(text, { root: root.replace(/.$/, (c) => (c === "0" ? "1" : "0")) }))).message).toContain("the pinned CA is");
    expect((await fault(pinned(text, { previousRoot: `sha256:${"0".repeat(64)}` }))).message).toContain("an earlier verification");
  });
});

describe("attestations", () => {
  const envelope = JSON.parse(vector("evidence/attest/testdata/envelope.json")) as { payload: string; payloadType: string; signatures: { keyid: string; sig: string }[] };

  test("the published envelopes verify", async () => {
    for (const version of ["", "_older"]) {
      const set = await proveKeySet(JSON.parse(vector(`evidence/attest/testdata/keyset${version}.json`)));
      await verifyAttestation(JSON.parse(vector(`evidence/attest/testdata/envelope${version}.json`)), set.notaries, set.gateway);
    }
  });

  test("changed envelopes do not verify", async () => {
    const set = await proveKeySet(JSON.parse(vector("evidence/attest/testdata/keyset.json")));
    const signature = envelope.signatures[0] ?? { keyid: "", sig: "" };
    const payload = atob(envelope.payload);
    const cases: [unknown, string][] = [
      [{ ...envelope, payload: btoa(payload.replace("succeeded", "succeedee")) }, "signature does not match"],
      [{ ...envelope, extra: 1 }, "unknown member"],
      [{ ...envelope, payloadType: "application/json" }, "payload type"],
      [{ ...envelope, signatures: [signature, signature] }, "exactly one"],
      [{ ...envelope, signatures: [{ ...signature, keyid: "SHA256:x" }] }, "has no key"],
      [{ ...envelope, signatures: [{ ...signature, sig: `${signature.sig.slice(0, -3)}A==` }] }, ""],
    ];
    for (const [changed, message] of cases) expect((await fault(verifyAttestation(changed, set.notaries, set.gateway))).message).toContain(message);
    await expect(verifyAttestation(envelope, set.notaries, "other.local")).rejects.toThrow("of gateway");
    await expect(verifyAttestation(envelope, set.notaries.map((k) => ({ ...k, retiredAt: k.from })), set.gateway)).rejects.toThrow("retired");
    await expect(verifyAttestation(envelope, set.notaries.map((k) => ({ ...k, to: k.from })), set.gateway)).rejects.toThrow("no certificate");
  });

  test("a key set whose certificates do not lead to its CA is refused", async () => {
    const set = JSON.parse(vector("evidence/attest/testdata/keyset.json")) as { ca_root: string; gateway: string; keys: Record<string, unknown>[] };
    const other = (JSON.parse(vector("cli/evidence/testdata/release-1/keys.json")) as typeof set).ca_root;
    for (const changed of [
      { ...set, ca_root: other },
      { ...set, gateway: "other.local" },
      { ...set, format: "palyra-key-set/v2" },
      { ...set, keys: [] },
      { ...set, keys: [{ ...set.keys[0], key_id: "SHA256:x" }] },
      { ...set, keys: [{ ...set.keys[0], not_after: "2037-02-01T12:00:00Z" }] },
      { ...set, keys: [{ ...set.keys[0], certificate_chain: "" }] },
    ])
      await expect(proveKeySet(changed)).rejects.toThrow(Fault);
    await proveKeySet(set);
  });
});
