import type { ReactNode } from "react";
import { CopyAsCli } from "../ui/Copy";
import { useTitle } from "./title";

/** The frame of every screen: title, actions, equivalent CLI command and content. */
export function Screen({ title, command, actions, fill, children }: {
  title: string;
  /** The equivalent CLI command. */
  command?: string;
  actions?: ReactNode;
  /** Whether the content fills the height and scrolls by itself, like a long table. */
  fill?: boolean;
  children: ReactNode;
}) {
  useTitle(title);
  return (
    <div className={`mx-auto flex w-full max-w-7xl flex-col gap-4 p-3 sm:p-5 ${fill === true ? "h-full min-h-96" : ""}`}>
      <header className="flex flex-wrap items-center justify-between gap-2">
        <h1 className="min-w-0 text-xl font-semibold break-words">{title}</h1>
        <div className="flex flex-wrap items-center gap-2">
          {actions}
          {command !== undefined && <CopyAsCli command={command} />}
        </div>
      </header>
      {children}
    </div>
  );
}

/** A part of a screen with a heading. */
export function Section({ title, children, actions }: { title: string; children: ReactNode; actions?: ReactNode }) {
  return (
    <section className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h2 className="font-semibold">{title}</h2>
        {actions !== undefined && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </div>
      {children}
    </section>
  );
}
