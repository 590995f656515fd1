/** A verification error with the first invalid or missing event and the line of the export. */
export class Fault extends Error {
  override name = "Fault";
  seq: number | undefined;
  line: number | undefined;

  constructor(what: string, at: { seq?: number | undefined; line?: number | undefined } = {}) {
    super(what);
    this.seq = at.seq;
    this.line = at.line;
  }
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
