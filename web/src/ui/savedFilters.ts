import { useSyncExternalStore } from "react";
import { createNotifier } from "./notifier";

interface SavedFilters {
  filters: { name: string; line: string }[];
  byDefault: string;
}

const empty: SavedFilters = { filters: [], byDefault: "" };
const cache = new Map<string, { raw: string | null; kept: SavedFilters }>();

function keyOf(screen: string): string {
  return `palyra.filters.${screen}`;
}

function read(screen: string): SavedFilters {
  const raw = localStorage.getItem(keyOf(screen));
  const cached = cache.get(screen);
  if (cached?.raw === raw) return cached.kept;
  let kept = empty;
  try {
    if (raw !== null) kept = { ...empty, ...(JSON.parse(raw) as Partial<SavedFilters>) };
  } catch {
    // Ignore an invalid item.
  }
  cache.set(screen, { raw, kept });
  return kept;
}

const { notify, watch } = createNotifier();

function write(screen: string, kept: SavedFilters): void {
  localStorage.setItem(keyOf(screen), JSON.stringify(kept));
  notify();
}

/** Returns the saved filters of a screen in this browser. */
export function useSavedFilters(screen: string) {
  const kept = useSyncExternalStore(watch, () => read(screen));
  return {
    ...kept,
    add: (name: string, line: string) => write(screen, { ...kept, filters: [...kept.filters.filter((f) => f.name !== name), { name, line }] }),
    remove: (name: string) => write(screen, { filters: kept.filters.filter((f) => f.name !== name), byDefault: kept.byDefault === name ? "" : kept.byDefault }),
    setDefault: (name: string) => write(screen, { ...kept, byDefault: name }),
  };
}

/** Returns the default filter of a screen, for an address without a filter. */
export function defaultFilter(screen: string): string {
  const kept = read(screen);
  return kept.filters.find((f) => f.name === kept.byDefault)?.line ?? "";
}
