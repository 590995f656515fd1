import { unseen } from "./unseen";

// What a model, a tool or a server wrote is text that may lie about its own look:
// characters that reorder, hide or imitate. visible makes them seen.

/** A piece of text as it is, or one character made visible. */
export interface Piece {
  text: string;
  /** What the character is, for a tooltip and for screen readers; absent for plain text. */
  name?: string;
}

const names: Readonly<Record<number, string>> = {
  0x00: "NUL",
  0x07: "BEL",
  0x08: "BS",
  0x0d: "CR",
  0x1b: "ESC",
  0x7f: "DEL",
  0x85: "NEL",
  0xa0: "NBSP",
  0xad: "SHY",
  0x034f: "CGJ",
  0x061c: "ALM",
  0x115f: "HCF",
  0x1160: "HJF",
  0x17b4: "KIV AQ",
  0x17b5: "KIV AA",
  0x180e: "MVS",
  0x200b: "ZWSP",
  0x200c: "ZWNJ",
  0x200d: "ZWJ",
  0x200e: "LRM",
  0x200f: "RLM",
  0x2028: "LSEP",
  0x2029: "PSEP",
  0x202a: "LRE",
  0x202b: "RLE",
  0x202c: "PDF",
  0x202d: "LRO",
  0x202e: "RLO",
  0x2060: "WJ",
  0x2066: "LRI",
  0x2067: "RLI",
  0x2068: "FSI",
  0x2069: "PDI",
  0x3164: "HF",
  0xfeff: "BOM",
  0xffa0: "HHF",
};

/** Splits text into what may be shown as it is and what is made visible. */
export function visible(text: string): Piece[] {
  const pieces: Piece[] = [];
  let last = 0;
  for (const match of text.matchAll(unseen)) {
    const char = match[0];
    if (char === "\n" || char === "\t") continue;
    // CR before LF is a line end like any other.
    if (char === "\r" && text[match.index + 1] === "\n") {
      if (match.index > last) pieces.push({ text: text.slice(last, match.index) });
      last = match.index + 1;
      continue;
    }
    if (match.index > last) pieces.push({ text: text.slice(last, match.index) });
    const code = char.codePointAt(0) ?? 0;
    const hex = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    const short = names[code];
    pieces.push({ text: short ?? hex, name: short === undefined ? hex : `${hex} ${short}` });
    last = match.index + char.length;
  }
  if (last < text.length) pieces.push({ text: text.slice(last) });
  return pieces;
}

/** Visible text as one string, for titles, notifications and labels. */
export function plain(text: string): string {
  return visible(text)
    .map((piece) => (piece.name === undefined ? piece.text : `⟨${piece.text}⟩`))
    .join("");
}

/** One line of at most so many characters, for places that have no room. */
export function oneLine(text: string, most = 200): string {
  // What is cut away is not looked at: a title of a megabyte costs nothing.
  const head = text.slice(0, most * 4);
  const line = plain(head).replace(/\s+/g, " ").trim();
  return line.length > most || head.length < text.length ? `${Array.from(line).slice(0, most).join("")}…` : line;
}

/** JSON text in which what hides is written as an escape, which says the same: for fields that people edit. */
export function escaped(json: string): string {
  return json.replace(unseen, (char) =>
    char === "\n" || char === "\t" ? char : Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, "0")}`).join(""),
  );
}
