/** Joins class names; values other than non-empty strings are skipped. */
export function cx(...names: (string | boolean | undefined)[]): string {
  return names.filter((name) => typeof name === "string" && name !== "").join(" ");
}
