import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";
import { useId } from "react";
import { useCan } from "../api/whoami";
import { cx } from "./cx";

type Look = "plain" | "primary" | "good" | "bad" | "bare";

const looks: Record<Look, string> = {
  plain: "border border-edge bg-page text-ink hover:bg-sunk",
  primary: "border border-transparent bg-accent text-on-accent hover:opacity-90",
  good: "border border-transparent bg-good text-page hover:opacity-90",
  bad: "border border-transparent bg-bad text-on-bad hover:opacity-90",
  bare: "border border-transparent text-ink hover:bg-sunk",
};

export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  look?: Look;
  size?: "small" | "normal";
  /** The permission that the act takes. Without it the button is off and says so. */
  needs?: string;
  /** Why the button is off; it stays reachable by keyboard, so that the reason can be read. */
  off?: string | undefined;
  children: ReactNode;
  ref?: Ref<HTMLButtonElement>;
}

export function Button({ look = "plain", size = "normal", needs, off, className, onClick, children, ...rest }: ButtonProps) {
  const can = useCan(needs);
  const id = useId();
  const why = can ? off : `You lack the permission ${needs ?? ""}.`;
  return (
    <>
      <button
        type="button"
        {...rest}
        aria-disabled={why !== undefined || undefined}
        aria-describedby={why === undefined ? rest["aria-describedby"] : id}
        title={why ?? rest.title}
        onClick={(event) => {
          if (why !== undefined) event.preventDefault();
          else onClick?.(event);
        }}
        className={cx(
          "inline-flex min-h-7 items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-colors",
          size === "small" ? "px-2 py-0.5 text-sm" : "px-3.5 py-1.5",
          why === undefined ? looks[look] : "cursor-not-allowed border border-line bg-sunk text-quiet",
          className,
        )}
      >
        {children}
      </button>
      {why !== undefined && (
        <span id={id} hidden>
          {why}
        </span>
      )}
    </>
  );
}
