/** Formats a number with its noun: "1 call", "2,000 calls". */
export function formatCount(n: number | bigint, one: string, many = `${one}s`): string {
  return `${n.toLocaleString()} ${Number(n) === 1 ? one : many}`;
}
