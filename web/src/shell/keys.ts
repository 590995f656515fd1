import { useEffect, useEffectEvent } from "react";

/** A key that does something while nothing is typed. */
export interface Key {
  /** As KeyboardEvent.key has it: "j", "/", "?". */
  key: string;
  /** What it does, for the help. */
  says: string;
  /** Absent where the part of the page that has the focus takes the key itself. */
  run?: () => void;
}

const active: Key[][] = [];
const setting = "palyra.keys";

/** Whether keys without a modifier act; people who dictate switch them off (WCAG 2.1.4). */
export function keysOn(): boolean {
  return localStorage.getItem(setting) !== "off";
}

export function setKeysOn(on: boolean): void {
  localStorage.setItem(setting, on ? "on" : "off");
}

/** What keys do here, the newest part of the page first. */
export function activeKeys(): Key[] {
  const seen = new Set<string>();
  return active
    .toReversed()
    .flat()
    .filter((k) => !seen.has(k.key) && seen.add(k.key));
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function inDialog(): boolean {
  return document.querySelector("[role=dialog],[role=alertdialog],[role=menu]") !== null;
}

let listening = false;

function listen(): void {
  if (listening) return;
  listening = true;
  addEventListener("keydown", (event) => {
    // A key that is held down, comes with a modifier, or from within a field or a dialog
    // is none of ours.
    if (event.repeat && event.key !== "j" && event.key !== "k") return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (!keysOn() || typing(event.target) || inDialog()) return;
    const key = activeKeys().find((k) => k.key === event.key);
    if (key?.run === undefined) return;
    event.preventDefault();
    key.run();
  });
}

/** Has keys act while the component is on screen. */
export function useKeys(keys: readonly Key[]): void {
  const run = useEffectEvent((key: string) => keys.find((k) => k.key === key)?.run?.());
  const names = keys.map((k) => `${k.key}\t${k.says}\t${k.run === undefined ? "" : "acts"}`).join("\n");
  useEffect(() => {
    listen();
    const mine = names
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => {
        const [key = "", says = "", acts] = line.split("\t");
        return acts === "" ? { key, says } : { key, says, run: () => run(key) };
      });
    active.push(mine);
    return () => {
      active.splice(active.indexOf(mine), 1);
    };
  }, [names]);
}

