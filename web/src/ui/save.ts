// Copies that a browser keeps as files.
import { ExportFormat } from "../gen/palyra/v1/approvals_pb";

export type ExportForm = "ndjson" | "json" | "csv";

/** The forms of exports, as the gateway and people call them. */
export const exportForms: Readonly<Record<ExportForm, { label: string; type: string; format: ExportFormat }>> = {
  ndjson: { label: "NDJSON: a line each, for programs", type: "application/x-ndjson", format: ExportFormat.NDJSON },
  json: { label: "JSON: one document", type: "application/json", format: ExportFormat.JSON },
  csv: { label: "CSV: for spreadsheets", type: "text/csv", format: ExportFormat.CSV },
};

const together = 8 << 20;

/** What comes in parts as one blob, which the browser can put on disk. told hears how many bytes there are. */
export async function gathered(parts: AsyncIterable<{ data: Uint8Array }>, told: (bytes: number) => void): Promise<Blob> {
  let whole = new Blob();
  let waiting: BlobPart[] = [];
  let size = 0;
  let bytes = 0;
  const put = () => {
    whole = new Blob([whole, ...waiting]);
    waiting = [];
    size = 0;
    told(bytes);
  };
  for await (const { data } of parts) {
    waiting.push(data as Uint8Array<ArrayBuffer>);
    size += data.length;
    bytes += data.length;
    if (size >= together) put();
  }
  put();
  return whole;
}

/** A name that sorts by time and that every system takes: "palyra-journal-20260131T120000Z.csv". */
export function fileName(what: string, form: ExportForm, at: Date): string {
  return `palyra-${what}-${at.toISOString().replace(/\.\d+Z$/, "Z").replaceAll(/[-:]/g, "")}.${form}`;
}

/** Has the browser keep a blob under a name. */
export function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser has opened it by the next minute.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
