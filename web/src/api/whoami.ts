import { useQuery } from "@tanstack/react-query";
import type { WhoamiResponse } from "../gen/palyra/v1/console_pb";
import { ConsoleService } from "../gen/palyra/v1/console_pb";
import { client } from "./transport";

export const whoamiKey = ["whoami"] as const;

/** Who the gateway takes this session for; undefined until it has answered. */
export function useWhoami(): WhoamiResponse | undefined {
  return useWhoamiQuery().data;
}

export function useWhoamiQuery() {
  return useQuery({
    queryKey: whoamiKey,
    queryFn: ({ signal }) => client(ConsoleService).whoami({}, { signal }),
    staleTime: 60_000,
  });
}

/** Whether policy gives the caller a permission here. The gateway decides anew at each request. */
export function useCan(permission: string | undefined): boolean {
  const me = useWhoami();
  return permission === undefined || (me?.permissions.includes(permission) ?? false);
}

/** Whether this gateway has something: "models", "presence", "oidc". */
export function useFeature(name: string): boolean {
  return useWhoami()?.features.includes(name) ?? false;
}
