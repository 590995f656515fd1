import { useEffect, useSyncExternalStore } from "react";

let count = 0;
let name = "";

function write(): void {
  document.title = `${count > 0 ? `(${count}) ` : ""}${name === "" ? "" : `${name} · `}Palyra`;
}

/** The screen's name in the title of the tab. */
export function useTitle(screen: string): void {
  useEffect(() => {
    name = screen;
    write();
  }, [screen]);
}

/** How many asks wait, in the title of the tab. */
export function setBadge(waiting: number): void {
  count = waiting;
  write();
}

/** Whether the page is looked at. */
export function useVisible(): boolean {
  return useSyncExternalStore(
    (changed) => {
      document.addEventListener("visibilitychange", changed);
      return () => document.removeEventListener("visibilitychange", changed);
    },
    () => document.visibilityState === "visible",
  );
}
