import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";
import { useId } from "react";
import { useCan } from "../api/whoami";
import { cx } from "./cx";

type ButtonVariant = "plain" | "primary" | "good" | "bad" | "bare";

const variantClasses: Record<ButtonVariant, string> = {
  plain: "border border-edge bg-page text-ink hover:bg-sunk",
  primary: "border border-transparent bg-accent text-on-accent hover:opacity-90",
  good: "border border-transparent bg-good text-page hover:opacity-90",
  bad: "border border-transparent bg-bad text-on-bad hover:opacity-90",
  bare: "border border-transparent text-ink hover:bg-sunk",
};

export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  variant?: ButtonVariant;
  size?: "small" | "normal";
  /** The permission that the action requires. Without it the button is disabled and names it. */
  needs?: string;
  /** The reason why the button is disabled. It stays focusable, so that the reason can be read. */
  disabledReason?: string | undefined;
  children: ReactNode;
  ref?: Ref<HTMLButtonElement>;
}

export function Button({ variant = "plain", size = "normal", needs, disabledReason, className, onClick, children, ...rest }: ButtonProps) {
  const can = useCan(needs);
  const id = useId();
  const unavailable = can ? disabledReason : `You lack the permission ${needs ?? ""}.`;
  return (
    <>
      <button
        type="button"
        {...rest}
        aria-disabled={unavailable !== undefined || undefined}
        aria-describedby={unavailable === undefined ? rest["aria-describedby"] : id}
        title={unavailable ?? rest.title}
        onClick={(event) => {
          if (unavailable !== undefined) event.preventDefault();
          else onClick?.(event);
        }}
        className={cx(
          "inline-flex min-h-7 items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-colors",
          size === "small" ? "px-2 py-0.5 text-sm" : "px-3.5 py-1.5",
          unavailable === undefined ? variantClasses[variant] : "cursor-not-allowed border border-line bg-sunk text-quiet",
          className,
        )}
      >
        {children}
      </button>
      {unavailable !== undefined && (
        <span id={id} hidden>
          {unavailable}
        </span>
      )}
    </>
  );
}
