// The session of this browser. The cookie is the browser's affair and no script can read
// it; the secret beside it is kept for this origin alone, so that a cookie that was taken
// reaches nothing. Each session has its own item, named by its secret: tabs are separate
// processes, and with one shared item a tab that ends its session could remove a session that
// another tab has just stored.

const sessions = "palyra.session.";
const drafts = "palyra.drafts.";

/** The secret of the session that this page belongs to. */
let mine: string | undefined;

/** Whether a login of this tab is pending. The gateway ends the previous session before it responds, and another tab may remove it first. */
let entering = false;

/** Where what the member writes is kept until it is used: it is gone with a logout, and with another member's login. */
export function keptDrafts(): string {
  return drafts + (session()?.user ?? "");
}

function remove(prefix: string, but?: string): void {
  for (const name of Object.keys(localStorage)) {
    if (name.startsWith(prefix) && name !== but) localStorage.removeItem(name);
  }
}

/** What a login answered. */
export interface Session {
  secret: string;
  /** The member, "user:anna". */
  user: string;
  /** When it ends whatever happens, RFC 3339. */
  expiresAt: string;
}

/** Why there is no session, for the page that says so. */
export type Ended = "logout" | "ended" | "other-member" | "";

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

// What a login at an identity provider can end with, in words of this page: the address could be anybody's.
const refusals: Readonly<Record<string, string>> = {
  LOGIN_REFUSED: "The login at the identity provider was refused, took too long, or was not begun in this browser; or no group of yours has a role here.",
  LOGIN_UNAVAILABLE: "The identity provider cannot be reached, or answers what cannot be checked.",
};

/** Takes what became of a login at an identity provider out of the address; undefined where it says nothing. */
export function takeRefusal(): LoginError | undefined {
  if (location.pathname !== "/login") return undefined;
  const code = new URLSearchParams(location.hash.slice(1)).get("error");
  if (code === null) return undefined;
  history.replaceState(null, "", "/login");
  const known = refusals[code];
  return new LoginError(known ?? "The login at the identity provider came to nothing.", `Begin again. If it stays so, palyrad's log says why${known === undefined ? "" : ` (${code})`}.`);
}

/** What a link of `palyra approvals decide` asks for beside the login: a page, and an answer to fill in. */
let asked: { to: string; answer: string | null } | undefined;

/** Takes the login's token out of the address, so that it stays nowhere. */
export function takeToken(): string | undefined {
  if (location.pathname !== "/login") return undefined;
  const said = new URLSearchParams(location.hash.slice(1));
  const token = said.get("token");
  if (token === null) return undefined;
  const to = said.get("to");
  asked = to !== null && /^\/approvals\/[0-9A-Z]{26}$/.test(to) ? { to, answer: said.get("answer") } : undefined;
  history.replaceState(null, "", "/login");
  return token;
}

/** Goes where the link asked, once its token was good: whoever has no token fills nothing in. */
function followAsked() {
  if (asked === undefined) return;
  sessionStorage.setItem("palyra.next", asked.to);
  if (asked.answer !== null) sessionStorage.setItem("palyra.answer", asked.answer);
}

/**
 * A link that is opened where the way in already stands changes what follows the # alone, which loads nothing:
 * the page is loaded anew, so that the token is taken.
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

/** Thrown by login: what the gateway said. */
export class LoginError extends Error {
  readonly remedy: string;
  constructor(message: string, remedy: string) {
    super(message);
    this.name = "LoginError";
    this.remedy = remedy;
  }
}

/** Exchanges a token, which works once, for a session. */
export async function login(token: string): Promise<Session> {
  let answer: LoginAnswer = {};
  let ok = false;
  entering = true;
  try {
    const response = await fetch("/console/v1/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
    });
    ok = response.ok;
    answer = (await response.json()) as LoginAnswer;
  } catch {
    if (ok) throw new LoginError("The gateway's answer cannot be read.", "Ask for a new link with `palyra console`.");
  } finally {
    entering = false;
    mine = session()?.secret;
  }
  if (!ok || answer.secret === undefined || answer.secret === "") {
    throw new LoginError(
      answer.message ?? "The gateway cannot be reached.",
      answer.remedy ?? "A link works once and for a minute: ask for a new one with `palyra console`.",
    );
  }
  const s: Session = { secret: answer.secret, user: answer.user ?? "", expiresAt: answer.expires_at ?? "" };
  mine = s.secret;
  localStorage.setItem(sessions + s.secret, JSON.stringify({ user: s.user, expiresAt: s.expiresAt }));
  remove(sessions, sessions + s.secret);
  remove(drafts, drafts + s.user);
  followAsked();
  return s;
}

/** Ends the session here, in all tabs and at the gateway. */
export async function logout(): Promise<void> {
  const s = session();
  // First here: other tabs leave because of this, and not because the gateway hung up.
  remove(sessions);
  remove(drafts);
  try {
    await fetch("/console/v1/logout", { method: "POST", headers: { "Palyra-Console-Secret": s?.secret ?? "" } });
  } catch {
    // The gateway is away: here it ends all the same, there by its idle timeout.
  } finally {
    leave("logout");
  }
}

/**
 * Ends a session in this browser, unless another session has replaced it. This tab and, by the storage event, every
 * other tab reload the page, so that no displayed data stays in memory.
 */
export function drop(secret: string, why: Ended): void {
  if (session()?.secret !== secret) return;
  localStorage.removeItem(sessions + secret);
  leave(why);
}

/** Whether this page is being replaced. */
let leaving = false;

// A page navigates once. The next page reads the storage again, so that it needs no second reason. The renderer of
// Chromium 148 can crash when a page starts a second navigation before the first one is complete.
function leave(why: Ended): void {
  if (leaving) return;
  leaving = true;
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

/** Why the last session ended, once. */
export function takeEnded(): Ended {
  const why = sessionStorage.getItem("palyra.ended") ?? "";
  sessionStorage.removeItem("palyra.ended");
  return why as Ended;
}

/** Where the person was when the session ended; "/" for nowhere. */
export function takeNext(): string {
  const next = sessionStorage.getItem("palyra.next") ?? "/";
  sessionStorage.removeItem("palyra.next");
  return next.startsWith("/") && !next.startsWith("//") ? next : "/";
}

/** Follows what other tabs do with the session. */
export function followOtherTabs(): void {
  mine = session()?.secret;
  addEventListener("storage", (event) => {
    // A null key means that everything was cleared.
    if (entering || event.key?.startsWith(sessions) === false) return;
    const now = session();
    if (now === undefined) {
      if (mine !== undefined) leave("logout");
    } else if (now.secret !== mine) {
      leave("other-member");
    }
  });
}
