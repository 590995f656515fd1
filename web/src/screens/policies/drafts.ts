// The drafts of policies that this browser keeps for its member, from the first letter on.
import { useSyncExternalStore } from "react";
import { keptDrafts } from "../../api/session";
import { watched } from "../../ui/watched";
import type { Draft } from "./words";

export interface KeptDraft extends Draft {
  id: string;
  /** When it was written last, in milliseconds. */
  at: number;
}

const most = 50;
// Which draft a tab has open. Another tab has its own.
const openKey = "palyra.draft";

const blank: Draft = { name: "50-new.cedar", text: "" };

/** The drafts with one written: changed, new, or gone where nothing is left of it. */
export function written(drafts: readonly KeptDraft[], id: string, draft: Draft, at: number): KeptDraft[] {
  const others = drafts.filter((kept) => kept.id !== id);
  if (draft.text.trim() === "" && draft.name === blank.name) return others;
  return [{ ...draft, id, at }, ...others].slice(0, most);
}

/** What a text in storage has of drafts; what cannot be read is not there. */
export function readDrafts(raw: string | null): KeptDraft[] {
  try {
    const list: unknown = JSON.parse(raw ?? "[]");
    return Array.isArray(list) ? list.filter(isDraft) : [];
  } catch {
    return [];
  }
}

function isDraft(value: unknown): value is KeptDraft {
  const draft = value as Partial<KeptDraft> | null;
  return typeof draft?.id === "string" && typeof draft.name === "string" && typeof draft.text === "string" && typeof draft.at === "number";
}

const { tell, watch } = watched();
let cache: { raw: string | null; drafts: readonly KeptDraft[] } = { raw: null, drafts: [] };
let failed = false;

function read(): readonly KeptDraft[] {
  const raw = localStorage.getItem(keptDrafts());
  if (raw !== cache.raw) cache = { raw, drafts: readDrafts(raw) };
  return cache.drafts;
}

function write(drafts: readonly KeptDraft[]): void {
  try {
    localStorage.setItem(keptDrafts(), JSON.stringify(drafts));
    failed = false;
  } catch {
    failed = true;
  }
  tell();
}

/** Begins a draft, which the editor of this tab shows from then on. */
export function beginDraft(draft: Draft): void {
  const id = crypto.randomUUID();
  sessionStorage.setItem(openKey, id);
  write(written(read(), id, draft, Date.now()));
}

/** The draft of this tab's editor, with those beside it. */
export function useDrafts() {
  const drafts = useSyncExternalStore(watch, read);
  const open = useSyncExternalStore(watch, () => sessionStorage.getItem(openKey) ?? "");
  const full = useSyncExternalStore(watch, () => failed);
  const draft = drafts.find((kept) => kept.id === open);
  return {
    drafts,
    open,
    draft: draft ?? blank,
    /** True where the browser has no room for what was written. */
    full,
    write: (next: Draft) => {
      const id = open === "" || draft === undefined ? crypto.randomUUID() : open;
      sessionStorage.setItem(openKey, id);
      write(written(drafts, id, next, Date.now()));
    },
    begin: beginDraft,
    show: (id: string) => {
      sessionStorage.setItem(openKey, id);
      tell();
    },
    discard: (id: string) => write(drafts.filter((kept) => kept.id !== id)),
  };
}
