import { afterEach, beforeEach, expect, test, vi } from "vitest";

// Each test has a page of its own: the module keeps whether its page is being replaced.
let drop: typeof import("./session").drop;
let followOtherTabs: typeof import("./session").followOtherTabs;
let login: typeof import("./session").login;
let logout: typeof import("./session").logout;
let session: typeof import("./session").session;

const later = (hours: number) => new Date(Date.UTC(2026, 0, 1, hours)).toISOString();

/** Logs a member in, with a session that ends at an hour. */
function loginAs(user: string, secret: string, hour: number) {
  vi.stubGlobal("fetch", () => Promise.resolve(Response.json({ secret, user, expires_at: later(hour) })));
  return login("token");
}

/** Stores a session as a login in another tab does. */
const storeAs = (user: string, secret: string, hour: number) =>
  localStorage.setItem(`palyra.session.${secret}`, JSON.stringify({ user, expiresAt: later(hour) }));

const left: string[] = [];
const changed = (key: string | null) => dispatchEvent(new StorageEvent("storage", { key }));
let page: AbortController;

beforeEach(async () => {
  vi.resetModules();
  ({ drop, followOtherTabs, login, logout, session } = await import("./session"));
  page = new AbortController();
  const listen = window.addEventListener.bind(window);
  vi.stubGlobal("addEventListener", (type: string, listener: EventListener) => listen(type, listener, { signal: page.signal }));
  vi.spyOn(location, "replace").mockImplementation((to) => void left.push(String(to)));
});

afterEach(() => {
  page.abort();
  vi.unstubAllGlobals();
  localStorage.clear();
  sessionStorage.clear();
  left.length = 0;
});

test("a login is the session, and removes the one before and the drafts of others", async () => {
  await loginAs("user:anna", "a", 1);
  for (const user of ["user:anna", "user:local"]) localStorage.setItem(`palyra.drafts.${user}`, "x");
  await loginAs("user:local", "b", 2);
  expect(session()).toEqual({ secret: "b", user: "user:local", expiresAt: later(2) });
  expect(Object.keys(localStorage).sort()).toEqual(["palyra.drafts.user:local", "palyra.session.b"]);
});

test("of two sessions, the one with the later expiry is used", () => {
  storeAs("user:local", "b", 2);
  storeAs("user:anna", "a", 1);
  expect(session()?.user).toBe("user:local");
});

test("an item that is not a valid session is ignored", () => {
  localStorage.setItem("palyra.session.a", "{");
  localStorage.setItem("palyra.session", "{}");
  expect(session()).toBeUndefined();
});

test("an ended session is removed and the page opens the login", async () => {
  await loginAs("user:anna", "a", 1);
  drop("another", "ended");
  expect(left).toEqual([]);
  drop("a", "ended");
  expect(left).toEqual(["/login"]);
  expect(session()).toBeUndefined();
});

test("ending a session keeps a session that another tab stores at the same time", async () => {
  await loginAs("user:anna", "a", 1);
  // Tabs are separate processes: another tab can write between a read of the storage and a write to it.
  const browsers = localStorage;
  const between = {
    getItem: (name: string) => browsers.getItem(name),
    removeItem: (name: string) => {
      storeAs("user:local", "b", 2);
      browsers.removeItem(name);
    },
    setItem: (name: string, value: string) => browsers.setItem(name, value),
  };
  vi.stubGlobal("localStorage", new Proxy(browsers, { get: (_, name) => between[name as keyof typeof between] }));
  drop("a", "ended");
  expect(session()?.user).toBe("user:local");
});

test("a page reacts only to changes of its own session in other tabs", async () => {
  followOtherTabs();
  await loginAs("user:anna", "a", 1);
  changed("palyra.session.a");
  changed("palyra.session.of-before");
  changed("palyra.theme");
  expect(left).toEqual([]);
  storeAs("user:local", "b", 2);
  changed("palyra.session.b");
  expect(left).toEqual(["/"]);
});

test("a page reacts when another tab clears the storage", async () => {
  followOtherTabs();
  await loginAs("user:anna", "a", 1);
  localStorage.clear();
  changed(null);
  expect(left).toEqual(["/login"]);
});

test("a page that is being replaced starts no second navigation", async () => {
  followOtherTabs();
  await loginAs("user:anna", "a", 1);
  storeAs("user:local", "b", 2);
  changed("palyra.session.b");
  localStorage.removeItem("palyra.session.a");
  changed("palyra.session.a");
  expect(left).toEqual(["/"]);
});

test("a page whose session ends does not turn to the login that ended it", async () => {
  followOtherTabs();
  await loginAs("user:anna", "a", 1);
  drop("a", "ended");
  storeAs("user:local", "b", 2);
  changed("palyra.session.b");
  expect(left).toEqual(["/login"]);
});

test("a pending login is not interrupted when another tab removes the previous session", async () => {
  storeAs("user:anna", "a", 1);
  let answer: (r: Response) => void = () => undefined;
  vi.stubGlobal("fetch", () => new Promise<Response>((resolve) => (answer = resolve)));
  const entering = login("token");
  followOtherTabs();
  const endInOtherTab = () => {
    localStorage.removeItem("palyra.session.a");
    dispatchEvent(new StorageEvent("storage", { key: "palyra.session.a" }));
  };
  endInOtherTab();
  expect(left).toEqual([]);
  answer(Response.json({ secret: "b", user: "user:local", expires_at: later(2) }));
  await entering;
  expect(session()?.user).toBe("user:local");
  dispatchEvent(new StorageEvent("storage", { key: "palyra.session.a" }));
  expect(left).toEqual([]);
});

test("after a refused login a page follows other tabs again", async () => {
  followOtherTabs();
  vi.stubGlobal("fetch", () => Promise.resolve(Response.json({ message: "no" }, { status: 403 })));
  await expect(login("token")).rejects.toThrow("no");
  storeAs("user:local", "b", 2);
  dispatchEvent(new StorageEvent("storage", { key: "palyra.session.b" }));
  expect(left).toContain("/");
});

test("a logout removes the session and all drafts", async () => {
  await loginAs("user:anna", "a", 1);
  localStorage.setItem("palyra.drafts.user:anna", "x");
  await logout();
  expect(Object.keys(localStorage)).toEqual([]);
  expect(left).toEqual(["/login"]);
});
