// Change notification for values in localStorage, within a tab and across tabs.

/** Notifies the watchers of this tab; the storage event notifies those in other tabs. */
export interface Notifier {
  notify: () => void;
  watch: (onChange: () => void) => () => void;
}

/** Creates a notifier for useSyncExternalStore. */
export function createNotifier(): Notifier {
  const watchers = new Set<() => void>();
  return {
    notify: () => {
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
