// RFC 8785 uses the serialization of ECMAScript's JSON.stringify, plus sorted keys.
import { Fault } from "./fault";

/** Parses a JSON value in RFC 8785 form; throws for any other form. */
export function readCanonical(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text) as unknown;
  } catch {
    throw new Fault("it is not valid JSON");
  }
  // A text that survives parsing and serialization has no whitespace, no alternative form of a
  // number or character, and no duplicate keys. Objects with number-like keys are reordered by
  // JSON.parse, so they take the slow path.
  if (!(JSON.stringify(value) === text && isSorted(value)) && canonical(value) !== text) throw new Fault("it is not in canonical form");
  // Refuse unpaired surrogates, which only an escape can encode.
  if (text.includes("\\ud") && !isWellFormed(value)) throw new Fault("it contains an unpaired surrogate");
  return value;
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return !/\p{Surrogate}/u.test(value);
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, member]) => isWellFormed(key) && isWellFormed(member));
}

function isSorted(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value)) return value.every(isSorted);
  const members = value as Readonly<Record<string, unknown>>;
  let before: string | undefined;
  for (const key of Object.keys(members)) {
    if (before !== undefined && key <= before) return false;
    before = key;
    const member = members[key];
    if (typeof member === "object" && member !== null && !isSorted(member)) return false;
  }
  return true;
}

/** Serializes a value in RFC 8785 form. */
export function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const members = value as Readonly<Record<string, unknown>>;
  return `{${Object.keys(members)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(members[key])}`)
    .join(",")}}`;
}

/** Returns the members of an object with exactly the required names and any of the optional ones; throws otherwise. */
export function object(value: unknown, names: readonly string[], optional: readonly string[] = []): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Fault("it is not an object");
  const members = value as Record<string, unknown>;
  for (const name of names) if (!Object.hasOwn(members, name)) throw new Fault(`${name} is missing`);
  for (const name of Object.keys(members)) if (!names.includes(name) && !optional.includes(name)) throw new Fault(`unknown member ${name}`);
  return members;
}

export function string(value: unknown, name: string): string {
  if (typeof value !== "string") throw new Fault(`${name} is not a string`);
  return value;
}

/** Returns a count: a non-negative safe integer. */
export function count(value: unknown, name: string): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw new Fault(`${name} is not a valid number of events`);
  return value;
}

export function list(value: unknown, name: string): unknown[] {
  if (!Array.isArray(value)) throw new Fault(`${name} is not a list`);
  return value as unknown[];
}
