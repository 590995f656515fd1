import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { Passkey } from "../../gen/palyra/v1/presence_pb";
import { PresenceService } from "../../gen/palyra/v1/presence_pb";
import { toMillis } from "../../text/time";

/** Queries the passkeys of the caller, or of all members, which requires access.read. */
export function usePasskeys(allMembers = false, enabled = true) {
  return useQuery({
    queryKey: ["passkeys", allMembers ? "all" : "own"],
    queryFn: async ({ signal }) => (await client(PresenceService).listPasskeys({ member: allMembers ? "*" : "" }, { signal })).passkeys,
    enabled,
  });
}

const week = 7 * 86_400_000;

/** Returns the passkeys enrolled in the last 7 days, newest first. */
export function recent(passkeys: readonly Passkey[], now: number): Passkey[] {
  return passkeys.filter((p) => (toMillis(p.enrolledAt) ?? 0) > now - week).sort((a, b) => (toMillis(b.enrolledAt) ?? 0) - (toMillis(a.enrolledAt) ?? 0));
}

/** Returns the command that confirms a passkey on the gateway's host. */
export function confirmCommand(passkeyId: string): string {
  return `palyrad presence passkey confirm ${passkeyId}`;
}

/** The format of names, as in the gateway. */
export const namePattern = /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$/;
