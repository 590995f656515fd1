// The link of a pairing, and its QR code.
import qrcode from "qrcode-generator";

/**
 * Returns the link of a pairing code for `palyra pair`: the gateway's address, the SHA-256 of
 * its CA, the code's id and its token. ca is "sha256:" and hex.
 */
export function pairingLink(address: string, ca: string, code: string, token: string): string {
  const query = new URLSearchParams([
    ["address", address],
    ["ca", base64url(ca.replace(/^sha256:/, ""))],
    ["code", code],
    ["token", token],
  ]);
  return `palyra://pair?${query.toString()}`;
}

function base64url(hex: string): string {
  const bytes = (hex.match(/../g) ?? []).map((pair) => String.fromCharCode(parseInt(pair, 16)));
  return btoa(bytes.join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Returns the problem with a HOST:PORT address, or undefined. */
export function addressProblem(address: string): string | undefined {
  const match = /^(?:\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+):(\d{1,5})$/.exec(address);
  return match !== null && Number(match[1]) >= 1 && Number(match[1]) <= 65535 ? undefined : "Use HOST:PORT, such as 192.0.2.7:7443.";
}

/** Whether an address is a loopback address. */
export function isLoopback(address: string): boolean {
  return /^(?:(?:[A-Za-z0-9-]+\.)*localhost|127\.[0-9.]+|\[::1\]):/.test(address);
}

/** A QR code: the number of modules per side, and the dark modules as an SVG path. */
export interface QrCode {
  size: number;
  path: string;
}

/** Renders a text as a QR code (ISO/IEC 18004) of level L, like the command line. */
export function renderQrCode(text: string): QrCode {
  const code = qrcode(0, "L");
  code.addData(text, "Byte");
  code.make();
  const size = code.getModuleCount();
  let path = "";
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      if (code.isDark(y, x)) path += `M${x} ${y}h1v1h-1z`;
    }
  }
  return { size, path };
}
