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
  { path: "/grants", label: "Grants", needs: "grant.read", nav: "Decide", load: () => import("./screens/grants/Grants") },
  { path: "/runs/{-$id}", label: "Runs", needs: "run.read", nav: "Work", load: () => import("./screens/runs/Runs") },
  { path: "/calls/{-$id}", label: "Calls", needs: "run.read", nav: "Work", load: () => import("./screens/calls/Calls") },
  { path: "/changes/{-$id}", label: "Changes", needs: "workspace.read", nav: "Work", load: () => import("./screens/changes/Changes") },
  { path: "/policies", label: "Policies", needs: "policy.read", nav: "Rules", load: () => import("./screens/policies/Policies") },
  { path: "/tools/{-$name}", label: "Tools", needs: "tool.list", nav: "Rules", load: () => import("./screens/tools/Tools") },
  { path: "/servers/{-$name}", label: "MCP servers", needs: "upstream.read", nav: "Rules", load: () => import("./screens/servers/Servers") },
  { path: "/skills/{-$name}", label: "Skills", needs: "skill.read", nav: "Rules", load: () => import("./screens/skills/Skills") },
  { path: "/journal/{-$seq}", label: "Journal", needs: "journal.read", nav: "Record", load: () => import("./screens/journal/Journal") },
  { path: "/journal/verify", label: "Verify the journal", needs: "journal.export", nav: "Record", load: () => import("./screens/journal/verify/VerifyPanel") },
  { path: "/members/{-$member}", label: "Members", needs: "access.read", nav: "People and keys", load: () => import("./screens/members/Members") },
  { path: "/devices/{-$id}", label: "Devices", needs: "access.read", nav: "People and keys", load: () => import("./screens/devices/Devices") },
  { path: "/passkeys", label: "Passkeys", needs: "daemon.status", nav: "People and keys", load: () => import("./screens/passkeys/Passkeys") },
  { path: "/pairing", label: "Pairing", needs: "device.pair", nav: "People and keys", load: () => import("./screens/devices/Pairings") },
  { path: "/tokens", label: "API tokens", needs: "token.read", nav: "People and keys", load: () => import("./screens/tokens/Tokens") },
  { path: "/vault/{-$ref}", label: "Vault", needs: "vault.list", nav: "People and keys", load: () => import("./screens/vault/Vault") },
  { path: "/sessions/{-$id}", label: "Sessions", needs: "run.read", nav: "People and keys", load: () => import("./screens/sessions/Sessions") },
  { path: "/access", label: "Access", needs: "daemon.status", nav: "People and keys", load: () => import("./screens/access/Access") },
  { path: "/notifications", label: "Notifications", needs: "notify.read", nav: "Gateway", load: () => import("./screens/notifications/Notifications") },
  { path: "/settings", label: "Settings", needs: "config.read", nav: "Gateway", load: () => import("./screens/settings/Settings") },
  { path: "/health", label: "Health", needs: "daemon.status", nav: "Gateway", load: () => import("./screens/health/Health") },
];

/** Where the navigation leads for a screen: its path without parameters. */
export function baseOf(path: string): string {
  return path.replace(/\/(?:\{-)?\$.*$/, "");
}

/** Whether there is a screen that begins so: "/runs". What is not built is not linked to. */
export function hasScreen(base: string): boolean {
  return screens.some((screen) => baseOf(screen.path) === base);
}
