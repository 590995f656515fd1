/** Joins class names; what is no word is left out. */
export function cx(...names: (string | boolean | undefined)[]): string {
  return names.filter((name) => typeof name === "string" && name !== "").join(" ");
}
