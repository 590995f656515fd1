import { useEffect, useEffectEvent } from "react";

/** A keyboard shortcut, active outside of text fields. */
export interface Key {
  /** The value of KeyboardEvent.key: "j", "/", "?". */
  key: string;
  /** The description for the help. */
  description: string;
  /** Absent if the focused component handles the key itself. */
  run?: () => void;
}

const active: Key[][] = [];
const setting = "palyra.keys";

/** Whether single-key shortcuts are enabled; users of speech input disable them (WCAG 2.1.4). */
export function areKeysEnabled(): boolean {
  return localStorage.getItem(setting) !== "off";
}

export function setKeysEnabled(on: boolean): void {
  localStorage.setItem(setting, on ? "on" : "off");
}

/** Returns the active shortcuts, those of the newest component first. */
export function activeKeys(): Key[] {
  const seen = new Set<string>();
  return active
    .toReversed()
    .flat()
    .filter((k) => !seen.has(k.key) && seen.add(k.key));
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function isDialogOpen(): boolean {
  return document.querySelector("[role=dialog],[role=alertdialog],[role=menu]") !== null;
}

let isListening = false;

function listen(): void {
  if (isListening) return;
  isListening = true;
  addEventListener("keydown", (event) => {
    // Ignore repeated keys, keys with a modifier, and keys in a field or a dialog.
    if (event.repeat && event.key !== "j" && event.key !== "k") return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (!areKeysEnabled() || isTyping(event.target) || isDialogOpen()) return;
    const key = activeKeys().find((k) => k.key === event.key);
    if (key?.run === undefined) return;
    event.preventDefault();
    key.run();
  });
}

/** Activates shortcuts while the component is mounted. */
export function useKeys(keys: readonly Key[]): void {
  const run = useEffectEvent((key: string) => keys.find((k) => k.key === key)?.run?.());
  const names = keys.map((k) => `${k.key}\t${k.description}\t${k.run === undefined ? "" : "acts"}`).join("\n");
  useEffect(() => {
    listen();
    const mine = names
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => {
        const [key = "", description = "", acts] = line.split("\t");
        return acts === "" ? { key, description } : { key, description, run: () => run(key) };
      });
    active.push(mine);
    return () => {
      active.splice(active.indexOf(mine), 1);
    };
  }, [names]);
}

