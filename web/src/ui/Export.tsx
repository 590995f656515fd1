import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { announce } from "../shell/announce";
import { Button } from "./Button";
import { CopyAsCli } from "./Copy";
import { Dialog } from "./Dialog";
import { Select } from "./Field";
import { ErrorState } from "./State";
import type { ExportForm } from "./save";
import { exportForms, fileName, collect, save } from "./save";

/** A button that exports records in the formats of `palyra`. The journal records each export and its caller. */
export function Export({ noun, needs, description, command, read }: {
  /** The noun for the records, also the prefix of the file name: "journal". */
  noun: string;
  needs: string;
  /** The contents of the export. */
  description: string;
  command: (form: ExportForm) => string;
  read: (form: ExportForm, signal: AbortSignal) => AsyncIterable<{ data: Uint8Array }>;
}) {
  const [open, setOpen] = useState(false);
  const [form, setForm] = useState<ExportForm>("ndjson");
  const [bytes, setBytes] = useState(0);
  const abort = useRef<AbortController>(undefined);
  const exportFile = useMutation({
    mutationFn: async () => {
      abort.current = new AbortController();
      setBytes(0);
      const whole = await collect(read(form, abort.current.signal), setBytes);
      save(new Blob([whole], { type: exportForms[form].type }), fileName(noun, form, new Date()));
      announce(`The ${noun} is saved.`);
    },
  });
  const close = () => {
    abort.current?.abort();
    setOpen(false);
    exportFile.reset();
  };
  return (
    <>
      <Button size="small" needs={needs} onClick={() => setOpen(true)}>
        Export
      </Button>
      <Dialog open={open} onClose={close} title={`Export the ${noun}`}>
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (!exportFile.isPending) exportFile.mutate();
          }}
        >
          <p>{description}</p>
          <Select label="Format" value={form} options={Object.entries(exportForms).map(([value, { label }]) => ({ value, label }))} onChange={(event) => setForm(event.target.value as ExportForm)} />
          <div role="status">
            {exportFile.isPending && <p>{(bytes / 1e6).toFixed(1)} MB received…</p>}
            {exportFile.isSuccess && <p>{(bytes / 1e6).toFixed(1)} MB saved to the browser's download folder.</p>}
            {exportFile.isError && <ErrorState error={exportFile.error} />}
          </div>
          <div className="flex flex-wrap items-center justify-end gap-2">
            <span className="mr-auto">
              <CopyAsCli command={command(form)} />
            </span>
            <Button onClick={close}>{exportFile.isSuccess ? "Done" : "Cancel"}</Button>
            <Button type="submit" variant="primary" needs={needs} disabledReason={exportFile.isPending ? "In progress." : undefined}>
              Save file
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
