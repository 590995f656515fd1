import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { Passkey } from "../../gen/palyra/v1/presence_pb";
import { PresenceService } from "../../gen/palyra/v1/presence_pb";
import { ms } from "../../text/time";

/** The passkeys of the caller; with everybody, of all members (which takes access.read). */
export function usePasskeys(everybody = false, enabled = true) {
  return useQuery({
    queryKey: ["passkeys", everybody ? "all" : "own"],
    queryFn: async ({ signal }) => (await client(PresenceService).listPasskeys({ member: everybody ? "*" : "" }, { signal })).passkeys,
    enabled,
  });
}

const week = 7 * 86_400_000;

/** Those that were enrolled in the last 7 days, the newest first: people look whether they know them. */
export function recent(passkeys: readonly Passkey[], now: number): Passkey[] {
  return passkeys.filter((p) => (ms(p.enrolledAt) ?? 0) > now - week).sort((a, b) => (ms(b.enrolledAt) ?? 0) - (ms(a.enrolledAt) ?? 0));
}

/** What stands for a passkey in a command of palyrad. */
export function confirmCommand(passkeyId: string): string {
  return `palyrad presence passkey confirm ${passkeyId}`;
}

/** What a name has to be; the gateway says so, too. */
export const goodName = /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$/;
