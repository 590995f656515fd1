import script from "../../../verify/worker?worker&url";

// The content security policy wants a policy's word for what is run as a script.
interface Policies {
  createPolicy: (name: string, rules: { createScriptURL: (url: string) => string }) => { createScriptURL: (url: string) => string };
}

const policies = (globalThis as { trustedTypes?: Policies }).trustedTypes;

/** The address of the one script that this screen runs in Workers; no other passes. */
const address = policies?.createPolicy("palyra-verify", {
  createScriptURL: (url) => {
    if (url !== script) throw new Error("another script than the verifier's");
    return url;
  },
});

export function verifyWorker(): Worker {
  return new Worker(address?.createScriptURL(script) ?? script, { type: "module" });
}
