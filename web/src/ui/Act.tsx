import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useState } from "react";
import { announce } from "../shell/announce";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { TextArea } from "./Field";
import { ErrorState } from "./State";

/**
 * A button whose act is asked about first. The dialog stays until the gateway has said
 * what became of it, and shows its error; a yes makes the queries of the keys out of date.
 */
export function Act({ label, title, does, said, look = "plain", needs, off, reason, keys, run, children }: {
  label: string;
  /** The question, as the dialog's title. */
  title: string;
  /** The button that does it, in a verb and what it is done to. */
  does: string;
  /** What is said aloud once it is done. */
  said: string;
  look?: "plain" | "bad";
  needs?: string;
  off?: string | undefined;
  /** Asks for a reason, under this label. */
  reason?: string;
  /** The beginnings of the queries that the act makes out of date. */
  keys: readonly string[];
  run: (reason: string) => Promise<unknown>;
  /** What the act means, and what cannot be undone. */
  children?: ReactNode;
}) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const queries = useQueryClient();
  const act = useMutation({
    mutationFn: () => run(text.trim()),
    onSuccess: async () => {
      await Promise.all(keys.map((key) => queries.invalidateQueries({ queryKey: [key] })));
      announce(said);
      close();
    },
  });
  const close = () => {
    setOpen(false);
    setText("");
    act.reset();
  };
  return (
    <>
      <Button size="small" look={look} {...(needs === undefined ? {} : { needs })} off={off} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Dialog open={open} onClose={close} title={title}>
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (!act.isPending) act.mutate();
          }}
        >
          {children}
          {reason !== undefined && <TextArea label={reason} rows={2} maxLength={500} value={text} onChange={(event) => setText(event.target.value)} />}
          {act.isError && <ErrorState error={act.error} />}
          <div className="flex flex-wrap justify-end gap-2">
            <Button onClick={close}>Leave it</Button>
            <Button type="submit" look={look === "bad" ? "bad" : "primary"} off={act.isPending ? "On its way." : undefined}>
              {does}
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
