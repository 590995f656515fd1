import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { announce } from "../shell/announce";
import { Button } from "./Button";
import { CopyAsCli } from "./Copy";
import { Dialog } from "./Dialog";
import { Select } from "./Field";
import { ErrorState } from "./State";
import type { ExportForm } from "./save";
import { exportForms, fileName, gathered, save } from "./save";

/** A button that takes a copy of records, in the forms that `palyra` writes. Who took it is in the journal. */
export function Export({ what, needs, says, command, read }: {
  /** What is exported, which is also the beginning of the file's name: "journal". */
  what: string;
  needs: string;
  /** What is in the copy. */
  says: string;
  command: (form: ExportForm) => string;
  read: (form: ExportForm, signal: AbortSignal) => AsyncIterable<{ data: Uint8Array }>;
}) {
  const [open, setOpen] = useState(false);
  const [form, setForm] = useState<ExportForm>("ndjson");
  const [bytes, setBytes] = useState(0);
  const abort = useRef<AbortController>(undefined);
  const copy = useMutation({
    mutationFn: async () => {
      abort.current = new AbortController();
      setBytes(0);
      const whole = await gathered(read(form, abort.current.signal), setBytes);
      save(new Blob([whole], { type: exportForms[form].type }), fileName(what, form, new Date()));
      announce(`The ${what} is saved.`);
    },
  });
  const close = () => {
    abort.current?.abort();
    setOpen(false);
    copy.reset();
  };
  return (
    <>
      <Button size="small" needs={needs} onClick={() => setOpen(true)}>
        Export
      </Button>
      <Dialog open={open} onClose={close} title={`Export the ${what}`}>
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (!copy.isPending) copy.mutate();
          }}
        >
          <p>{says}</p>
          <Select label="As" value={form} options={Object.entries(exportForms).map(([value, { label }]) => ({ value, label }))} onChange={(event) => setForm(event.target.value as ExportForm)} />
          <div role="status">
            {copy.isPending && <p>{(bytes / 1e6).toFixed(1)} MB so far…</p>}
            {copy.isSuccess && <p>{(bytes / 1e6).toFixed(1)} MB are saved where this browser puts downloads.</p>}
            {copy.isError && <ErrorState error={copy.error} />}
          </div>
          <div className="flex flex-wrap items-center justify-end gap-2">
            <span className="mr-auto">
              <CopyAsCli command={command(form)} />
            </span>
            <Button onClick={close}>{copy.isSuccess ? "Done" : "Leave it"}</Button>
            <Button type="submit" look="primary" needs={needs} off={copy.isPending ? "It is on its way." : undefined}>
              Save the file
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
