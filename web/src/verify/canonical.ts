// RFC 8785 is defined by ECMAScript's own JSON.stringify, apart from the order of keys.
import { Fault } from "./fault";

/** Reads one JSON value that has to be in RFC 8785 form; any other form throws. */
export function readCanonical(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text) as unknown;
  } catch {
    throw new Fault("it is not JSON");
  }
  // What parses and is written back the same has no space, no second name for a number or
  // character, and no key twice. Number-like keys lose their place, hence the slow way.
  if (!(JSON.stringify(value) === text && inOrder(value)) && canonical(value) !== text) throw new Fault("it is not in canonical form");
  // A half of a surrogate pair is no character. Only an escape can bring one in.
  if (text.includes("\\ud") && !wellFormed(value)) throw new Fault("it has half a character in it");
  return value;
}

function wellFormed(value: unknown): boolean {
  if (typeof value === "string") return !/\p{Surrogate}/u.test(value);
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, member]) => wellFormed(key) && wellFormed(member));
}

function inOrder(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value)) return value.every(inOrder);
  const members = value as Readonly<Record<string, unknown>>;
  let before: string | undefined;
  for (const key of Object.keys(members)) {
    if (before !== undefined && key <= before) return false;
    before = key;
    const member = members[key];
    if (typeof member === "object" && member !== null && !inOrder(member)) return false;
  }
  return true;
}

/** Writes a value in RFC 8785 form. */
export function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const members = value as Readonly<Record<string, unknown>>;
  return `{${Object.keys(members)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(members[key])}`)
    .join(",")}}`;
}

/** The members of a value that has to be an object with exactly these names, and others that may be absent. */
export function object(value: unknown, names: readonly string[], optional: readonly string[] = []): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Fault("it is not an object");
  const members = value as Record<string, unknown>;
  for (const name of names) if (!Object.hasOwn(members, name)) throw new Fault(`${name} is missing`);
  for (const name of Object.keys(members)) if (!names.includes(name) && !optional.includes(name)) throw new Fault(`the member ${name} is not known`);
  return members;
}

export function string(value: unknown, name: string): string {
  if (typeof value !== "string") throw new Fault(`${name} is not a text`);
  return value;
}

/** A count: a whole number that is not negative. */
export function count(value: unknown, name: string): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw new Fault(`${name} is not a number of events`);
  return value;
}

export function list(value: unknown, name: string): unknown[] {
  if (!Array.isArray(value)) throw new Fault(`${name} is not a list`);
  return value as unknown[];
}
