// A command line for a POSIX shell, from words that may be anything.

const safe = /^[A-Za-z0-9_@%+=:,./-]+$/;

/** Quotes one word for a POSIX shell. */
export function quote(word: string): string {
  return safe.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The command `palyra` with these words. */
export function palyra(...words: string[]): string {
  return ["palyra", ...words.map(quote)].join(" ");
}
