import type { Page } from "@playwright/test";

/** Counts the transferred bytes of pages, scripts and styles. */
export async function countTransfer(page: Page): Promise<() => number> {
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  const files = new Set<string>();
  let bytes = 0;
  network.on("Network.responseReceived", ({ requestId, type }) => {
    if (["Document", "Script", "Stylesheet", "Font", "Image", "Manifest"].includes(type)) files.add(requestId);
  });
  network.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (files.has(requestId)) bytes += encodedDataLength;
  });
  return () => bytes;
}
