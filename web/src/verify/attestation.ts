// Verification of attestations: DSSE envelopes with a statement (docs/format/attestation.md).
import { base64, join, textOf, utf8 } from "./bytes";
import { list, object, readCanonical, string } from "./canonical";
import { Fault } from "./fault";
import type { NotaryKey } from "./keyset";
import { parseTime } from "./keyset";
import type { Members } from "./members";
import { statement as statementMembers } from "./members";
import { verifyEd25519 } from "./note";

const payloadType = "application/vnd.in-toto+json";
const maxEnvelope = 8 << 20;

export interface Attestation {
  attestationId: string;
  proposalId: string;
}

/** Verifies an envelope with the notary keys of a gateway. */
export async function verifyAttestation(value: unknown, keys: readonly NotaryKey[], gateway: string): Promise<Attestation> {
  const envelope = object(value, ["payload", "payloadType", "signatures"]);
  const [signature, ...more] = list(envelope.signatures, "signatures");
  if (envelope.payloadType !== payloadType) throw new Fault(`payload type is ${JSON.stringify(envelope.payloadType)}`);
  if (signature === undefined || more.length > 0) throw new Fault("want exactly one signature");
  const { keyid, sig } = object(signature, ["keyid", "sig"]);
  const text = string(envelope.payload, "payload");
  const payload = text.length > maxEnvelope ? undefined : base64(text);
  const raw = base64(string(sig, "sig"));
  if (payload === undefined || raw === undefined) throw new Fault("payload or signature: not standard base64");
  const certified = keys.filter((key) => key.id === keyid);
  const [key] = certified;
  if (key === undefined) throw new Fault(`the key set has no key ${JSON.stringify(keyid)}`);
  const signed = join(utf8(`DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `), payload);
  if (!(await verifyEd25519(key.publicKey, raw, signed))) throw new Fault("the signature does not match the payload");
  const statement = readCanonical(textOf(payload)) as Statement;
  checkMembers(statement, statementMembers, "statement");
  checkStatement(statement);
  if (statement.predicate.gateway !== gateway) throw new Fault(`it is of gateway ${JSON.stringify(statement.predicate.gateway)}, the key set is of ${JSON.stringify(gateway)}`);
  checkTime(certified, parseTime(statement.predicate.times.attested_at, "times.attested_at"));
  return { attestationId: statement.predicate.attestation_id, proposalId: statement.predicate.invocation.proposal_id };
}

/** Refuses a time after the retirement of the key, so that a stolen old key cannot sign with a current date. */
function checkTime(certified: readonly NotaryKey[], at: number): void {
  const valid = certified.find((key) => at >= key.from && at <= key.to);
  if (valid === undefined) throw new Fault("it was signed at a time when no certificate of the notary was valid");
  if (valid.retiredAt !== undefined && at > valid.retiredAt) throw new Fault("it was signed after the key was retired");
}

// The members of a statement that are checked here. checkMembers has verified their presence.
interface Statement {
  _type: unknown;
  predicateType: unknown;
  subject: { name: unknown; digest: { sha256: unknown } }[];
  predicate: {
    attestation_id: string;
    gateway: unknown;
    invocation: Record<string, unknown> & { proposal_id: string };
    policy: Record<string, unknown>;
    executor: Record<string, unknown>;
    sandbox_enforcement: unknown;
    enforcement: { requested: string[] | null; applied: string[] | null; downgrades: string[] | null };
    isolation?: Record<string, unknown>;
    inputs: { arguments_digest: unknown; executable?: { sha256: unknown }; files: { sha256: unknown }[] | null };
    outputs: Record<string, unknown> & { files: { workspace: string; path: string; was: unknown; is: unknown }[] | null };
    changes?: Record<string, unknown>;
    violations?: { count: number; first: unknown[] };
    journal?: { size: number; head_sha256: unknown };
    result: Record<string, unknown>;
    times: Record<string, unknown>;
    execution_sha256: unknown;
  };
}

function checkMembers(value: unknown, members: Members, where: string): void {
  const required = Object.keys(members).filter((name) => !name.endsWith("?"));
  const optional = Object.keys(members).flatMap((name) => (name.endsWith("?") ? [name.slice(0, -1)] : []));
  let found: Record<string, unknown>;
  try {
    found = object(value, required, optional);
  } catch (thrown) {
    throw new Fault(`${where}: ${thrown instanceof Fault ? thrown.message : String(thrown)}`);
  }
  for (const [name, member] of Object.entries(found)) {
    const kind = members[name] ?? members[`${name}?`] ?? null;
    if (kind === null) continue;
    if (!isList(kind)) checkMembers(member, kind, name);
    else if (member !== null) for (const item of list(member, name)) checkMembers(item, kind[0], name);
  }
}

function isList(kind: Members | readonly [Members]): kind is readonly [Members] {
  return Array.isArray(kind);
}

const isHex = (value: unknown) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
const isDigest = (value: unknown) => typeof value === "string" && /^sha256:[0-9a-f]{64}$/.test(value);
const ulid = /^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$/;
const states = ["unchanged", "committed", "discarded", "conflicted", "dry_run"];

function checkStatement(s: Statement): void {
  const p = s.predicate;
  if (s._type !== "https://in-toto.io/Statement/v1") throw new Fault(`statement type is ${JSON.stringify(s._type)}, want "https://in-toto.io/Statement/v1"`);
  if (s.predicateType !== "https://palyra.dev/attestation/tool-execution/v1") throw new Fault(`predicate type is ${JSON.stringify(s.predicateType)}, want "https://palyra.dev/attestation/tool-execution/v1"`);
  for (const id of [p.attestation_id, p.invocation.proposal_id]) if (typeof id !== "string" || !ulid.test(id)) throw new Fault(`${JSON.stringify(id)} is not a ULID`);
  for (const value of [p.gateway, p.invocation.decision_id, p.invocation.principal, p.invocation.tool, p.policy.version, p.executor.name, p.sandbox_enforcement, p.result.outcome])
    if (typeof value !== "string" || value === "") throw new Fault("a required member is missing");
  if (p.changes !== undefined && !states.includes(String(p.changes.state))) throw new Fault(`changes.state is ${JSON.stringify(p.changes.state)}`);
  if (p.violations !== undefined && (p.violations.first.length === 0 || p.violations.count < p.violations.first.length)) throw new Fault(`violations.count is ${p.violations.count} and ${p.violations.first.length} are listed`);
  if (p.journal !== undefined && (!(p.journal.size >= 0) || !isHex(p.journal.head_sha256))) throw new Fault(`journal is of size ${p.journal.size} with the head ${JSON.stringify(p.journal.head_sha256)}`);
  checkDigests(p);
  for (const layer of p.enforcement.requested ?? [])
    if (!(p.enforcement.applied ?? []).includes(layer) && !(p.enforcement.downgrades ?? []).some((line) => line === layer || line.startsWith(`${layer}:`) || line.startsWith(`${layer} `)))
      throw new Fault(`layer ${JSON.stringify(layer)} was requested, is not applied and is not listed as a downgrade`);
  checkSubjects(s);
}

function checkDigests(p: Statement["predicate"]): void {
  for (const value of [p.invocation.call_digest, p.invocation.tool_definition_digest, p.policy.snapshot_digest, p.inputs.arguments_digest])
    if (!isDigest(value)) throw new Fault(`${JSON.stringify(value)} is not "sha256:" and 64 hex digits`);
  if (!isHex(p.execution_sha256) || p.outputs.result_sha256 !== p.execution_sha256) throw new Fault("outputs.result_sha256 differs from execution_sha256");
  const { isolation: i, outputs: o } = p;
  const optional = [o.stdout_sha256, o.stderr_sha256, o.stdout_kept_sha256, o.stderr_kept_sha256, p.inputs.executable?.sha256, p.changes?.root_sha256, i?.seccomp_sha256, i?.helper_sha256, i?.arguments_sha256, i?.backend_sha256];
  for (const file of p.inputs.files ?? []) optional.push(file.sha256);
  for (const file of o.files ?? []) optional.push(file.was, file.is);
  for (const value of optional) if (value !== undefined && value !== "" && !isHex(value)) throw new Fault(`the digest ${JSON.stringify(value)} is not 64 hex digits`);
}

function checkSubjects(s: Statement): void {
  const p = s.predicate;
  const want = [[`palyra:tool-call/${p.invocation.proposal_id}`, String(p.invocation.call_digest).replace("sha256:", "")]];
  for (const file of p.outputs.files ?? []) if (file.is !== "") want.push([`palyra:file/${file.workspace}/${file.path}`, String(file.is)]);
  const actualSubjects = s.subject.map((subject) => [subject.name, subject.digest.sha256]);
  if (JSON.stringify(want) !== JSON.stringify(actualSubjects)) throw new Fault("the subjects differ from the predicate");
}
