import { expect, test } from "vitest";
import { compactJson, indentJson, leaves } from "./json";

test("layOut keeps numbers and strings as written", () => {
  expect(indentJson('{"a":[1,{"b":9007199254740993}],"c":"x\\" y","d":{},"e":[ ]}')).toBe('{\n  "a": [\n    1,\n    {\n      "b": 9007199254740993\n    }\n  ],\n  "c": "x\\" y",\n  "d": {},\n  "e": []\n}');
  expect(indentJson('{"a":')).toBe('{"a":');
  expect(compactJson(' { "a b" : [ 1.0 , true ] } ')).toBe('{"a b":[1.0,true]}');
});

test("leaves returns the leaf values by JSON Pointer", () => {
  expect([...leaves('{"a/b":{"~":[1,"x"]},"e":{},"":null}')]).toEqual([
    ["/a~1b/~0/0", "1"],
    ["/a~1b/~0/1", '"x"'],
    ["/e", "{}"],
    ["/", "null"],
  ]);
});
