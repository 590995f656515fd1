// Whether somebody is at this page. What the page asks for by itself, because the stream
// said that something changed, does not put off the end of a session that nobody uses.

const idle = 60_000;
let last = Date.now();

for (const kind of ["pointerdown", "pointermove", "keydown", "wheel", "touchstart"]) {
  addEventListener(kind, () => (last = Date.now()), { capture: true, passive: true });
}

/** Whether a request now is the page's own and not a person's. */
export function inBackground(): boolean {
  return document.visibilityState === "hidden" || Date.now() - last > idle;
}
