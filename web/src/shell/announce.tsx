import { useSyncExternalStore } from "react";

let said = "";
const watchers = new Set<() => void>();

/** Says something to people who listen to the page, without moving anything. */
export function announce(text: string): void {
  // The same words twice are told apart by a blank, or they would not be read again.
  said = said === text ? `${text}\u0020` : text;
  for (const changed of [...watchers]) changed();
}

export function Announcer() {
  const text = useSyncExternalStore(
    (changed) => {
      watchers.add(changed);
      return () => watchers.delete(changed);
    },
    () => said,
  );
  return (
    <div role="status" aria-live="polite" className="sr-only">
      {text}
    </div>
  );
}
