import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const key = "palyra.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const watchers = new Set<() => void>();

export function theme(): Theme {
  const stored = localStorage.getItem(key);
  return stored === "light" || stored === "dark" ? stored : "system";
}

function apply(): void {
  const selected = theme();
  document.documentElement.dataset.theme = selected === "system" ? (system.matches ? "dark" : "light") : selected;
  for (const changed of [...watchers]) changed();
}

export function setTheme(chosen: Theme): void {
  localStorage.setItem(key, chosen);
  apply();
}

/** Applies the theme before the first render, and follows changes of it. */
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
