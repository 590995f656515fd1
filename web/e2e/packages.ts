// Packages of a small skill, made by `palyra skills` as a publisher makes them.
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Gateway } from "./gateway";

/** A number as WebAssembly writes it (unsigned LEB128). */
function leb(n: number): number[] {
  return n < 128 ? [n] : [(n & 127) | 128, ...leb(n >>> 7)];
}

function section(id: number, ...bytes: readonly number[]): number[] {
  return [id, ...leb(bytes.length), ...bytes];
}

function name(text: string): number[] {
  return [text.length, ...Buffer.from(text)];
}

/**
 * A module of the palyra ABI whose result is its input. It holds so much data that its
 * package does not get to the gateway in one part.
 */
function echo(): Buffer {
  const i32 = 0x7f;
  const i64 = 0x7e;
  const data = 1_500_000;
  const code = [
    // palyra_alloc: the input goes to 1024.
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
  const segment = [1, 0, 0x41, ...[0x80, 0x80, 4], 0x0b, ...leb(data)];
  return Buffer.concat([Buffer.from([...head, 11, ...leb(segment.length + data), ...segment]), Buffer.alloc(data)]);
}

const manifest = (publisher: string, skill: string, version: string, asks: string) => `format = "palyra-skill/v1"
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
${asks}
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

  /** Makes a key for who signs under a name. Two of one name have two keys. */
  static async begin(gateway: Gateway, name: string): Promise<Publisher> {
    const key = join(await mkdtemp(join(gateway.dir, "publisher.")), "key");
    const made = JSON.parse(await gateway.palyra("skills", "keygen", key, "-o", "json")) as { key_id: string };
    return new Publisher(gateway, name, key, made.key_id);
  }

  /** The file of a version of a skill with the tool "say", which asks for something (TOML). */
  async package(skill: string, version: string, asks = ""): Promise<string> {
    const dir = await mkdtemp(join(this.#gateway.dir, "skill."));
    const file = `${dir}.palyra-skill`;
    await mkdir(join(dir, "modules"));
    await writeFile(join(dir, "skill.toml"), manifest(this.#name, skill, version, asks));
    await writeFile(join(dir, "modules", "echo.wasm"), echo());
    await this.#gateway.palyra("skills", "build", dir, "--key", this.#key, "--out", file);
    return file;
  }
}
