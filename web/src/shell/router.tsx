// The router's API for screens. Screens build addresses as plain strings.
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import type { ComponentProps, ReactNode } from "react";

/** A link to a screen: "/approvals/01J…?q=…". */
export function ScreenLink({ to, children, ...rest }: { to: string; children: ReactNode } & Omit<ComponentProps<typeof Link>, "to" | "search" | "children">) {
  const { path, search } = split(to);
  return (
    <Link to={path} search={search as never} {...rest}>
      {children}
    </Link>
  );
}

/** Returns a function that navigates to a screen. */
export function useGo(): (to: string, how?: { replace?: boolean }) => void {
  const navigate = useNavigate();
  return (to, how) => {
    const { path, search } = split(to);
    void navigate({ to: path, search, replace: how?.replace ?? false });
  };
}

/** Returns a path parameter: "id" of "/approvals/$id". */
export function useParam(name: string): string {
  const params: Record<string, string | undefined> = useParams({ strict: false });
  return params[name] ?? "";
}

/** Returns a query parameter and its setter. The default value is omitted from the address. */
export function useQueryParam(name: string, byDefault = ""): [string, (value: string) => void] {
  const search: Record<string, unknown> = useSearch({ strict: false });
  const navigate = useNavigate();
  const value = search[name];
  const set = (next: string) => {
    void navigate({
      to: ".",
      search: (old: Record<string, unknown>) => ({ ...old, [name]: next === byDefault ? undefined : next }),
      replace: true,
    });
  };
  return [typeof value === "string" ? value : byDefault, set];
}

function split(to: string): { path: string; search: Record<string, string> } {
  const url = new URL(to, location.origin);
  return { path: url.pathname, search: Object.fromEntries(url.searchParams) };
}

/** Parses search parameters as plain strings, never as JSON. */
export function parseSearch(text: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (typeof value === "string") params.set(name, value);
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}
