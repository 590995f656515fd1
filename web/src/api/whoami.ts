import { useQuery } from "@tanstack/react-query";
import type { WhoamiResponse } from "../gen/palyra/v1/console_pb";
import { ConsoleService } from "../gen/palyra/v1/console_pb";
import { client } from "./transport";

export const whoamiKey = ["whoami"] as const;

/** Returns the member of this session; undefined until the gateway has responded. */
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

/** Whether the caller has a permission. The gateway decides again for each request. */
export function useCan(permission: string | undefined): boolean {
  const me = useWhoami();
  return permission === undefined || (me?.permissions.includes(permission) ?? false);
}

/** Whether this gateway has a feature: "models", "presence", "oidc". */
export function useFeature(name: string): boolean {
  return useWhoami()?.features.includes(name) ?? false;
}
