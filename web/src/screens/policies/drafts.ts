// The policy drafts of a member in this browser.
import { useSyncExternalStore } from "react";
import { draftsKey } from "../../api/session";
import { createNotifier } from "../../ui/notifier";
import type { Draft } from "./words";

export interface StoredDraft extends Draft {
  id: string;
  /** The time of the last change, in milliseconds. */
  at: number;
}

const maxDrafts = 50;
// The session storage key of the open draft, which is per tab.
const openKey = "palyra.draft";

const blank: Draft = { name: "50-new.cedar", text: "" };

/** Returns the drafts after a change of one: updated, added, or removed if it is empty. */
export function updateDrafts(drafts: readonly StoredDraft[], id: string, draft: Draft, at: number): StoredDraft[] {
  const others = drafts.filter((kept) => kept.id !== id);
  if (draft.text.trim() === "" && draft.name === blank.name) return others;
  return [{ ...draft, id, at }, ...others].slice(0, maxDrafts);
}

/** Parses the stored drafts and ignores invalid ones. */
export function readDrafts(raw: string | null): StoredDraft[] {
  try {
    const list: unknown = JSON.parse(raw ?? "[]");
    return Array.isArray(list) ? list.filter(isDraft) : [];
  } catch {
    return [];
  }
}

function isDraft(value: unknown): value is StoredDraft {
  const draft = value as Partial<StoredDraft> | null;
  return typeof draft?.id === "string" && typeof draft.name === "string" && typeof draft.text === "string" && typeof draft.at === "number";
}

const { notify, watch } = createNotifier();
let cache: { raw: string | null; drafts: readonly StoredDraft[] } = { raw: null, drafts: [] };
let hasFailed = false;

function read(): readonly StoredDraft[] {
  const raw = localStorage.getItem(draftsKey());
  if (raw !== cache.raw) cache = { raw, drafts: readDrafts(raw) };
  return cache.drafts;
}

function write(drafts: readonly StoredDraft[]): void {
  try {
    localStorage.setItem(draftsKey(), JSON.stringify(drafts));
    hasFailed = false;
  } catch {
    hasFailed = true;
  }
  notify();
}

/** Starts a draft and opens it in the editor of this tab. */
export function startDraft(draft: Draft): void {
  const id = crypto.randomUUID();
  sessionStorage.setItem(openKey, id);
  write(updateDrafts(read(), id, draft, Date.now()));
}

/** Returns the open draft of this tab, and all drafts. */
export function useDrafts() {
  const drafts = useSyncExternalStore(watch, read);
  const open = useSyncExternalStore(watch, () => sessionStorage.getItem(openKey) ?? "");
  const isFull = useSyncExternalStore(watch, () => hasFailed);
  const draft = drafts.find((kept) => kept.id === open);
  return {
    drafts,
    open,
    draft: draft ?? blank,
    /** Whether the last change could not be stored because the storage is full. */
    isFull,
    write: (next: Draft) => {
      const id = open === "" || draft === undefined ? crypto.randomUUID() : open;
      sessionStorage.setItem(openKey, id);
      write(updateDrafts(drafts, id, next, Date.now()));
    },
    start: startDraft,
    show: (id: string) => {
      sessionStorage.setItem(openKey, id);
      notify();
    },
    discard: (id: string) => write(drafts.filter((kept) => kept.id !== id)),
  };
}
