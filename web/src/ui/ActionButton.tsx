import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useState } from "react";
import { announce } from "../shell/announce";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { TextArea } from "./Field";
import { ErrorState } from "./State";

/**
 * A button that asks for confirmation. The dialog stays open until the gateway responds and
 * displays its error; success invalidates the queries of the keys.
 */
export function ActionButton({ label, title, confirmLabel, announcement, variant = "plain", needs, disabledReason, reason, keys, run, children }: {
  label: string;
  /** The question, as the dialog's title. */
  title: string;
  /** The label of the button that confirms: a verb and its object. */
  confirmLabel: string;
  /** The announcement for screen readers after success. */
  announcement: string;
  variant?: "plain" | "bad";
  needs?: string;
  disabledReason?: string | undefined;
  /** The label of a field for a reason; without it there is no field. */
  reason?: string;
  /** The first elements of the query keys that success invalidates. */
  keys: readonly string[];
  run: (reason: string) => Promise<unknown>;
  /** The consequences of the action, and any that are irreversible. */
  children?: ReactNode;
}) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const queries = useQueryClient();
  const action = useMutation({
    mutationFn: () => run(text.trim()),
    onSuccess: async () => {
      await Promise.all(keys.map((key) => queries.invalidateQueries({ queryKey: [key] })));
      announce(announcement);
      close();
    },
  });
  const close = () => {
    setOpen(false);
    setText("");
    action.reset();
  };
  return (
    <>
      <Button size="small" variant={variant} {...(needs === undefined ? {} : { needs })} disabledReason={disabledReason} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Dialog open={open} onClose={close} title={title}>
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (!action.isPending) action.mutate();
          }}
        >
          {children}
          {reason !== undefined && <TextArea label={reason} rows={2} maxLength={500} value={text} onChange={(event) => setText(event.target.value)} />}
          {action.isError && <ErrorState error={action.error} />}
          <div className="flex flex-wrap justify-end gap-2">
            <Button onClick={close}>Dismiss</Button>
            <Button type="submit" variant={variant === "bad" ? "bad" : "primary"} disabledReason={action.isPending ? "In progress." : undefined}>
              {confirmLabel}
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
