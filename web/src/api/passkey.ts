// Passkeys (WebAuthn): the browser's side of enrolment and of the gateway's challenges.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import type { ChallengePasskeyRequestSchema, Passkey } from "../gen/palyra/v1/presence_pb";
import { PresenceService } from "../gen/palyra/v1/presence_pb";
import type { PasskeyAssertion } from "../gen/palyra/v1/presence_proof_pb";
import { PasskeyAssertionSchema } from "../gen/palyra/v1/presence_proof_pb";
import { client } from "./transport";

/** The statement that a passkey signs: a vote, or a change of a passkey. */
export type Statement = NonNullable<MessageInitShape<typeof ChallengePasskeyRequestSchema>["said"]>;

/** Returns why this browser cannot use passkeys, or undefined if it can. */
export function passkeyProblem(): string | undefined {
  if (!window.isSecureContext) return "Browsers allow passkeys only at a secure address: open the console with `palyra console`.";
  if (!("PublicKeyCredential" in window)) return "This browser does not support passkeys (WebAuthn), or they are disabled. Use another browser, or answer in a terminal.";
  if (typeof PublicKeyCredential.parseRequestOptionsFromJSON !== "function") return "This browser is too old for passkeys: use Chromium 129, Firefox 119, Safari 18.4 or later.";
  return undefined;
}

/** Whether a passkey can prove the presence of its member. */
export function isActive(passkey: Passkey): boolean {
  return !passkey.waits && !passkey.lost;
}

/** Creates a passkey of the caller. It may require a confirmation before it counts. */
export async function enrol(name: string): Promise<Passkey> {
  requirePasskeys();
  const { optionsJson, nonce } = await client(PresenceService).beginPasskeyEnrolment({});
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(optionsJson) as PublicKeyCredentialCreationOptionsJSON);
  const created = await callBrowser("make", () => navigator.credentials.create({ publicKey }));
  const { passkey } = await client(PresenceService).finishPasskeyEnrolment({ nonce, name, credentialJson: JSON.stringify(created.toJSON()) });
  if (passkey === undefined) throw new Error("The gateway sent no passkey.");
  return passkey;
}

/** Signs exactly this statement with a passkey of the caller. */
export async function prove(what: Statement): Promise<PasskeyAssertion> {
  requirePasskeys();
  const { optionsJson, nonce, version } = await client(PresenceService).challengePasskey({ said: what });
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(optionsJson) as PublicKeyCredentialRequestOptionsJSON);
  const assertion = await callBrowser("use", () => navigator.credentials.get({ publicKey }));
  const response = assertion.response;
  if (!(response instanceof AuthenticatorAssertionResponse)) throw new Error("The browser returned an unexpected kind of response.");
  return create(PasskeyAssertionSchema, {
    credentialId: new Uint8Array(assertion.rawId),
    authenticatorData: new Uint8Array(response.authenticatorData),
    clientDataJson: new Uint8Array(response.clientDataJSON),
    signature: new Uint8Array(response.signature),
    nonce,
    version,
  });
}

function requirePasskeys(): void {
  const why = passkeyProblem();
  if (why !== undefined) throw new Error(why);
}

async function callBrowser(what: "make" | "use", request: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  let credential: Credential | null;
  try {
    credential = await request();
  } catch (thrown) {
    throw new Error(refusal(what, thrown), { cause: thrown });
  }
  if (!(credential instanceof PublicKeyCredential)) throw new Error(refusal(what, undefined));
  return credential;
}

/** Returns the message for a browser's refusal, with the next step. Nothing has been sent at this point. */
export function refusal(what: "make" | "use", thrown: unknown): string {
  const name = thrown instanceof Error || thrown instanceof DOMException ? thrown.name : "";
  const nothing = what === "make" ? "No passkey was created." : "Nothing was sent.";
  switch (name) {
    case "InvalidStateError":
      return `This authenticator already has a passkey of yours for this gateway. ${nothing} Use another authenticator, or remove the existing passkey.`;
    case "NotAllowedError":
    case "AbortError":
    case "":
      return what === "make"
        ? `The request was cancelled or timed out. ${nothing} Try again.`
        : `The request was cancelled or timed out, or no passkey of yours is available. ${nothing} Try again.`;
    case "NotSupportedError":
    case "ConstraintError":
      return `The authenticator cannot verify its user (fingerprint, face or PIN), which is required. ${nothing} Use another authenticator, or set a PIN.`;
    case "SecurityError":
      return `The browser does not allow passkeys at this address. ${nothing} Open the console with \`palyra console\`.`;
    default:
      return `The browser refused the request (${name}). ${nothing} Try again, or use another authenticator.`;
  }
}
