// Saving exports as files.
import { ExportFormat } from "../gen/palyra/v1/approvals_pb";

export type ExportForm = "ndjson" | "json" | "csv";

/** The export formats with their labels, media types and API values. */
export const exportForms: Readonly<Record<ExportForm, { label: string; type: string; format: ExportFormat }>> = {
  ndjson: { label: "NDJSON: one record per line, for programs", type: "application/x-ndjson", format: ExportFormat.NDJSON },
  json: { label: "JSON: one document", type: "application/json", format: ExportFormat.JSON },
  csv: { label: "CSV: for spreadsheets", type: "text/csv", format: ExportFormat.CSV },
};

const flushSize = 8 << 20;

/** Joins the parts of a stream to one blob, which the browser can move to disk. onProgress receives the number of bytes. */
export async function collect(parts: AsyncIterable<{ data: Uint8Array }>, onProgress: (bytes: number) => void): Promise<Blob> {
  let whole = new Blob();
  let pending: BlobPart[] = [];
  let size = 0;
  let bytes = 0;
  const flush = () => {
    whole = new Blob([whole, ...pending]);
    pending = [];
    size = 0;
    onProgress(bytes);
  };
  for await (const { data } of parts) {
    pending.push(data as Uint8Array<ArrayBuffer>);
    size += data.length;
    bytes += data.length;
    if (size >= flushSize) flush();
  }
  flush();
  return whole;
}

/** Returns a portable file name that sorts by time: "palyra-journal-20260131T120000Z.csv". */
export function fileName(noun: string, form: ExportForm, at: Date): string {
  return `palyra-${noun}-${at.toISOString().replace(/\.\d+Z$/, "Z").replaceAll(/[-:]/g, "")}.${form}`;
}

/** Saves a blob as a download with this name. */
export function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser needs the URL only until the download starts.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
