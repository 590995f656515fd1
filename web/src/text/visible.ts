import { lookalikeRanges, unseenRanges } from "./unseen";

// Text of a model, a tool or a server can contain characters that reorder, hide or
// imitate other characters. visible replaces them with visible names.

/** A piece of plain text, or one character made visible. */
export interface Piece {
  text: string;
  /** The name of the character, for the tooltip and screen readers; absent for plain text. */
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

/** Turns ranges as unseen.ts has them (distance and length to base 36) into a part of a character class. */
function characters(ranges: string): string {
  let last = 0;
  let out = "";
  for (const range of ranges.split(" ")) {
    const [distance = "", length = "0"] = range.split(":");
    const first = last + parseInt(distance, 36);
    last = first + parseInt(length, 36);
    out += `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`;
  }
  return out;
}

const unseen = new RegExp(`[\\p{Cc}${characters(unseenRanges)}]`, "gu");
/** The look-alikes: the listed characters, and letters and digits of the supplementary multilingual plane. */
const lookalike = new RegExp(`[${characters(lookalikeRanges)}]|(?!\\p{Script=Latin})(?=[\\p{L}\\p{N}])[\\u{10000}-\\u{1ffff}]`, "gu");

/** A character that is not clear, and its place. */
interface Unclear {
  char: string;
  index: number;
}

/**
 * Returns the characters that are not clear in text, in order: those that a reader cannot see, and
 * those of other scripts that look like ASCII in a word with ASCII letters (UTS 39), as Go's text.Lookalikes.
 */
function unclear(text: string): Unclear[] {
  const found = Array.from(text.matchAll(unseen), (match) => ({ char: match[0], index: match.index }));
  const invisible = found.length;
  for (const word of text.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
    if (!/[A-Za-z]/.test(word[0])) continue;
    for (const match of word[0].matchAll(lookalike)) found.push({ char: match[0], index: word.index + match.index });
  }
  return found.length > invisible ? found.sort((a, b) => a.index - b.index) : found;
}

/** Splits text into plain pieces and characters made visible. */
export function makeVisible(text: string): Piece[] {
  const pieces: Piece[] = [];
  let last = 0;
  for (const { char, index } of unclear(text)) {
    if (char === "\n" || char === "\t") continue;
    // CR before LF is a line end like any other.
    if (char === "\r" && text[index + 1] === "\n") {
      if (index > last) pieces.push({ text: text.slice(last, index) });
      last = index + 1;
      continue;
    }
    if (index > last) pieces.push({ text: text.slice(last, index) });
    const code = char.codePointAt(0) ?? 0;
    const hex = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    const short = names[code];
    pieces.push({ text: short ?? hex, name: short === undefined ? hex : `${hex} ${short}` });
    last = index + char.length;
  }
  if (last < text.length) pieces.push({ text: text.slice(last) });
  return pieces;
}

/** Returns the visible text as one string, for titles, notifications and labels. */
export function visibleText(text: string): string {
  return makeVisible(text)
    .map((piece) => (piece.name === undefined ? piece.text : `⟨${piece.text}⟩`))
    .join("");
}

/** Returns the visible text as one line of at most `most` characters. */
export function oneLine(text: string, maxLength = 200): string {
  // Only the head is processed, so that the cost does not depend on the length of the text.
  const head = text.slice(0, maxLength * 4);
  const line = visibleText(head).replace(/\s+/g, " ").trim();
  return line.length > maxLength || head.length < text.length ? `${Array.from(line).slice(0, maxLength).join("")}…` : line;
}

/** Writes the characters of JSON text that are not clear as equivalent escapes, for fields that people edit. */
export function escapeInvisible(json: string): string {
  let out = "";
  let last = 0;
  for (const { char, index } of unclear(json)) {
    if (char === "\n" || char === "\t") continue;
    const escape = Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
    out += json.slice(last, index) + escape;
    last = index + char.length;
  }
  return out + json.slice(last);
}
