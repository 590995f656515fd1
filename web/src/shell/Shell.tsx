import { Outlet, useLocation } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { logout } from "../api/session";
import { useWhoami, useWhoamiQuery } from "../api/whoami";
import type { ScreenRoute } from "../routes";
import { baseOf, screens } from "../routes";
import { visibleText } from "../text/visible";
import { Button } from "../ui/Button";
import { setGatewayTime } from "../ui/clock";
import { Dialog } from "../ui/Dialog";
import { Menu, MenuItem, MenuLabel } from "../ui/Menu";
import { ErrorState, Loading, Notice } from "../ui/State";
import { cx } from "../ui/cx";
import { toMillis } from "../text/time";
import { useLiveState } from "../live/context";
import { Announcer } from "./announce";
import { Attention, NotifyItem } from "./Attention";
import { KeysHelp } from "./KeysHelp";
import { useKeys } from "./keys";
import { LiveMark } from "./LiveMark";
import { ScreenLink } from "./router";
import { UnresponsiveNotice } from "./UnresponsiveNotice";
import type { Theme } from "./theme";
import { setTheme, useTheme } from "./theme";

/** The frame around every screen: navigation, header and notices. */
export function Shell() {
  const me = useWhoamiQuery();
  const [isHelpOpen, setIsHelpOpen] = useState(false);
  const [isMenuOpen, setIsMenuOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  const { gateway } = useLiveState();
  useKeys([{ key: "?", description: "Keyboard shortcuts", run: () => setIsHelpOpen(true) }]);
  useEffect(() => {
    const now = toMillis(me.data?.now);
    if (now !== undefined) setGatewayTime(now);
  }, [me.data?.now]);
  // After navigation, move the focus to the content, for keyboards and screen readers.
  const before = useRef(pathname);
  useEffect(() => {
    if (before.current === pathname) return;
    before.current = pathname;
    main.current?.focus();
  }, [pathname]);
  return (
    <div className="flex h-dvh flex-col lg:flex-row">
      <a href="#main" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-page focus:p-2">
        Skip to content
      </a>
      <aside className="hidden w-56 shrink-0 flex-col gap-4 border-r border-line bg-panel p-3 lg:flex">
        <Brand />
        <Nav onGo={() => undefined} />
      </aside>
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <header className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-2">
          <div className="flex items-center gap-2 lg:hidden">
            <Button size="small" onClick={() => setIsMenuOpen(true)} aria-label="Screens">
              ☰
            </Button>
            <Brand />
          </div>
          <div className="ml-auto flex items-center gap-2">
            <LiveMark />
            <Account onHelp={() => setIsHelpOpen(true)} />
          </div>
        </header>
        {(gateway?.frozen ?? me.data?.frozen) === true && (
          <div className="px-3 pt-2">
            <Notice tone="bad">
              The gateway is frozen: no tool runs until an operator thaws it (<code>palyra thaw</code>).
            </Notice>
          </div>
        )}
        <UnresponsiveNotice />
        <main id="main" ref={main} tabIndex={-1} className="min-h-0 flex-1 overflow-y-auto outline-none">
          {me.data !== undefined ? (
            <Outlet />
          ) : me.isError ? (
            <div className="p-5">
              <ErrorState error={me.error} retry={() => void me.refetch()} />
            </div>
          ) : (
            <div className="p-5">
              <Loading what="your account" />
            </div>
          )}
        </main>
      </div>
      <Dialog open={isMenuOpen} onClose={() => setIsMenuOpen(false)} title="Screens">
        <Nav onGo={() => setIsMenuOpen(false)} />
      </Dialog>
      <KeysHelp open={isHelpOpen} onClose={() => setIsHelpOpen(false)} />
      <Attention />
      <Announcer />
    </div>
  );
}

function Brand() {
  const me = useWhoami();
  return (
    <div className="min-w-0">
      <div className="font-bold">Palyra</div>
      {me !== undefined && me.gatewayName !== "" && <div className="truncate text-sm text-quiet">{visibleText(me.gatewayName)}</div>}
    </div>
  );
}

/** Returns the screens that the caller may open, by group. */
export function navigation(permissions: readonly string[]): { group: string; screens: ScreenRoute[] }[] {
  const groups: { group: string; screens: ScreenRoute[] }[] = [];
  for (const screen of screens) {
    if (screen.nav === undefined || (screen.needs !== undefined && !permissions.includes(screen.needs))) continue;
    const group = groups.find((g) => g.group === screen.nav);
    if (group === undefined) groups.push({ group: screen.nav, screens: [screen] });
    else group.screens.push(screen);
  }
  return groups;
}

function Nav({ onGo }: { onGo: () => void }) {
  const me = useWhoami();
  const { pathname } = useLocation();
  // The current screen is the one with the longest matching path.
  const currentPath = screens
    .map((screen) => baseOf(screen.path))
    .filter((base) => pathname === base || pathname.startsWith(`${base}/`))
    .reduce((longest, base) => (base.length > longest.length ? base : longest), "");
  return (
    <nav aria-label="Screens" className="flex flex-col gap-3 overflow-y-auto">
      {navigation(me?.permissions ?? []).map(({ group, screens: list }) => (
        <div key={group}>
          <div className="px-2 pb-1 text-xs font-semibold text-quiet uppercase">{group}</div>
          <ul>
            {list.map((screen) => {
              const base = baseOf(screen.path);
              return (
                <li key={screen.path}>
                  <ScreenLink
                    to={base}
                    onClick={onGo}
                    {...(base === currentPath ? { "aria-current": "page" as const } : {})}
                    className={cx("flex min-h-8 items-center rounded-md px-2", base === currentPath ? "bg-accent font-semibold text-on-accent" : "hover:bg-sunk")}
                  >
                    {screen.label}
                  </ScreenLink>
                </li>
              );
            })}
          </ul>
        </div>
      ))}
    </nav>
  );
}

const themes: readonly [Theme, string][] = [
  ["system", "System theme"],
  ["light", "Light theme"],
  ["dark", "Dark theme"],
];

function Account({ onHelp }: { onHelp: () => void }) {
  const me = useWhoami();
  const selectedTheme = useTheme();
  return (
    <Menu
      button={
        <Button size="small" className="max-w-40">
          <span className="truncate">{me === undefined ? "…" : visibleText(me.principal)}</span>
        </Button>
      }
    >
      {me !== undefined && <MenuLabel>{me.roles.length === 0 ? "No role" : visibleText(me.roles.join(", "))}</MenuLabel>}
      {themes.map(([value, label]) => (
        <MenuItem key={value} onSelect={() => setTheme(value)}>
          <span aria-hidden className="w-4">
            {selectedTheme === value ? "✓" : ""}
          </span>
          {label}
          {selectedTheme === value && <span className="sr-only">(selected)</span>}
        </MenuItem>
      ))}
      <NotifyItem />
      <MenuItem onSelect={onHelp}>Keyboard shortcuts</MenuItem>
      <MenuItem onSelect={() => void logout()}>Log out</MenuItem>
    </Menu>
  );
}
