import { useEffect, useState } from "react";
import type { EndReason, Session } from "../api/session";
import { LoginError, takeEndReason, takeNext, takeRefusal } from "../api/session";
import { Notice } from "../ui/State";

const endMessages: Record<EndReason, string> = {
  "": "",
  logout: "You are logged out in all tabs of this browser.",
  ended: "The session has ended: it was idle for too long, it was ended from another place, or the gateway restarted.",
  "other-member": "Another member logged in in this browser.",
};

/** The login page. attempt is the pending login with the token of the address. */
export function Login({ attempt }: { attempt: Promise<Session> | undefined }) {
  const [problem, setProblem] = useState<LoginError | undefined>(takeRefusal);
  const [endReason] = useState(takeEndReason);
  const [hasProvider, setHasProvider] = useState(false);
  useEffect(() => {
    fetch("/console/v1/about")
      .then((answer) => answer.json() as Promise<{ oidc?: boolean }>)
      .then(
        (about) => setHasProvider(about.oidc === true),
        () => undefined, // The gateway is unreachable, and so is its login at the identity provider.
      );
  }, []);
  useEffect(() => {
    document.title = "Log in · Palyra";
    attempt?.then(
      () => location.replace(takeNext()),
      (thrown: unknown) => setProblem(thrown instanceof LoginError ? thrown : new LoginError(String(thrown), "")),
    );
  }, [attempt]);
  return (
    <main className="mx-auto flex min-h-dvh max-w-lg flex-col justify-center gap-4 p-5">
      <h1 className="text-2xl font-bold">Palyra</h1>
      {attempt !== undefined && problem === undefined ? (
        <p role="status">Logging in…</p>
      ) : (
        <>
          {problem !== undefined && (
            <div role="alert">
              <Notice tone="bad">
                <p className="font-semibold">{problem.message}</p>
                <p>{problem.remedy}</p>
              </Notice>
            </div>
          )}
          {problem === undefined && endReason !== "" && <Notice>{endMessages[endReason]}</Notice>}
          <p>
            Log in from a terminal of a paired device:
            <code className="mt-2 block rounded border border-line bg-panel px-3 py-2 font-mono">palyra console</code>
          </p>
          <p className="text-quiet">
            It opens this page with a link that is valid once and for one minute. Over SSH, <code>palyra console --no-browser</code> prints the link.
          </p>
          {hasProvider && (
            <p>
              Or <a href="/console/v1/login/oidc">log in at the identity provider</a>.
            </p>
          )}
        </>
      )}
    </main>
  );
}
