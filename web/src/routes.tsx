// The one table of screens: the router, the navigation and the help are made from it.
import type { ComponentType } from "react";

export interface ScreenRoute {
  /** "/runs/$id": what begins with $ is read with useParam; {-$id} may be absent. */
  path: string;
  label: string;
  /** The permission without which the screen shows nothing; the navigation leaves it out. */
  needs?: string;
  /** The group of the navigation; absent for screens that others lead to. */
  nav?: "Decide" | "Work" | "Rules" | "Record" | "People and keys" | "Gateway";
  /** The screen, loaded when it is gone to: its module's default export. */
  load: () => Promise<{ default: ComponentType }>;
}

export const screens: readonly ScreenRoute[] = [
  // The list stays where it is while an ask of it is open.
  { path: "/approvals/{-$id}", label: "Approvals", needs: "approval.read", nav: "Decide", load: () => import("./screens/approvals/Approvals") },
];

/** Where the navigation leads for a screen: its path without parameters. */
export function baseOf(path: string): string {
  return path.replace(/\/(?:\{-)?\$.*$/, "");
}

/** Whether there is a screen that begins so: "/runs". What is not built is not linked to. */
export function hasScreen(base: string): boolean {
  return screens.some((screen) => baseOf(screen.path) === base);
}
