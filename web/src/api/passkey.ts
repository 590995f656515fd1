// Passkeys (WebAuthn): what the browser makes and signs, for the gateway's challenges.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import type { ChallengePasskeyRequestSchema, Passkey } from "../gen/palyra/v1/presence_pb";
import { PresenceService } from "../gen/palyra/v1/presence_pb";
import type { PasskeyAssertion } from "../gen/palyra/v1/presence_proof_pb";
import { PasskeyAssertionSchema } from "../gen/palyra/v1/presence_proof_pb";
import { client } from "./transport";

/** What a passkey is to sign: a vote, or the change of a passkey. */
export type Said = NonNullable<MessageInitShape<typeof ChallengePasskeyRequestSchema>["said"]>;

/** Why this browser can use no passkey; undefined where it can. */
export function whyNoPasskeys(): string | undefined {
  if (!window.isSecureContext) return "Browsers use passkeys at a trusted address alone: open the console with `palyra console`.";
  if (!("PublicKeyCredential" in window)) return "This browser has no passkeys (WebAuthn), or they are switched off. Use another browser, or answer in a terminal.";
  if (typeof PublicKeyCredential.parseRequestOptionsFromJSON !== "function") return "This browser is too old for passkeys: it takes Chromium 129, Firefox 119 or Safari 18.4.";
  return undefined;
}

/** Whether a passkey proves that its member is there. */
export function counts(passkey: Passkey): boolean {
  return !passkey.waits && !passkey.lost;
}

/** Makes a passkey of the caller. It may have to be confirmed before it counts. */
export async function enrol(name: string): Promise<Passkey> {
  needed();
  const { optionsJson, nonce } = await client(PresenceService).beginPasskeyEnrolment({});
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(optionsJson) as PublicKeyCredentialCreationOptionsJSON);
  const made = await said("make", () => navigator.credentials.create({ publicKey }));
  const { passkey } = await client(PresenceService).finishPasskeyEnrolment({ nonce, name, credentialJson: JSON.stringify(made.toJSON()) });
  if (passkey === undefined) throw new Error("The gateway sent no passkey.");
  return passkey;
}

/** Has a passkey of the caller sign what is said, and nothing else. */
export async function prove(what: Said): Promise<PasskeyAssertion> {
  needed();
  const { optionsJson, nonce, version } = await client(PresenceService).challengePasskey({ said: what });
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(optionsJson) as PublicKeyCredentialRequestOptionsJSON);
  const got = await said("use", () => navigator.credentials.get({ publicKey }));
  const response = got.response;
  if (!(response instanceof AuthenticatorAssertionResponse)) throw new Error("The browser gave another answer than it was asked for.");
  return create(PasskeyAssertionSchema, {
    credentialId: new Uint8Array(got.rawId),
    authenticatorData: new Uint8Array(response.authenticatorData),
    clientDataJson: new Uint8Array(response.clientDataJSON),
    signature: new Uint8Array(response.signature),
    nonce,
    version,
  });
}

function needed(): void {
  const why = whyNoPasskeys();
  if (why !== undefined) throw new Error(why);
}

async function said(what: "make" | "use", ask: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  let given: Credential | null;
  try {
    given = await ask();
  } catch (thrown) {
    throw new Error(refusal(what, thrown), { cause: thrown });
  }
  if (!(given instanceof PublicKeyCredential)) throw new Error(refusal(what, undefined));
  return given;
}

/** What a browser's refusal means, and what to do next. Nothing was sent by then. */
export function refusal(what: "make" | "use", thrown: unknown): string {
  const name = thrown instanceof Error || thrown instanceof DOMException ? thrown.name : "";
  const nothing = what === "make" ? "No passkey was made." : "Nothing was sent.";
  switch (name) {
    case "InvalidStateError":
      return `This authenticator has a passkey of yours here already. ${nothing} Use another, or remove the one that there is.`;
    case "NotAllowedError":
    case "AbortError":
    case "":
      return what === "make"
        ? `The browser made no passkey: it was cancelled, or took too long. ${nothing} Try again.`
        : `The browser gave no proof: it was cancelled, took too long, or no passkey of yours is at hand. ${nothing} Try again.`;
    case "NotSupportedError":
    case "ConstraintError":
      return `The authenticator cannot verify who uses it (by finger, face or PIN), and only such passkeys count. ${nothing} Use another, or set a PIN.`;
    case "SecurityError":
      return `The browser takes no passkey at this address. ${nothing} Open the console with \`palyra console\`.`;
    default:
      return `The browser refused (${name}). ${nothing} Try again, or use another authenticator.`;
  }
}
