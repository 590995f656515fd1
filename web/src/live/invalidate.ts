import type { QueryClient } from "@tanstack/react-query";
import type { Connection } from "./connection";
import type { LiveEvent } from "./events";

/**
 * Returns the query keys that an event invalidates. A screen whose query keys start with these
 * words is live: ["run", id], ["runs", ...].
 */
export function invalidatedKeys(event: LiveEvent): readonly (readonly string[])[] {
  const run = event.run === "" ? [] : [["run", event.run]];
  switch (event.kind) {
    case "approval":
      return [["approval", event.id], ["waiting"]];
    case "grant":
      return [["grants"], ["grant", event.id]];
    case "run":
      return [["runs"], ["run", event.id], ...run];
    case "call":
      return [["calls"], ["call", event.id], ...run];
    case "session":
      return [["sessions"]];
    case "secret":
      return [["secrets"], ["secret", event.id]];
    case "member":
      return [["members"], ["devices"], ["passkeys"], ["tokens"], ["whoami"]];
    case "policy":
      return [["policies"], ["policy"], ["whoami"]];
    case "gateway":
      return [["status"], ["settings"], ["whoami"]];
    case "upstream":
      return [["upstreams"], ["tools"]];
    case "skill":
      return [["skills"], ["publishers"], ["tools"]];
    case "install":
      return [["installs"]];
    case "journal":
      return [["journal"]];
    case "status":
      return [["status"], ["waiting"]];
    case "reset":
      return [[]];
    case "heartbeat":
    case "other":
      return [];
  }
}

// Batches the invalidations of a busy gateway, so that one request serves many events.
const batchDelay = 200;

/**
 * Invalidates cached queries by the events of the stream. Failed queries are fetched again
 * when the connection returns, because no event announces them.
 */
export function followQueries(live: Pick<Connection, "subscribe" | "watch" | "state">, queries: QueryClient): () => void {
  const keys = new Map<string, readonly string[]>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    timer = undefined;
    for (const key of keys.values()) void queries.invalidateQueries({ queryKey: key });
    keys.clear();
  };
  const stop = live.subscribe((event) => {
    for (const key of invalidatedKeys(event)) {
      // Approvals are refetched immediately, because a user may be deciding them.
      if (key[0] === "approval" || event.kind === "reset") void queries.invalidateQueries({ queryKey: key });
      else keys.set(key.join("/"), key);
    }
    if (keys.size > 0) timer ??= setTimeout(flush, batchDelay);
  });
  let { mark } = live.state();
  const unwatch = live.watch(() => {
    const before = mark;
    ({ mark } = live.state());
    if (mark !== "live" || before === "live") return;
    for (const { queryKey } of queries.getQueryCache().findAll({ predicate: ({ state }) => state.status === "error" || state.fetchFailureCount > 0 })) {
      void queries.cancelQueries({ queryKey, exact: true }); // its last attempt may be about to fail
      void queries.invalidateQueries({ queryKey, exact: true });
    }
  });
  return () => {
    stop();
    unwatch();
    clearTimeout(timer);
  };
}
