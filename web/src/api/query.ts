import { QueryClient } from "@tanstack/react-query";
import { failure, isSessionEnded } from "./errors";

/**
 * The cache of the gateway's responses. The live layer invalidates it, so queries are not
 * refetched by a timer or when the window gets the focus.
 */
export function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 30_000,
        refetchOnWindowFocus: false,
        retry: (count, thrown) => count < 2 && !isSessionEnded(thrown) && failure(thrown).transient,
        retryDelay: (count) => 300 * 2 ** count,
      },
      mutations: { retry: false },
    },
  });
}
