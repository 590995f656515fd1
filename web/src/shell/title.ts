import { useEffect, useSyncExternalStore } from "react";

let count = 0;
let name = "";

function write(): void {
  document.title = `${count > 0 ? `(${count}) ` : ""}${name === "" ? "" : `${name} · `}Palyra`;
}

/** Sets the screen's name in the title of the tab. */
export function useTitle(screen: string): void {
  useEffect(() => {
    name = screen;
    write();
  }, [screen]);
}

/** Sets the number of pending approvals in the title of the tab. */
export function setBadge(waiting: number): void {
  count = waiting;
  write();
}

/** Whether the page is visible. */
export function useVisible(): boolean {
  return useSyncExternalStore(
    (changed) => {
      document.addEventListener("visibilitychange", changed);
      return () => document.removeEventListener("visibilitychange", changed);
    },
    () => document.visibilityState === "visible",
  );
}
