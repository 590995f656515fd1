// What several parts of a page, and several tabs, keep in this browser's storage: who shows it is told when it changes.

/** Tells those who watch, in this tab; the browser tells those in others. */
export interface Watched {
  tell: () => void;
  watch: (changed: () => void) => () => void;
}

/** Makes something that can be watched, for useSyncExternalStore. */
export function watched(): Watched {
  const watchers = new Set<() => void>();
  return {
    tell: () => {
      for (const changed of [...watchers]) changed();
    },
    watch: (changed) => {
      watchers.add(changed);
      addEventListener("storage", changed);
      return () => {
        watchers.delete(changed);
        removeEventListener("storage", changed);
      };
    },
  };
}
