import { useSyncExternalStore } from "react";

let announced = "";
const watchers = new Set<() => void>();

/** Announces a text to screen readers without moving the focus. */
export function announce(text: string): void {
  // Screen readers announce only changes, so a repeated text gets a trailing space.
  announced = announced === text ? `${text}\u0020` : text;
  for (const changed of [...watchers]) changed();
}

export function Announcer() {
  const text = useSyncExternalStore(
    (changed) => {
      watchers.add(changed);
      return () => watchers.delete(changed);
    },
    () => announced,
  );
  return (
    <div role="status" aria-live="polite" className="sr-only">
      {text}
    </div>
  );
}
