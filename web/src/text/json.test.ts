import { expect, test } from "vitest";
import { compact, layOut, leaves } from "./json";

test("JSON is laid out with its numbers and strings as they are written", () => {
  expect(layOut('{"a":[1,{"b":9007199254740993}],"c":"x\\" y","d":{},"e":[ ]}')).toBe('{\n  "a": [\n    1,\n    {\n      "b": 9007199254740993\n    }\n  ],\n  "c": "x\\" y",\n  "d": {},\n  "e": []\n}');
  expect(layOut('{"a":')).toBe('{"a":');
  expect(compact(' { "a b" : [ 1.0 , true ] } ')).toBe('{"a b":[1.0,true]}');
});

test("the leaves by pointer", () => {
  expect([...leaves('{"a/b":{"~":[1,"x"]},"e":{},"":null}')]).toEqual([
    ["/a~1b/~0/0", "1"],
    ["/a~1b/~0/1", '"x"'],
    ["/e", "{}"],
    ["/", "null"],
  ]);
});
