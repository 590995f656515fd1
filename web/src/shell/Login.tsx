import { useEffect, useState } from "react";
import type { Ended, Session } from "../api/session";
import { LoginError, takeEnded, takeNext, takeRefusal } from "../api/session";
import { Notice } from "../ui/State";

const ends: Record<Ended, string> = {
  "": "",
  logout: "You are logged out, in every tab of this browser.",
  ended: "The session is over: it was idle for too long, was ended by somebody, or the gateway was started anew.",
  "other-member": "Somebody else logged in here.",
};

/** The way in. A token of the address is being exchanged by the attempt. */
export function Login({ attempt }: { attempt: Promise<Session> | undefined }) {
  const [problem, setProblem] = useState<LoginError | undefined>(takeRefusal);
  const [ended] = useState(takeEnded);
  const [provider, setProvider] = useState(false);
  useEffect(() => {
    fetch("/console/v1/about")
      .then((answer) => answer.json() as Promise<{ oidc?: boolean }>)
      .then(
        (about) => setProvider(about.oidc === true),
        () => undefined, // The gateway is away: then the link would lead nowhere.
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
          {problem === undefined && ended !== "" && <Notice>{ends[ended]}</Notice>}
          <p>
            Log in from a terminal of a paired device:
            <code className="mt-2 block rounded border border-line bg-panel px-3 py-2 font-mono">palyra console</code>
          </p>
          <p className="text-quiet">
            It opens this page with a link that works once and for a minute. Over SSH, <code>palyra console --no-browser</code> prints the link.
          </p>
          {provider && (
            <p>
              Or <a href="/console/v1/login/oidc">log in at the identity provider</a>.
            </p>
          )}
        </>
      )}
    </main>
  );
}
