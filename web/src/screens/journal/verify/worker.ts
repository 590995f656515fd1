import script from "../../../verify/worker?worker&url";

// The content security policy requires Trusted Types for script URLs.
interface Policies {
  createPolicy: (name: string, rules: { createScriptURL: (url: string) => string }) => { createScriptURL: (url: string) => string };
}

const policies = (globalThis as { trustedTypes?: Policies }).trustedTypes;

/** The trusted type policy, which allows only the worker script of the verifier. */
const address = policies?.createPolicy("palyra-verify", {
  createScriptURL: (url) => {
    if (url !== script) throw new Error("the script is not the verifier's worker");
    return url;
  },
});

export function verifyWorker(): Worker {
  return new Worker(address?.createScriptURL(script) ?? script, { type: "module" });
}
