// What the screen of settings reckons out.
import type { Setting } from "../../gen/palyra/v1/console_pb";

/** The settings whose key or value has all words, and that are changed where only those are wanted; by table, in the order of the gateway. */
export function grouped(settings: readonly Setting[], words: string, changed: boolean): [string, Setting[]][] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = new Map<string, Setting[]>();
  for (const setting of settings) {
    if (changed && setting.source === "default") continue;
    const text = `${setting.key} ${setting.toml}`.toLowerCase();
    if (!wanted.every((word) => text.includes(word))) continue;
    const dot = setting.key.indexOf(".");
    const table = dot < 0 ? "" : setting.key.slice(0, dot);
    const group = groups.get(table);
    if (group === undefined) groups.set(table, [setting]);
    else group.push(setting);
  }
  return [...groups];
}
