import { expect, test } from "vitest";
import { addressProblem, renderQrCode, isLoopback, pairingLink } from "./pairing";

const ca = `sha256:${"fb".repeat(31)}ff`;

test("pairingLink returns the link for palyra pair", () => {
  // TestLink of internal/identity/pairing reads the same text.
  const link = "palyra://pair?address=192.0.2.7%3A7443&ca=-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_8&code=k7qf3m2x&token=AAECAwQFBgcICQoLDA0ODw";
  expect(pairingLink("192.0.2.7:7443", ca, "k7qf3m2x", "AAECAwQFBgcICQoLDA0ODw")).toBe(link);
  expect(pairingLink("[2001:db8::1]:7443", ca, "k7qf3m2x", "AA")).toContain("address=%5B2001%3Adb8%3A%3A1%5D%3A7443&");
});

test("addressProblem accepts HOST:PORT", () => {
  for (const good of ["192.0.2.7:7443", "gw.example.org:1", "[::1]:65535", "localhost:7443"]) expect(addressProblem(good)).toBeUndefined();
  for (const bad of ["", "192.0.2.7", ":7443", "a b:1", "gw:0", "gw:65536", "http://gw:1"]) expect(addressProblem(bad)).toBeDefined();
  expect(isLoopback("127.0.0.1:7443") && isLoopback("localhost:7443") && isLoopback("[::1]:7443") && isLoopback("palyra-x.localhost:7443")).toBe(true);
  expect(isLoopback("192.0.2.7:7443")).toBe(false);
});

test("draw renders the three finder patterns of a QR code", () => {
  const { size, path } = renderQrCode(pairingLink("192.0.2.7:7443", ca, "k7qf3m2x", "AAECAwQFBgcICQoLDA0ODw"));
  expect((size - 17) % 4).toBe(0);
  const dark = new Set([...path.matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => `${x ?? ""},${y ?? ""}`));
  for (const [left, top] of [
    [0, 0],
    [size - 7, 0],
    [0, size - 7],
  ] as const) {
    for (let i = 0; i < 7; i++) {
      expect(dark.has(`${left + i},${top}`)).toBe(true);
      expect(dark.has(`${left + i},${top + 6}`)).toBe(true);
    }
    expect(dark.has(`${left + 1},${top + 1}`)).toBe(false);
    expect(dark.has(`${left + 3},${top + 3}`)).toBe(true);
  }
});
