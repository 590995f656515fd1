import type { ReactNode } from "react";
import { Suspense, lazy } from "react";
import type { QueryClient } from "@tanstack/react-query";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider, createRootRoute, createRoute, createRouter, redirect } from "@tanstack/react-router";
import { useCan } from "./api/whoami";
import type { Connection } from "./live/connection";
import { LiveContext } from "./live/context";
import type { ScreenRoute } from "./routes";
import { screens } from "./routes";
import { parseSearch, stringifySearch, ScreenLink } from "./shell/router";
import { Shell } from "./shell/Shell";
import { EmptyState, ErrorState, Loading } from "./ui/State";

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <div className="p-5">
      <EmptyState title="Page not found">
        <ScreenLink to="/approvals" className="text-accent underline">
          Go to the approvals
        </ScreenLink>
      </EmptyState>
    </div>
  ),
});

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- the router's API for redirects
    throw redirect({ to: "/approvals", replace: true });
  },
});

function screenRoute(screen: ScreenRoute) {
  const Content = lazy(screen.load);
  return createRoute({
    getParentRoute: () => root,
    path: screen.path,
    component: () => (
      <RequirePermission screen={screen}>
        <Suspense
          fallback={
            <div className="p-5">
              <Loading what={screen.label.toLowerCase()} />
            </div>
          }
        >
          <Content />
        </Suspense>
      </RequirePermission>
    ),
    errorComponent: ({ error, reset }) => (
      <div className="p-5">
        <ErrorState error={error} retry={reset} />
      </div>
    ),
  });
}

function RequirePermission({ screen, children }: { screen: ScreenRoute; children: ReactNode }) {
  const can = useCan(screen.needs);
  if (can) return children;
  return (
    <div className="p-5">
      <EmptyState title={`${screen.label}: you lack the permission ${screen.needs ?? ""}`}>Ask an owner or admin for a role that includes it.</EmptyState>
    </div>
  );
}

const router = createRouter({
  routeTree: root.addChildren([home, ...screens.map(screenRoute)]),
  parseSearch,
  stringifySearch,
});

export function App({ queries, live }: { queries: QueryClient; live: Connection }) {
  return (
    <QueryClientProvider client={queries}>
      <LiveContext value={live}>
        <RouterProvider router={router} />
      </LiveContext>
    </QueryClientProvider>
  );
}
