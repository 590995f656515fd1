// Builds command lines for a POSIX shell from arbitrary words.

const safe = /^[A-Za-z0-9_@%+=:,./-]+$/;

/** Quotes one word for a POSIX shell. */
export function quote(word: string): string {
  return safe.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Returns the command line of `palyra` with these arguments. */
export function palyra(...words: string[]): string {
  return ["palyra", ...words.map(quote)].join(" ");
}
