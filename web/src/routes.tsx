// The table of screens. The router, the navigation and the help are built from it.
import type { ComponentType } from "react";

export interface ScreenRoute {
  /** "/runs/$id": read a $ parameter with useParam; {-$id} is optional. */
  path: string;
  label: string;
  /** The permission that the screen requires; the navigation omits the screen without it. */
  needs?: string;
  /** The group in the navigation; absent for screens that only other screens link to. */
  nav?: "Decide" | "Work" | "Rules" | "Record" | "People and keys" | "Gateway";
  /** Loads the module of the screen on first use; its default export is the component. */
  load: () => Promise<{ default: ComponentType }>;
}

export const screens: readonly ScreenRoute[] = [
  // One route for the list and the detail, so that the list keeps its scroll position.
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

/** Returns the path of a screen without its parameters: the target of the navigation. */
export function baseOf(path: string): string {
  return path.replace(/\/(?:\{-)?\$.*$/, "");
}
