// The filter of the settings screen.
import type { Setting } from "../../gen/palyra/v1/console_pb";

/** Returns the settings that contain all words, optionally only changed ones, grouped by table in the order of the gateway. */
export function filterSettings(settings: readonly Setting[], words: string, changed: boolean): [string, Setting[]][] {
  const searchWords = words.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = new Map<string, Setting[]>();
  for (const setting of settings) {
    if (changed && setting.source === "default") continue;
    const text = `${setting.key} ${setting.toml}`.toLowerCase();
    if (!searchWords.every((word) => text.includes(word))) continue;
    const dot = setting.key.indexOf(".");
    const table = dot < 0 ? "" : setting.key.slice(0, dot);
    const group = groups.get(table);
    if (group === undefined) groups.set(table, [setting]);
    else group.push(setting);
  }
  return [...groups];
}
