import { useSyncExternalStore } from "react";
import { watched } from "./watched";

interface Kept {
  filters: { name: string; line: string }[];
  byDefault: string;
}

const empty: Kept = { filters: [], byDefault: "" };
const cache = new Map<string, { raw: string | null; kept: Kept }>();

function keyOf(screen: string): string {
  return `palyra.filters.${screen}`;
}

function read(screen: string): Kept {
  const raw = localStorage.getItem(keyOf(screen));
  const known = cache.get(screen);
  if (known?.raw === raw) return known.kept;
  let kept = empty;
  try {
    if (raw !== null) kept = { ...empty, ...(JSON.parse(raw) as Partial<Kept>) };
  } catch {
    // What cannot be read is not there.
  }
  cache.set(screen, { raw, kept });
  return kept;
}

const { tell, watch } = watched();

function write(screen: string, kept: Kept): void {
  localStorage.setItem(keyOf(screen), JSON.stringify(kept));
  tell();
}

/** The filters that this browser keeps for a screen. */
export function useSaved(screen: string) {
  const kept = useSyncExternalStore(watch, () => read(screen));
  return {
    ...kept,
    add: (name: string, line: string) => write(screen, { ...kept, filters: [...kept.filters.filter((f) => f.name !== name), { name, line }] }),
    remove: (name: string) => write(screen, { filters: kept.filters.filter((f) => f.name !== name), byDefault: kept.byDefault === name ? "" : kept.byDefault }),
    setDefault: (name: string) => write(screen, { ...kept, byDefault: name }),
  };
}

/** The line that a screen begins with when the address has none. */
export function defaultLine(screen: string): string {
  const kept = read(screen);
  return kept.filters.find((f) => f.name === kept.byDefault)?.line ?? "";
}
