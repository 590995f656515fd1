import { useEffect, useState } from "react";

/** How long a decision is not taken after its button appeared or what it decides changed, in milliseconds. */
export const armingDelay = 400;

/**
 * Whether a decision may be taken: not before what is decided (by its key) has been on
 * screen for a moment, in a window that is looked at. So no click that was meant for
 * something else, and no key that was pressed before, decides.
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
