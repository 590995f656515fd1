import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { SettingSchema } from "../../gen/palyra/v1/console_pb";
import { filterSettings } from "./settings";

const settings = [
  create(SettingSchema, { key: "listen.api", toml: '"127.0.0.1:7443"', source: "default" }),
  create(SettingSchema, { key: "listen.console", toml: '""', source: "file" }),
  create(SettingSchema, { key: "policy.dir", toml: '"/etc/palyra"', source: "env" }),
  create(SettingSchema, { key: "profile", toml: '"dev"', source: "default" }),
];
const keys = (words: string, changed = false) => filterSettings(settings, words, changed).map(([table, group]) => [table, ...group.map((s) => s.key)]);

test("settings are grouped by table", () => {
  expect(keys("")).toEqual([
    ["listen", "listen.api", "listen.console"],
    ["policy", "policy.dir"],
    ["", "profile"],
  ]);
});

test("all words must match the key or the value", () => {
  expect(keys("LISTEN 7443")).toEqual([["listen", "listen.api"]]);
  expect(keys("listen etc")).toEqual([]);
});

test("settings can be limited to changed ones", () => {
  expect(keys("", true)).toEqual([
    ["listen", "listen.console"],
    ["policy", "policy.dir"],
  ]);
});
