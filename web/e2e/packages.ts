// Creates packages of a small skill with `palyra skills`.
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Gateway } from "./gateway";

/** Encodes a number as unsigned LEB128. */
function encodeLeb128(n: number): number[] {
  return n < 128 ? [n] : [(n & 127) | 128, ...encodeLeb128(n >>> 7)];
}

function section(id: number, ...bytes: readonly number[]): number[] {
  return [id, ...encodeLeb128(bytes.length), ...bytes];
}

function name(text: string): number[] {
  return [text.length, ...Buffer.from(text)];
}

/**
 * Returns a module of the palyra ABI that returns its input. Its data segment makes the package
 * larger than one upload part.
 */
function echoModule(): Buffer {
  const i32 = 0x7f;
  const i64 = 0x7e;
  const data = 1_500_000;
  const code = [
    // palyra_alloc: the input is written at address 1024.
    [0, 0x41, ...[0x80, 8], 0x0b],
    // run: place << 32 | size.
    [0, 0x20, 0, 0xad, 0x42, 32, 0x86, 0x20, 1, 0xad, 0x84, 0x0b],
  ];
  const head = [
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, 2, 0x60, 1, i32, 1, i32, 0x60, 2, i32, i32, 1, i64),
    ...section(3, 2, 0, 1),
    ...section(5, 1, 0, 32),
    ...section(7, 3, ...name("memory"), 2, 0, ...name("palyra_alloc"), 0, 0, ...name("run"), 0, 1),
    ...section(10, code.length, ...code.flatMap((body) => [body.length, ...body])),
  ];
  // One segment at 65536.
  const segment = [1, 0, 0x41, ...[0x80, 0x80, 4], 0x0b, ...encodeLeb128(data)];
  return Buffer.concat([Buffer.from([...head, 11, ...encodeLeb128(segment.length + data), ...segment]), Buffer.alloc(data)]);
}

const manifest = (publisher: string, skill: string, version: string, permissions: string) => `format = "palyra-skill/v1"
id = "${skill}"
name = "Echo"
version = "${version}"
publisher = "${publisher}"
description = "Says <b>what it hears</b>."
[compatibility]
interface = "0.1.0"
[[tools]]
id = "say"
description = "The result is the input. <script>alert(1)</script>"
module = "modules/echo.wasm"
risk = 1
input_schema = '{"type": "object", "properties": {"text": {"type": "string"}}}'
[tools.capabilities]
${permissions}
`;

/** A publisher with a key. */
export class Publisher {
  readonly #gateway: Gateway;
  readonly #name: string;
  readonly #key: string;
  /** The id of the key. */
  readonly keyId: string;

  private constructor(gateway: Gateway, name: string, key: string, keyId: string) {
    this.#gateway = gateway;
    this.#name = name;
    this.#key = key;
    this.keyId = keyId;
  }

  /** Creates a key for a publisher name. Two publishers with one name have different keys. */
  static async create(gateway: Gateway, name: string): Promise<Publisher> {
    const key = join(await mkdtemp(join(gateway.dir, "publisher.")), "key");
    const result = JSON.parse(await gateway.palyra("skills", "keygen", key, "-o", "json")) as { key_id: string };
    return new Publisher(gateway, name, key, result.key_id);
  }

  /** Builds a version of a skill with the tool "say" and its permissions (TOML), and returns the file. */
  async package(skill: string, version: string, asks = ""): Promise<string> {
    const dir = await mkdtemp(join(this.#gateway.dir, "skill."));
    const file = `${dir}.palyra-skill`;
    await mkdir(join(dir, "modules"));
    await writeFile(join(dir, "skill.toml"), manifest(this.#name, skill, version, asks));
    await writeFile(join(dir, "modules", "echo.wasm"), echoModule());
    await this.#gateway.palyra("skills", "build", dir, "--key", this.#key, "--out", file);
    return file;
  }
}
