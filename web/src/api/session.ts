// The session of this browser. Scripts cannot read the cookie. The additional secret is stored
// for this origin only, so that a stolen cookie alone gives no access. Each session has its own item, named by its secret: tabs are separate
// processes, and with one shared item a tab that ends its session could remove a session that
// another tab has just stored.

const sessions = "palyra.session.";
const drafts = "palyra.drafts.";

/** The secret of the session that this page belongs to. */
let currentSecret: string | undefined;

/** Whether a login of this tab is pending. The gateway ends the previous session before it responds, and another tab may remove it first. */
let isLoginPending = false;

/** Returns the storage key of the member's drafts. A logout and the login of another member remove them. */
export function draftsKey(): string {
  return drafts + (session()?.user ?? "");
}

function remove(prefix: string, except?: string): void {
  for (const name of Object.keys(localStorage)) {
    if (name.startsWith(prefix) && name !== except) localStorage.removeItem(name);
  }
}

/** The response to a login. */
export interface Session {
  secret: string;
  /** The member, "user:anna". */
  user: string;
  /** The absolute expiry, RFC 3339. */
  expiresAt: string;
}

/** The reason why a session ended, for the login page. */
export type EndReason = "logout" | "ended" | "other-member" | "";

/** The session of this browser, or undefined. During a login there are two for a moment; the new one expires later. */
export function session(): Session | undefined {
  return Object.keys(localStorage)
    .flatMap(read)
    .sort((a, b) => Date.parse(a.expiresAt) - Date.parse(b.expiresAt))
    .at(-1);
}

function read(name: string): Session[] {
  if (!name.startsWith(sessions)) return [];
  try {
    const { user = "", expiresAt = "" } = JSON.parse(localStorage.getItem(name) ?? "") as Partial<Session>;
    return [{ secret: name.slice(sessions.length), user, expiresAt }];
  } catch {
    return []; // The item is not a valid session.
  }
}

// The errors of a login at an identity provider. The texts are fixed, because anyone can craft the address.
const refusals: Readonly<Record<string, string>> = {
  LOGIN_REFUSED: "The login at the identity provider was refused, timed out, or was not started in this browser; or none of your groups has a role here.",
  LOGIN_UNAVAILABLE: "The identity provider cannot be reached, or its response cannot be verified.",
};

/** Removes the error of a login at an identity provider from the address and returns it; undefined if there is none. */
export function takeRefusal(): LoginError | undefined {
  if (location.pathname !== "/login") return undefined;
  const code = new URLSearchParams(location.hash.slice(1)).get("error");
  if (code === null) return undefined;
  history.replaceState(null, "", "/login");
  const knownRefusal = refusals[code];
  return new LoginError(knownRefusal ?? "The login at the identity provider failed.", `Log in again. If the error persists, see the log of palyrad${knownRefusal === undefined ? "" : ` (${code})`}.`);
}

/** The page and the prefilled answer of a link from `palyra approvals decide`. */
let linkTarget: { to: string; answer: string | null } | undefined;

/** Removes the login token from the address and returns it. */
export function takeToken(): string | undefined {
  if (location.pathname !== "/login") return undefined;
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get("token");
  if (token === null) return undefined;
  const to = fragment.get("to");
  linkTarget = to !== null && /^\/approvals\/[0-9A-Z]{26}$/.test(to) ? { to, answer: fragment.get("answer") } : undefined;
  history.replaceState(null, "", "/login");
  return token;
}

/** Applies the target of the link after its token was accepted: a link without a valid token prefills nothing. */
function applyLinkTarget() {
  if (linkTarget === undefined) return;
  sessionStorage.setItem("palyra.next", linkTarget.to);
  if (linkTarget.answer !== null) sessionStorage.setItem("palyra.answer", linkTarget.answer);
}

/**
 * Reloads the page when a login link is opened in a tab that already displays /login. Only the fragment
 * changes then, and the browser does not reload by itself.
 */
export function followLinks(): void {
  addEventListener("hashchange", () => {
    if (location.pathname === "/login" && new URLSearchParams(location.hash.slice(1)).has("token")) location.reload();
  });
}

interface LoginAnswer {
  secret?: string;
  user?: string;
  expires_at?: string;
  message?: string;
  remedy?: string;
}

/** The error of a login, with the message and the remedy of the gateway. */
export class LoginError extends Error {
  readonly remedy: string;
  constructor(message: string, remedy: string) {
    super(message);
    this.name = "LoginError";
    this.remedy = remedy;
  }
}

/** Exchanges a single-use token for a session. */
export async function login(token: string): Promise<Session> {
  let answer: LoginAnswer = {};
  let ok = false;
  isLoginPending = true;
  try {
    const response = await fetch("/console/v1/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
    });
    ok = response.ok;
    answer = (await response.json()) as LoginAnswer;
  } catch {
    if (ok) throw new LoginError("The gateway's response is not valid.", "Get a new link with `palyra console`.");
  } finally {
    isLoginPending = false;
    currentSecret = session()?.secret;
  }
  if (!ok || answer.secret === undefined || answer.secret === "") {
    throw new LoginError(
      answer.message ?? "The gateway cannot be reached.",
      answer.remedy ?? "A link is valid once and for one minute: get a new one with `palyra console`.",
    );
  }
  const s: Session = { secret: answer.secret, user: answer.user ?? "", expiresAt: answer.expires_at ?? "" };
  currentSecret = s.secret;
  localStorage.setItem(sessions + s.secret, JSON.stringify({ user: s.user, expiresAt: s.expiresAt }));
  remove(sessions, sessions + s.secret);
  remove(drafts, drafts + s.user);
  applyLinkTarget();
  return s;
}

/** Ends the session in all tabs and at the gateway. */
export async function logout(): Promise<void> {
  const s = session();
  // Remove the session first, so that other tabs leave because of the logout and not because the gateway closed the stream.
  remove(sessions);
  remove(drafts);
  try {
    await fetch("/console/v1/logout", { method: "POST", headers: { "Palyra-Console-Secret": s?.secret ?? "" } });
  } catch {
    // The gateway is unreachable: the session ends in this browser now, and at the gateway by the idle timeout.
  } finally {
    leave("logout");
  }
}

/**
 * Ends a session in this browser, unless another session has replaced it. This tab and, by the storage event, every
 * other tab reload the page, so that no displayed data stays in memory.
 */
export function drop(secret: string, why: EndReason): void {
  if (session()?.secret !== secret) return;
  localStorage.removeItem(sessions + secret);
  leave(why);
}

/** Whether this page is being replaced. */
let isLeaving = false;

// A page navigates once. The next page reads the storage again, so that it needs no second reason. The renderer of
// Chromium 148 can crash when a page starts a second navigation before the first one is complete.
function leave(why: EndReason): void {
  if (isLeaving) return;
  isLeaving = true;
  if (why === "other-member") {
    location.replace("/");
    return;
  }
  sessionStorage.setItem("palyra.ended", why);
  if (location.pathname !== "/login") {
    sessionStorage.setItem("palyra.next", location.pathname + location.search);
  }
  location.replace("/login");
}

/** Returns and clears the reason why the last session ended. */
export function takeEndReason(): EndReason {
  const why = sessionStorage.getItem("palyra.ended") ?? "";
  sessionStorage.removeItem("palyra.ended");
  return why as EndReason;
}

/** Returns and clears the page that was open when the session ended; "/" by default. */
export function takeNext(): string {
  const next = sessionStorage.getItem("palyra.next") ?? "/";
  sessionStorage.removeItem("palyra.next");
  return next.startsWith("/") && !next.startsWith("//") ? next : "/";
}

/** Follows changes of the session by other tabs. */
export function followOtherTabs(): void {
  currentSecret = session()?.secret;
  addEventListener("storage", (event) => {
    // A null key means that the storage was cleared.
    if (isLoginPending || event.key?.startsWith(sessions) === false) return;
    const now = session();
    if (now === undefined) {
      if (currentSecret !== undefined) leave("logout");
    } else if (now.secret !== currentSecret) {
      leave("other-member");
    }
  });
}
