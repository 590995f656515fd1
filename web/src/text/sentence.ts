/** Formats a message of the gateway as a sentence: with a capital letter and a full stop. */
export function sentence(text: string): string {
  if (text === "") return "";
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?:]$/.test(first) ? first : `${first}.`;
}
