import { QueryClient } from "@tanstack/react-query";
import { failure, sessionOver } from "./errors";

/**
 * The cache of what the gateway said. The live layer says what is out of date, so nothing
 * is asked for again by a timer or because a window got the focus.
 */
export function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 30_000,
        refetchOnWindowFocus: false,
        retry: (count, thrown) => count < 2 && !sessionOver(thrown) && failure(thrown).transient,
        retryDelay: (count) => 300 * 2 ** count,
      },
      mutations: { retry: false },
    },
  });
}
