import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const key = "palyra.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const watchers = new Set<() => void>();

export function theme(): Theme {
  const kept = localStorage.getItem(key);
  return kept === "light" || kept === "dark" ? kept : "system";
}

function apply(): void {
  const chosen = theme();
  document.documentElement.dataset.theme = chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
  for (const changed of [...watchers]) changed();
}

export function setTheme(chosen: Theme): void {
  localStorage.setItem(key, chosen);
  apply();
}

/** Sets the theme before anything is drawn, and keeps to it. */
export function startTheme(): void {
  system.addEventListener("change", apply);
  addEventListener("storage", (event) => {
    if (event.key === key) apply();
  });
  apply();
}

export function useTheme(): Theme {
  return useSyncExternalStore((changed) => {
    watchers.add(changed);
    return () => watchers.delete(changed);
  }, theme);
}
