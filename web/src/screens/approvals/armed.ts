import { useEffect, useState } from "react";

/** The delay in milliseconds before a new or changed decision is armed. */
export const armingDelay = 400;

/**
 * Whether a decision may be taken: its subject, identified by the key, must have been visible
 * for armingDelay. Clicks and keys that were meant for something else then have no effect.
 */
export function useArmed(key: string): boolean {
  const [armedFor, setArmedFor] = useState<string | undefined>(undefined);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const arm = () => {
      clearTimeout(timer);
      setArmedFor(undefined);
      if (document.visibilityState === "visible") timer = setTimeout(() => setArmedFor(key), armingDelay);
    };
    arm();
    addEventListener("focus", arm);
    document.addEventListener("visibilitychange", arm);
    return () => {
      clearTimeout(timer);
      removeEventListener("focus", arm);
      document.removeEventListener("visibilitychange", arm);
    };
  }, [key]);
  return armedFor === key;
}
